import { path, post, remove, withQuery } from "../core/api.js";
import { amountsOf, COURSE_QUERY, coursesOf, noteCourses, speedsOf } from "../core/course.js";
import { ago, brief, bytes, count, moment, plain, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { removeShown, usePoll } from "../core/poll.js";
import { go, link, linkWith } from "../core/router.js";
import { BindingsOf, NewBinding } from "../parts/bindings.js";
import { Course } from "../parts/chart.js";
import { Confirm } from "../parts/dialog.js";
import { attempt, say } from "../parts/notices.js";
import { PublishDialog } from "../parts/publish.js";
import { deliveryRate, Numbered, queueTags, rateOf, StateTag } from "../parts/queues.js";
import { Facts, Head, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table } from "../parts/table.js";

const SECONDS = 2;
const RATES = speedsOf([["Published", "publish"], ["Delivered", "deliver_get"], ["Acknowledged", "ack"]]);
const DEPTHS = amountsOf([["Ready", "messages_ready"], ["Unacknowledged", "messages_unacknowledged"]]);
const STREAM_DEPTHS = amountsOf([["Messages", "messages_ready"], ["Unacknowledged", "messages_unacknowledged"]]);

export function QueuePage({ names: [vhost, name] }) {
  const [dialog, setDialog] = useState("");
  const where = `queue ${vhost} ${name}`;
  const address = path`queues/${vhost}/${name}`;
  const { data: queue, error, refresh } = usePoll(withQuery(address, COURSE_QUERY), SECONDS, (one) => {
    noteCourses(where, RATES, one.message_stats);
    noteCourses(where, DEPTHS, one);
  });
  const bindings = usePoll(path`queues/${vhost}/${name}/bindings`, 10);
  const stream = queue?.type === "stream";
  const crumbs = html`${stream ? html`<a href="#/streams">Streams</a>` : html`<a href="#/queues">Queues</a>`} · ${vhost}`;
  if (!queue) return html`<${Head} title=${name} crumbs=${crumbs} />${error ? html`<${Trouble} error=${error} />` : html`<${Waiting} />`}`;
  const close = () => setDialog("");
  const act = (what, text, leave) => async () => {
    await what();
    say(text);
    if (leave) go(stream ? "#/streams" : "#/queues");
    else refresh();
  };
  const switchPause = async () => {
    const action = queue.paused ? "resume" : "pause";
    if (await attempt(() => post(path`queues/${vhost}/${name}/actions`, { action }), queue.paused ? "Consumers get messages again." : "Consumers get no messages until the queue is resumed.")) refresh();
  };
  return html`
    <${Head} title=${name} crumbs=${crumbs} badge=${html`<${StateTag} queue=${queue} /> <${Tags} tags=${queueTags(queue)} />`}>
      <button type="button" class="button primary" onClick=${() => setDialog("publish")}>Publish</button>
      <a class="button" href=${linkWith(["messages"], { vhost, queue: name })}>Browse messages</a>
      ${!stream && html`<button type="button" class="button" onClick=${switchPause}>${queue.paused ? "Resume" : "Pause"}</button>`}
      ${!stream && html`<button type="button" class="button danger" onClick=${() => setDialog("purge")}>Purge</button>`}
      <button type="button" class="button danger" onClick=${() => setDialog("delete")}>Delete</button>
    <//>
    <div class="stack">
      <dl class="stats six">
        ${numbersOf(queue).map(([text, value, unit]) => html`
          <div class="stat" key=${text}><dt>${text}</dt><dd>${value}${unit && html`<small> ${unit}</small>`}</dd></div>`)}
      </dl>
      <div class="columns">
        <${Panel} title="Messages"><${Course} label="Messages over the last minutes" courses=${coursesOf(where, stream ? STREAM_DEPTHS : DEPTHS, queue)} /><//>
        <${Panel} title="Messages per second"><${Course} label="Messages per second over the last minutes" courses=${coursesOf(where, RATES, queue.message_stats)} show=${rate} /><//>
      </div>
      <div class="columns">
        <${Panel} title=${stream ? "About this stream" : "About this queue"}><${Facts} facts=${factsOf(queue)} /><//>
        ${stream ? html`<${Readers} vhost=${vhost} name=${name} />` : html`<${Panel} title="Consumers" flush=${true}><${Consumers} consumers=${queue.consumer_details ?? []} /><//>`}
      </div>
      <${BindingsOf} title=${stream ? "Bindings to this stream" : "Bindings to this queue"} vhost=${vhost} bindings=${bindings.data ?? []} end="source" here=${{ kind: "queue", name }} stream=${stream}
        onChange=${bindings.refresh} onNew=${() => setDialog("bind")} />
    </div>
    ${dialog === "publish" && html`<${PublishDialog} vhost=${vhost} routingKey=${name} target=${name} onClose=${close} onDone=${refresh} />`}
    ${dialog === "bind" && html`<${NewBinding} vhost=${vhost} destination=${name} kind="queue" onClose=${close} onDone=${bindings.refresh} />`}
    ${dialog === "purge" && html`<${Confirm} title=${`Purge ${name}`} verb="Purge" onClose=${close} act=${act(() => remove(`${address}/contents`), "Queue purged.")}>
      <p>All ready messages are deleted and cannot be restored. Unacknowledged messages stay.</p><//>`}
    ${dialog === "delete" && html`<${Confirm} title=${`Delete ${name}`} verb="Delete" name=${name} onClose=${close} act=${act(() => removeShown(address, { alias: path`streams/${vhost}/${name}` }), `${name} is deleted.`, true)}>
      <p>${queue.messages ? `Its ${count(queue.messages)} messages are deleted with it. ` : ""}Its bindings are deleted too. This cannot be undone.</p><//>`}`;
}

function numbersOf(queue) {
  const rates = [["Published", rate(rateOf(queue, "publish")), "/s"], ["Delivered", rate(deliveryRate(queue)), "/s"]];
  if (queue.type === "stream") {
    return [["Messages", brief(queue.messages ?? 0)], ["On disk", bytes(queue.message_bytes)], ["First offset", count(queue.first_offset)], ["Next offset", count(queue.next_offset)], ...rates];
  }
  return [
    ["Ready", brief(queue.messages_ready ?? 0)], ["Unacknowledged", brief(queue.messages_unacknowledged ?? 0)], ...rates,
    ["Consumers", count(queue.consumers ?? 0)], ["Bodies", bytes(queue.message_bytes ?? 0)],
  ];
}

function factsOf(queue) {
  return [
    ["Type", queue.type], ["Policy", queue.policy], ["Operator policy", queue.operator_policy],
    ...Object.entries(queue.arguments ?? {}).filter(([name]) => name !== "x-queue-type").map(([name, value]) => [html`<code>${name}</code>`, html`<code>${plain(value)}</code>`]),
    ...Object.entries(queue.effective_policy_definition ?? {}).map(([name, value]) => [`${name} (by policy)`, html`<code>${plain(value)}</code>`]),
    ["Durable", queue.durable ? "yes" : "no"],
    ["Messages in memory", queue.messages_ram === undefined ? undefined : count(queue.messages_ram)],
    ["Memory", queue.memory ? bytes(queue.memory) : undefined],
    ["Owner", queue.owner_pid_details?.name],
    ["Idle since", queue.idle_since ? moment(Date.parse(`${queue.idle_since}`)) : undefined],
  ];
}

const CONSUMERS = [
  { key: "tag", label: "Consumer", render: (consumer) => html`<code>${consumer.consumer_tag}</code>` },
  {
    key: "channel", label: "Connection",
    render: ({ channel_details: channel }) => (channel?.connection_name ? html`<a href=${link("connections", channel.connection_name)}>${channel.connection_name}</a>` : "–"),
  },
  { key: "ack", label: "Acknowledges", optional: true, render: (consumer) => (consumer.ack_required ? "yes" : "no") },
  { key: "prefetch", label: "Prefetch", number: true, render: (consumer) => html`<${Numbered} value=${consumer.prefetch_count} />` },
  { key: "active", label: "Active", render: (consumer) => html`<${Tags} tags=${[consumer.active === false ? ["waiting", ""] : ["active", "good"]]} />` },
];

function Consumers({ consumers }) {
  if (!consumers.length) return html`<div class="empty"><p>This queue has no consumers.</p></div>`;
  return html`<${Table} label="Consumers" columns=${CONSUMERS} rows=${consumers} keyOf=${(consumer) => `${consumer.channel_details?.name} ${consumer.consumer_tag}`} />`;
}

const READERS = [
  { key: "name", label: "Reader", render: (reader) => html`<code>${reader.name || reader.consumer_tag}</code>` },
  { key: "state", label: "State", render: (reader) => html`<${Tags} tags=${[reader.active === undefined ? ["disconnected", "", "The broker keeps its offset"] : reader.active ? ["reading", "good"] : ["waiting", ""]]} />` },
  { key: "offset", label: "Offset", number: true, render: (reader) => count(reader.offset) },
  { key: "lag", label: "Lag", number: true, render: (reader) => html`<${Numbered} value=${reader.lag} />` },
];

/** Those that are there, and places of those that are not. */
function Readers({ vhost, name }) {
  const { data } = usePoll(path`streams/${vhost}/${name}`, 3);
  const present = data?.readers ?? [];
  const names = new Set(present.map((reader) => reader.name));
  const rows = [...present, ...(data?.places ?? []).filter((place) => !names.has(place.name))];
  return html`<${Panel} title="Readers" flush=${true}>
    ${rows.length
      ? html`<${Table} label="Readers" columns=${READERS} rows=${rows} keyOf=${(reader) => `${reader.name} ${reader.consumer_tag}`} />`
      : html`<div class="empty"><p>No consumer is attached, and no offset of a disconnected reader is stored.</p></div>`}
    ${data && html`<p class="foot quiet small">${rangesOf(data)}</p>`}
  <//>`;
}

/** Who reads by ranges, as Spark does, is not there between two of them, and keeps its offsets elsewhere. */
function rangesOf(stream) {
  const known = stream.fetched_at
    ? `offsets up to ${count(stream.fetched_offset - 1)} were read this way, last ${ago(stream.fetched_at)}`
    : "nothing was read this way";
  return `Spark reads ranges of offsets without a consumer, and keeps its offsets in its checkpoint. Since the broker started, ${known}.`;
}
