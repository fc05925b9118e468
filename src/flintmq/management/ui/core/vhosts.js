// The virtual host that lists are narrowed to; "" is all of them.
import { useEffect, useState } from "./html.js";

const KEY = "flintmq.vhost";
const watchers = new Set();
let chosen = sessionStorage.getItem(KEY) ?? "";

export function choose(vhost) {
  chosen = vhost;
  sessionStorage.setItem(KEY, vhost);
  watchers.forEach((watcher) => watcher(vhost));
}

export function useVhost() {
  const [value, setValue] = useState(chosen);
  useEffect(() => {
    watchers.add(setValue);
    return () => watchers.delete(setValue);
  }, []);
  return value;
}
