// Who is logged in. Credentials live in this tab only and are sent by script only: there is no cookie that another site
// could make a browser send.
const KEY = "flintmq.session";

let session = read();
const watchers = new Set();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

export function current() {
  return session;
}

export function begin(next) {
  session = next;
  sessionStorage.setItem(KEY, JSON.stringify(next));
  watchers.forEach((watcher) => watcher());
}

export function end(reason = "") {
  session = null;
  sessionStorage.removeItem(KEY);
  watchers.forEach((watcher) => watcher(reason));
}

export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** The value of an Authorization header; names and passwords are UTF-8. */
export function basic(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

export function mayAdminister() {
  return hasTag("administrator");
}

export function mayMonitor() {
  return hasTag("administrator", "monitoring");
}

export function maySetPolicies() {
  return hasTag("administrator", "policymaker");
}

function hasTag(...wanted) {
  return wanted.some((tag) => session?.tags.includes(tag));
}
