import { count, plural } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { deadLettersAddress, redrive } from "../core/own-api.js";
import { usePoll } from "../core/poll.js";
import { link, linkWith } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { MessageList, useMessages } from "../parts/browser.js";
import { Confirm } from "../parts/dialog.js";
import { useSettled } from "../parts/listing.js";
import { say } from "../parts/notices.js";
import { Numbered } from "../parts/queues.js";
import { Empty, Head, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table } from "../parts/table.js";

export function DeadLettersPage({ query }) {
  const queue = query.get("queue");
  return queue ? html`<${Triage} key=${queue} source=${{ vhost: query.get("vhost") ?? "/", queue }} />` : html`<${Graveyards} />`;
}

const COLUMNS = [
  {
    key: "queue", label: "Queue",
    render: (one) => html`<a href=${linkWith(["dead"], { vhost: one.vhost, queue: one.queue })}>${one.queue}</a><span class="in-vhost">${one.vhost}</span>`,
  },
  { key: "messages", label: "Dead letters", number: true, render: (one) => html`<${Numbered} value=${one.messages} />` },
  {
    key: "causes", label: "Reason", style: "wide",
    render: (one) => html`<${Tags} tags=${one.causes.map((cause) => [`${count(cause.count)} ${cause.reason} on ${cause.queue}`, "bad"])} />
      ${one.messages_examined < one.messages && html`<span class="quiet small">counted in the oldest ${count(one.messages_examined)} only</span>`}`,
  },
  { key: "actions", label: "", style: "actions", render: (one) => html`<a class="button compact" href=${linkWith(["dead"], { vhost: one.vhost, queue: one.queue })}>View</a>` },
];

function Graveyards() {
  const vhost = useVhost();
  const { data, error } = usePoll(deadLettersAddress(vhost), 8);
  return html`
    <${Head} title="Dead letters" />
    <section class="panel">
      ${error && html`<${Trouble} error=${error} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${data?.length === 0 && html`<${Empty} icon="dead" title="No dead letters">
        <p>Messages that were rejected, expired or dropped are listed here if their queue has a dead letter exchange. Set <code>dead-letter-exchange</code> in a policy.</p>
        <div class="row"><a class="button" href="#/policies">Policies</a></div>
      <//>`}
      ${data?.length > 0 && html`<${Table} label="Queues with dead letters" columns=${COLUMNS} rows=${data} keyOf=${(one) => link(one.vhost, one.queue)} />`}
    </section>`;
}

function Triage({ source }) {
  const [typed, setTyped] = useState("");
  const [turn, setTurn] = useState(0);
  const [picked, setPicked] = useState(new Set());
  const [driving, setDriving] = useState(null);
  const search = useSettled(typed);
  const loaded = useMessages(source, search, turn);
  const again = () => {
    setPicked(new Set());
    setTurn(turn + 1);
  };
  const act = async () => {
    const answer = await redrive(source, driving === "all" ? undefined : [...picked]);
    say(`${plural(answer.redriven, "message")} redriven.${answer.skipped ? ` ${count(answer.skipped)} skipped: their queue is full, does not dead-letter to this queue, or you may not write to it.` : ""}`);
    again();
  };
  const actions = html`
    <button type="button" class="button primary" disabled=${!picked.size} onClick=${() => setDriving("picked")}>Redrive selected</button>
    <button type="button" class="button" onClick=${() => setDriving("all")}>Redrive all</button>`;
  return html`
    <${Head} title=${source.queue} crumbs=${html`<a href="#/dead">Dead letters</a> · ${source.vhost}`}>
      <a class="button" href=${link("queues", source.vhost, source.queue)}>Open queue</a>
    <//>
    <section class="panel">
      <div class="tools">
        <input type="search" class="search" aria-label="Search dead letters" placeholder="Search bodies, keys and headers" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
        <span class="grow"></span><button type="button" class="button" onClick=${again}>Reload</button>
      </div>
      <${MessageList} loaded=${loaded} search=${search} picked=${picked} onPicked=${setPicked} actions=${actions}
        empty=${html`<${Empty} icon="dead" title=${search ? "No match" : "No dead letters left"}><p>${search ? "Try a shorter text." : "This queue has no more dead letters."}</p><div class="row"><a class="button" href="#/dead">All dead letters</a></div><//>`} />
    </section>
    ${driving && html`<${Confirm} title=${driving === "all" ? "Redrive all" : `Redrive ${plural(picked.size, "message")}`} verb="Redrive" act=${act} onClose=${() => setDriving(null)}>
      <p>The messages return to the queues that dead-lettered them. Fix the cause first, or they may be dead-lettered again.</p><//>`}`;
}
