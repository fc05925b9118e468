import { path } from "../core/api.js";
import { plural } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { move } from "../core/own-api.js";
import { usePoll } from "../core/poll.js";
import { go, linkWith } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { MessageList, useMessages } from "../parts/browser.js";
import { FormDialog } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { useSettled } from "../parts/listing.js";
import { say } from "../parts/notices.js";
import { PublishDialog } from "../parts/publish.js";
import { Empty, Head } from "../parts/states.js";

export function MessagesPage({ query }) {
  const chosen = useVhost();
  const vhosts = useVhostNames();
  const queue = query.get("queue") ?? "";
  const vhost = query.get("vhost") ?? (chosen || vhosts[0] || "/");
  const queues = usePoll(`${path`queues/${vhost}`}?columns=name,type,messages`, 10);
  return html`
    <${Head} title="Messages" />
    <div class="stack">
      <section class="panel"><div class="tools">
        ${vhosts.length > 1 && html`<label class="row small">Virtual host <select class="search" value=${vhost} onChange=${(event) => go(linkWith(["messages"], { vhost: event.target.value }))}>
          ${vhosts.map((name) => html`<option key=${name} value=${name} selected=${name === vhost}>${name}</option>`)}</select></label>`}
        <${QueuePicker} queues=${queues.data ?? []} queue=${queue} onQueue=${(name) => go(linkWith(["messages"], { vhost, queue: name }))} />
      </div></section>
      ${queue
        ? html`<${Browser} key=${`${vhost} ${queue}`} source=${{ vhost, queue }} queues=${queues.data ?? []} />`
        : html`<section class="panel"><${Empty} icon="messages" title="Browse a queue">
            <p>Choose a queue or a stream above. Its messages are shown but not removed.</p><//></section>`}
    </div>`;
}

function QueuePicker({ queues, queue, onQueue }) {
  const [typed, setTyped] = useState(queue);
  const changed = (event) => {
    setTyped(event.target.value);
    if (queues.some((one) => one.name === event.target.value)) onQueue(event.target.value);
  };
  const submitted = (event) => {
    event.preventDefault();
    if (typed) onQueue(typed);
  };
  return html`<form class="row search" onSubmit=${submitted}>
    <input class="search" aria-label="Queue" placeholder="Queue or stream" list="queue-names" value=${typed} onInput=${changed} autocomplete="off" />
    <datalist id="queue-names">${queues.slice(0, 500).map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
    <button class="button">Browse</button>
  </form>`;
}

function Browser({ source, queues }) {
  const [typed, setTyped] = useState("");
  const [turn, setTurn] = useState(0);
  const [picked, setPicked] = useState(new Set());
  const [dialog, setDialog] = useState("");
  const search = useSettled(typed);
  const loaded = useMessages(source, search, turn);
  const again = () => {
    setPicked(new Set());
    setTurn(turn + 1);
  };
  const close = () => setDialog("");
  const stream = queues.find((one) => one.name === source.queue)?.type === "stream";
  const actions = html`${!stream && html`<button type="button" class="button" disabled=${!picked.size} onClick=${() => setDialog("move")}>Move…</button>`}`;
  return html`<section class="panel">
    <div class="tools">
      <input type="search" class="search" aria-label="Search messages" placeholder="Search bodies, keys and headers" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
      <span class="grow"></span>
      <button type="button" class="button" onClick=${again}>Reload</button>
      <button type="button" class="button primary" onClick=${() => setDialog("publish")}>Publish</button>
    </div>
    <${MessageList} loaded=${loaded} search=${search} picked=${picked} onPicked=${setPicked} actions=${actions} pickable=${!stream}
      empty=${search
        ? html`<div class="empty"><p>No message in ${source.queue} contains “${search}” in its body, routing key or headers.</p></div>`
        : html`<${Empty} icon="messages" title="No messages"><p>${source.queue} is empty. Publish a message, or wait for a publisher.</p><//>`} />
    ${dialog === "publish" && html`<${PublishDialog} vhost=${source.vhost} routingKey=${source.queue} target=${source.queue} onClose=${close} onDone=${again} />`}
    ${dialog === "move" && html`<${MoveDialog} source=${source} queues=${queues} positions=${[...picked]} onClose=${close} onDone=${again} />`}
  </section>`;
}

function MoveDialog({ source, queues, positions, onClose, onDone }) {
  const [destination, setDestination] = useState("");
  const act = async () => {
    const answer = await move(source, destination, positions);
    say(`${plural(answer.moved, "message")} moved to ${destination}.`);
    onDone();
  };
  return html`<${FormDialog} title=${`Move ${plural(positions.length, "message")}`} verb="Move" ready=${destination !== "" && destination !== source.queue} act=${act} onClose=${onClose}>
    <${Field} label="To queue" value=${destination} onValue=${setDestination} list="move-names" autofocus=${true} hint="A queue in the same virtual host. Each message is moved in one step, so that a crash neither loses nor duplicates it." />
    <datalist id="move-names">${queues.filter((one) => one.name !== source.queue && one.type !== "stream").slice(0, 500).map((one) => html`<option key=${one.name} value=${one.name} />`)}</datalist>
  <//>`;
}
