// What lists and pages of queues share.
import { path, put } from "../core/api.js";
import { count } from "../core/format.js";
import { note, seen } from "../core/history.js";
import { html, useState } from "../core/html.js";
import { link } from "../core/router.js";
import { FormDialog } from "./dialog.js";
import { Check, Choice, Field, Pairs, tableOf } from "./field.js";
import { QUEUE_ARGUMENTS } from "./names.js";
import { say } from "./notices.js";
import { RateCell } from "./sparkline.js";
import { Tags } from "./states.js";

export function rateOf(object, name) {
  return object?.message_stats?.[`${name}_details`]?.rate ?? 0;
}

export function deliveryRate(queue) {
  return rateOf(queue, "deliver_get");
}

const keyOf = (queue, what) => `${what} ${queue.vhost} ${queue.name}`;

/** Adds what a list said of each queue to its shape. */
export function noteQueues(queues) {
  for (const queue of queues) {
    note(keyOf(queue, "in"), rateOf(queue, "publish"));
    note(keyOf(queue, "out"), deliveryRate(queue));
    note(keyOf(queue, "ready"), queue.messages_ready);
    note(keyOf(queue, "unacked"), queue.messages_unacknowledged);
  }
}

export function seenOf(queue, what) {
  return seen(keyOf(queue, what));
}

export function QueueName({ queue }) {
  return html`<a href=${link(queue.type === "stream" ? "streams" : "queues", queue.vhost, queue.name)}>${queue.name}</a>`;
}

/** A column that is there where lists show several virtual hosts. */
export const VHOST_COLUMN = { key: "vhost", label: "Virtual host", sort: "vhost", render: (object) => html`<span class="quiet">${object.vhost}</span>` };

export function Numbered({ value, tone }) {
  return html`<span class=${value ? tone ?? "" : "zero"}>${count(value ?? 0)}</span>`;
}

const SHORT = new Map([
  ["x-message-ttl", "TTL"], ["x-expires", "expires"], ["x-max-length", "limit"], ["x-max-length-bytes", "limit"],
  ["x-dead-letter-exchange", "dead letters"], ["x-max-priority", "priorities"], ["x-single-active-consumer", "single active"],
  ["x-delivery-limit", "delivery limit"], ["x-last-value-key", "last value"], ["x-max-age", "max age"],
]);

export function queueTags(queue) {
  const tags = queue.paused ? [["paused", "warn", "Consumers get no messages until it is resumed"]] : [];
  if (queue.type === "stream") tags.push(["stream", "info"]);
  else if (queue.type && queue.type !== "classic") tags.push([queue.type, "info"]);
  if (!queue.durable) tags.push(["transient", "", "Deleted when the broker restarts"]);
  if (queue.exclusive) tags.push(["exclusive", "", "Belongs to one connection"]);
  if (queue.auto_delete) tags.push(["auto-delete", "", "Deleted when its last consumer is gone"]);
  const known = new Set();
  for (const [name, value] of Object.entries(queue.arguments ?? {})) {
    const short = SHORT.get(name);
    if (short && !known.has(short)) tags.push([short, "", `${name}: ${value}`]);
    known.add(short);
  }
  if (queue.policy) tags.push([queue.policy, "good", `Policy ${queue.policy}`]);
  return tags;
}

export function StateTag({ queue }) {
  const state = queue.state ?? "running";
  return html`<${Tags} tags=${[[state, state === "running" ? "good" : state === "idle" ? "" : "warn"]]} />`;
}

export function NewQueue({ vhosts, vhost, stream = false, onClose, onDone }) {
  const [place, setPlace] = useState(vhost || vhosts[0] || "/");
  const [name, setName] = useState("");
  const [type, setType] = useState(stream ? "stream" : "classic");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [pairs, setPairs] = useState([]);
  const act = async () => {
    const table = tableOf(pairs);
    if (type !== "classic") table["x-queue-type"] = type;
    await put(path`queues/${place}/${name}`, { durable: durable || type !== "classic", auto_delete: autoDelete, arguments: table });
    say(`${type === "stream" ? "Stream" : "Queue"} ${name} created.`);
    onDone?.(place, name);
  };
  return html`<${FormDialog} title=${stream ? "New stream" : "New queue"} verb="Create" ready=${name !== ""} act=${act} onClose=${onClose}>
    <${Field} label="Name" value=${name} onValue=${setName} autofocus=${true} required=${true} />
    <div class="pair">
      <${Choice} label="Virtual host" value=${place} onValue=${setPlace} choices=${vhosts} />
      <${Choice} label="Type" value=${type} onValue=${setType} choices=${[["classic", "Classic"], ["quorum", "Quorum"], ["stream", "Stream"]]} />
    </div>
    ${type === "classic" && html`<div class="row">
      <${Check} label="Durable" value=${durable} onValue=${setDurable} />
      <${Check} label="Delete with its last consumer" value=${autoDelete} onValue=${setAutoDelete} />
    </div>`}
    <${Pairs} label="Arguments" names=${QUEUE_ARGUMENTS} pairs=${pairs} onPairs=${setPairs} />
  <//>`;
}

export function RateIn({ queue }) {
  return html`<${RateCell} value=${rateOf(queue, "publish")} values=${seenOf(queue, "in")} tone="1" />`;
}

export function RateOut({ queue }) {
  return html`<${RateCell} value=${deliveryRate(queue)} values=${seenOf(queue, "out")} tone="3" />`;
}
