// Light, dark, or what the system says.
import { useEffect, useState } from "./html.js";

const KEY = "flintmq.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set();

export function theme() {
  return document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

export function switchTheme() {
  const next = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(KEY, next);
  watchers.forEach((watcher) => watcher(next));
}

export function useTheme() {
  const [value, setValue] = useState(theme);
  useEffect(() => {
    const changed = () => setValue(theme());
    watchers.add(changed);
    system.addEventListener("change", changed);
    return () => {
      watchers.delete(changed);
      system.removeEventListener("change", changed);
    };
  }, []);
  return value;
}

/** A colour of tokens.css as the theme has it now, for what is drawn on a canvas. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
