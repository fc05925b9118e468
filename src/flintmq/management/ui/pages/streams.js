import { path } from "../core/api.js";
import { bytes, count } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { usePoll } from "../core/poll.js";
import { go, link } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { Icon } from "../parts/icons.js";
import { NewQueue, noteQueues, Numbered, QueueName, RateIn, RateOut, VHOST_COLUMN } from "../parts/queues.js";
import { Empty, Head, Trouble, Waiting } from "../parts/states.js";
import { Table, useSorted } from "../parts/table.js";

function columnsOf(showVhost) {
  return [
    { key: "name", label: "Name", sort: "name", render: (stream) => html`<${QueueName} queue=${stream} />` },
    ...(showVhost ? [VHOST_COLUMN] : []),
    { key: "messages", label: "Messages", number: true, sort: "messages", render: (stream) => html`<${Numbered} value=${stream.messages} />` },
    { key: "first", label: "First offset", number: true, sort: "first_offset", render: (stream) => count(stream.first_offset) },
    { key: "next", label: "Next offset", number: true, sort: "next_offset", render: (stream) => count(stream.next_offset) },
    { key: "bytes", label: "On disk", number: true, optional: true, sort: "message_bytes", render: (stream) => bytes(stream.message_bytes) },
    { key: "segments", label: "Segments", number: true, optional: true, sort: "segments", render: (stream) => count(stream.segments) },
    { key: "consumers", label: "Consumers", number: true, sort: "consumers", render: (stream) => html`<${Numbered} value=${stream.consumers} />` },
    { key: "in", label: "In /s", number: true, render: (stream) => html`<${RateIn} queue=${stream} />` },
    { key: "out", label: "Out /s", number: true, render: (stream) => html`<${RateOut} queue=${stream} />` },
  ];
}

export function StreamsPage() {
  const vhost = useVhost();
  const vhosts = useVhostNames();
  const [making, setMaking] = useState(false);
  const { data, error } = usePoll(vhost ? path`streams/${vhost}` : "/api/streams", 5, noteQueues);
  const columns = columnsOf(!vhost && vhosts.length > 1);
  const sorted = useSorted(data ?? [], columns, { key: "name", reverse: false });
  const make = html`<button type="button" class="button primary" onClick=${() => setMaking(true)}><${Icon} name="plus" />New stream</button>`;
  return html`
    <${Head} title="Streams">${make}<//>
    <section class="panel">
      ${error && html`<${Trouble} error=${error} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${data?.length === 0 && html`<${Empty} icon="streams" title="No stream yet">
        <p>A stream keeps its messages. Any number of readers can read it from any offset or time, as often as they like.</p><div class="row">${make}</div>
      <//>`}
      ${data?.length > 0 && html`<${Table} label="Streams" columns=${columns} keyOf=${(stream) => link(stream.vhost, stream.name)} ...${sorted} />`}
    </section>
    ${making && html`<${NewQueue} stream=${true} vhosts=${vhosts} vhost=${vhost} onClose=${() => setMaking(false)} onDone=${(...names) => go(link("streams", ...names))} />`}`;
}
