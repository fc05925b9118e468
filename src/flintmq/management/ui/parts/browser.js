// The messages of a queue as a list that some can be picked from.
import { bytes, count } from "../core/format.js";
import { html, useEffect, useState } from "../core/html.js";
import { browse } from "../core/own-api.js";
import { deathsOf, Marked, MessageDialog, preview } from "./message.js";
import { Tags, Trouble, Waiting } from "./states.js";

const PAGE = 50;

/** Loads pages of a queue's messages; `turn` changes when it is to begin again. */
export function useMessages(source, search, turn) {
  const [state, setState] = useState({ messages: null, next: null, looked: 0, error: null, busy: true });
  const from = `${source.vhost} ${source.queue} ${search} ${turn}`;
  useEffect(() => {
    let wanted = true;
    setState({ messages: null, next: null, looked: 0, error: null, busy: true });
    browse({ ...source, search, count: PAGE })
      .then((page) => wanted && setState({ messages: page.messages, next: page.next, looked: page.looked, error: null, busy: false }))
      .catch((error) => wanted && setState({ messages: null, next: null, looked: 0, error, busy: false }));
    return () => {
      wanted = false;
    };
  }, [from]);
  const more = async () => {
    setState((before) => ({ ...before, busy: true }));
    try {
      const page = await browse({ ...source, search, after: state.next, count: PAGE });
      setState((before) => ({
        messages: [...before.messages, ...page.messages], next: page.next, looked: before.looked + page.looked, error: null, busy: false,
      }));
    } catch (error) {
      setState((before) => ({ ...before, error, busy: false }));
    }
  };
  return { ...state, more };
}

/** `picked` is a set of positions; `actions` stand beside how many there are. */
export function MessageList({ loaded, search = "", picked, onPicked, actions, empty, pickable = true }) {
  const [open, setOpen] = useState(null);
  const { messages, next, error, busy, more } = loaded;
  if (error && !messages) return html`<${Trouble} error=${error} />`;
  if (!messages) return html`<${Waiting} />`;
  if (!messages.length && next === null) return empty;
  const all = messages.length > 0 && messages.every((message) => picked.has(message.position));
  const toggle = (position) => {
    const now = new Set(picked);
    if (!now.delete(position)) now.add(position);
    onPicked(now);
  };
  return html`
    ${pickable && html`<div class="picked-bar">
      <label class="check"><input type="checkbox" checked=${all} onChange=${() => onPicked(all ? new Set() : new Set(messages.map((message) => message.position)))} />
        ${picked.size ? `${count(picked.size)} selected` : `Select all ${count(messages.length)} shown`}</label>
      <span class="grow"></span>${actions}
    </div>`}
    <ol class="messages" aria-label="Messages">
      ${messages.map((message) => html`<li class="message" key=${message.position}>
        ${pickable && html`<input type="checkbox" aria-label=${`Select message ${message.position}`} checked=${picked.has(message.position)} onChange=${() => toggle(message.position)} />`}
        <div>
          <div class="facts-line">
            <b><${Marked} text=${message.routing_key || "(no routing key)"} search=${search} /></b>
            <span>${message.exchange || "default exchange"}</span><span>${bytes(message.payload_bytes)}</span><span>#${message.position}</span>
            <${Tags} tags=${tagsOf(message)} />
          </div>
          <button type="button" class="preview" onClick=${() => setOpen(message)}><${Marked} text=${preview(message)} search=${search} /></button>
        </div>
      </li>`)}
    </ol>
    ${next !== null && html`<div class="pager">
      <button type="button" class="button" disabled=${busy} onClick=${more}>${busy ? "Loading…" : "Load more"}</button>
    </div>`}
    ${error && html`<p class="complaint">${error.message}</p>`}
    ${open && html`<${MessageDialog} message=${open} search=${search} onClose=${() => setOpen(null)} />`}`;
}

function tagsOf(message) {
  const tags = [];
  if (message.redelivered) tags.push(["redelivered", "warn"]);
  const [death] = deathsOf(message);
  if (death) tags.push([`${death.reason} on ${death.queue}${death.count > 1 ? ` ×${death.count}` : ""}`, "bad"]);
  return tags;
}
