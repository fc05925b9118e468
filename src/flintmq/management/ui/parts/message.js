// A message for people: where it came from, what it says of itself, and its body.
import { html } from "../core/html.js";
import { bytes, moment, plain } from "../core/format.js";
import { Dialog } from "./dialog.js";
import { Facts } from "./states.js";

/** What `search` was found in, with the places marked. */
export function Marked({ text, search }) {
  if (!search) return text;
  const parts = [];
  const small = text.toLowerCase();
  const wanted = search.toLowerCase();
  let from = 0;
  for (let at = small.indexOf(wanted); at >= 0 && parts.length < 80; at = small.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + wanted.length)}</mark>`);
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}

export function isText(message) {
  return message.payload_encoding === "string";
}

/** The body in one line. */
export function preview(message) {
  if (message.payload_bytes === 0) return "(empty body)";
  return isText(message) ? message.payload.replace(/\s+/g, " ").slice(0, 400) : `(${bytes(message.payload_bytes)} of binary data)`;
}

export function deathsOf(message) {
  const deaths = message.properties?.headers?.["x-death"];
  return Array.isArray(deaths) ? deaths : [];
}

function body(message) {
  if (!isText(message)) return message.payload;
  const type = String(message.properties?.content_type ?? "");
  if (!type.includes("json")) return message.payload;
  try {
    return JSON.stringify(JSON.parse(message.payload), null, 2);
  } catch {
    return message.payload;
  }
}

export function MessageDialog({ message, search = "", onClose }) {
  const { headers = {}, timestamp, ...properties } = message.properties ?? {};
  return html`<${Dialog} title=${message.routing_key ? `Message to ${message.routing_key}` : "Message"} broad=${true} onClose=${onClose}>
    <div class="stack">
      <div>
        <h3>Body <span class="quiet">· ${bytes(message.payload_bytes)}${isText(message) ? "" : " · base64"}</span></h3>
        <pre tabindex="0"><${Marked} text=${body(message)} search=${search} /></pre>
      </div>
      <${Facts} facts=${[
        ["Exchange", message.exchange === "" ? "(default)" : message.exchange],
        ["Routing key", message.routing_key],
        ["Redelivered", message.redelivered === undefined ? undefined : message.redelivered ? "yes" : "no"],
        ["Published", timestamp ? moment(timestamp * 1000) : undefined],
        ...Object.entries(properties).map(([name, value]) => [name, plain(value)]),
      ]} />
      ${Object.keys(headers).length > 0 && html`<div><h3>Headers</h3><${Facts} facts=${Object.entries(headers).map(([name, value]) => [
        html`<code>${name}</code>`, html`<code><${Marked} text=${plain(value)} search=${search} /></code>`,
      ])} /></div>`}
    </div>
  <//>`;
}
