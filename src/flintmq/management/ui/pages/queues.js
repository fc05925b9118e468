import { path } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { go, link } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { Icon } from "../parts/icons.js";
import { Listing } from "../parts/listing.js";
import { NewQueue, noteQueues, Numbered, QueueName, queueTags, RateIn, RateOut, StateTag, VHOST_COLUMN } from "../parts/queues.js";
import { Empty, Head, Tags } from "../parts/states.js";

function columnsOf(showVhost) {
  return [
    { key: "name", label: "Name", sort: "name", render: (queue) => html`<${QueueName} queue=${queue} />` },
    ...(showVhost ? [VHOST_COLUMN] : []),
    { key: "features", label: "Features", optional: true, render: (queue) => html`<${Tags} tags=${queueTags(queue)} />` },
    { key: "state", label: "State", sort: "state", optional: true, render: (queue) => html`<${StateTag} queue=${queue} />` },
    { key: "ready", label: "Ready", number: true, sort: "messages_ready", render: (queue) => html`<${Numbered} value=${queue.messages_ready} />` },
    { key: "unacked", label: "Unacked", number: true, sort: "messages_unacknowledged", render: (queue) => html`<${Numbered} value=${queue.messages_unacknowledged} />` },
    { key: "consumers", label: "Consumers", number: true, sort: "consumers", render: (queue) => html`<${Numbered} value=${queue.consumers} />` },
    { key: "in", label: "In /s", number: true, sort: "message_stats.publish_details.rate", render: (queue) => html`<${RateIn} queue=${queue} />` },
    { key: "out", label: "Out /s", number: true, sort: "message_stats.deliver_get_details.rate", render: (queue) => html`<${RateOut} queue=${queue} />` },
  ];
}

export function QueuesPage() {
  const vhost = useVhost();
  const vhosts = useVhostNames();
  const [making, setMaking] = useState(false);
  const make = html`<button type="button" class="button primary" onClick=${() => setMaking(true)}><${Icon} name="plus" />New queue</button>`;
  return html`
    <${Head} title="Queues">${make}<//>
    <${Listing} label="Queues" address=${vhost ? path`queues/${vhost}` : "/api/queues"} columns=${columnsOf(!vhost && vhosts.length > 1)}
      keyOf=${(queue) => link(queue.vhost, queue.name)} first=${{ key: "name", reverse: false }} onData=${(page) => noteQueues(page.items)}
      empty=${html`<${Empty} icon="queues" title="No queue yet">
        <p>Messages wait in queues until they are consumed. Clients declare the queues they need; you can also create one here.</p><div class="row">${make}</div>
      <//>`} />
    ${making && html`<${NewQueue} vhosts=${vhosts} vhost=${vhost} onClose=${() => setMaking(false)} onDone=${(...names) => go(link("queues", ...names))} />`}`;
}
