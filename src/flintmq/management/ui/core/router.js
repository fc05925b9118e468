// Places in the page's address, behind "#": "#/queues/%2F/orders?search=x".
import { useEffect, useState } from "./html.js";

export function link(...segments) {
  return `#/${segments.map(encodeURIComponent).join("/")}`;
}

export function linkWith(segments, query) {
  const given = Object.entries(query).filter(([, value]) => value);
  return link(...segments) + (given.length ? `?${new URLSearchParams(given)}` : "");
}

export function go(address) {
  location.hash = address.slice(1);
}

function read() {
  const [way, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { segments: way ? way.split("/").map(decoded) : [], query: new URLSearchParams(query) };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export function usePlace() {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const changed = () => setPlace(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}
