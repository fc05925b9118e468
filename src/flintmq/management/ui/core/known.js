// Lists that many pages need: asked once, and again when something was changed.
import { get } from "./api.js";
import { useEffect, useState } from "./html.js";

const cache = new Map();
const watchers = new Set();

export async function reload(address) {
  cache.set(address, await get(address));
  watchers.forEach((watcher) => watcher());
}

export function forgetKnown() {
  cache.clear();
}

function useKnown(address) {
  const [value, setValue] = useState(cache.get(address) ?? []);
  useEffect(() => {
    const changed = () => setValue(cache.get(address) ?? []);
    watchers.add(changed);
    if (cache.has(address)) changed();
    else reload(address).catch(() => {});
    return () => watchers.delete(changed);
  }, [address]);
  return value;
}

export const VHOSTS = "/api/vhosts?columns=name";

export function useVhostNames() {
  return useKnown(VHOSTS).map((vhost) => vhost.name);
}
