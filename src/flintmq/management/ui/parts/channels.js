// Channels in a table: on their own page, and on their connection's.
import { count } from "../core/format.js";
import { html } from "../core/html.js";
import { link } from "../core/router.js";
import { Numbered, rateOf } from "./queues.js";
import { RateCell } from "./sparkline.js";
import { note, seen } from "../core/history.js";
import { Tags } from "./states.js";

export function noteChannels(channels) {
  for (const channel of channels) {
    note(`channel in ${channel.name}`, rateOf(channel, "publish"));
    note(`channel out ${channel.name}`, rateOf(channel, "deliver_get"));
  }
}

function modeTags(channel) {
  const tags = [];
  if (channel.confirm) tags.push(["confirms", "info"]);
  if (channel.transactional) tags.push(["transactions", "info"]);
  if (channel.state && channel.state !== "running") tags.push([channel.state, channel.state === "idle" ? "" : "warn"]);
  return tags;
}

export const CHANNEL_COLUMNS = [
  {
    key: "name", label: "Channel", sort: "name",
    render: (channel) => html`<a href=${link("connections", channel.connection_details?.name ?? "")}>${channel.name}</a>`,
  },
  { key: "user", label: "User", sort: "user", optional: true, render: (channel) => html`<span>${channel.user}<span class="in-vhost">${channel.vhost}</span></span>` },
  { key: "mode", label: "Mode", render: (channel) => html`<${Tags} tags=${modeTags(channel)} />` },
  { key: "consumers", label: "Consumers", number: true, sort: "consumer_count", render: (channel) => html`<${Numbered} value=${channel.consumer_count} />` },
  { key: "prefetch", label: "Prefetch", number: true, sort: "prefetch_count", optional: true, render: (channel) => count(channel.prefetch_count ?? 0) },
  { key: "unacked", label: "Unacked", number: true, sort: "messages_unacknowledged", render: (channel) => html`<${Numbered} value=${channel.messages_unacknowledged} />` },
  { key: "in", label: "In /s", number: true, sort: "message_stats.publish_details.rate", render: (channel) => html`<${RateCell} value=${rateOf(channel, "publish")} values=${seen(`channel in ${channel.name}`)} tone="1" />` },
  { key: "out", label: "Out /s", number: true, sort: "message_stats.deliver_get_details.rate", render: (channel) => html`<${RateCell} value=${rateOf(channel, "deliver_get")} values=${seen(`channel out ${channel.name}`)} tone="3" />` },
];
