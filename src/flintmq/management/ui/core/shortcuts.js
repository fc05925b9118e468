// Keys: "/" for the search field, "g" and a letter for a page, "?" for the list of them. They can be switched off, for
// people whose software types for them.
import { go } from "./router.js";

const KEY = "flintmq.shortcuts";
const PAUSE_MS = 1200;

export function enabled() {
  return localStorage.getItem(KEY) !== "off";
}

export function enable(on) {
  localStorage.setItem(KEY, on ? "on" : "off");
}

export function listen(pages, { help, theme }) {
  const byLetter = new Map(pages.filter((page) => page.key).map((page) => [page.key, page]));
  let leading = 0;
  const pressed = (event) => {
    if (!enabled() || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const page = performance.now() - leading < PAUSE_MS ? byLetter.get(event.key) : undefined;
    leading = event.key === "g" ? performance.now() : 0;
    if (page) go(page.address);
    else if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
    else if (event.key === "?") help();
    else if (event.key === "t") theme();
    else return;
    event.preventDefault();
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

function isTyping(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}
