// Bindings: as a graph, as a list, and made or taken away.
import { path, post, remove } from "../core/api.js";
import { plain } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { link } from "../core/router.js";
import { FormDialog } from "./dialog.js";
import { Choice, Field, Pairs, tableOf } from "./field.js";
import { BindingGraph } from "./graph.js";
import { Icon } from "./icons.js";
import { attempt, say } from "./notices.js";
import { Panel } from "./states.js";
import { Table } from "./table.js";

/** `end` is the end that is not here: "source" or "destination". What leads `into` it is drawn, but not listed. */
export function BindingsOf({ title, vhost, bindings, into = [], end, here, stream = false, types, onChange, onNew }) {
  const shown = bindings.filter((binding) => binding.source !== "");
  const kinds = types ?? new Map(stream ? [[`queue ${here.name}`, "stream"]] : []);
  const tools = onNew && html`<button type="button" class="button compact" onClick=${onNew}><${Icon} name="plus" />Bind</button>`;
  return html`<${Panel} title=${title} flush=${true} tools=${tools}>
    ${shown.length === 0
      ? html`<div class="empty"><p>${end === "source" ? "No bindings. The default exchange routes messages here by the queue's name." : "No bindings: messages that are published here are not routed."}</p></div>`
      : html`<${BindingGraph} vhost=${vhost} bindings=${[...into, ...shown]} here=${here} types=${kinds} />
          <${BindingTable} vhost=${vhost} bindings=${shown} end=${end} onChange=${onChange} />`}
  <//>`;
}

export function BindingTable({ vhost, bindings, end, onChange }) {
  const columns = [
    end === "source"
      ? { key: "source", label: "From", render: (binding) => html`<a href=${link("exchanges", vhost, binding.source)}>${binding.source}</a>` }
      : { key: "destination", label: "To", render: (binding) => html`<a href=${link(`${binding.destination_type}s`, vhost, binding.destination)}>${binding.destination}</a> <span class="quiet small">${binding.destination_type}</span>` },
    { key: "key", label: "Routing key", render: (binding) => (binding.routing_key ? html`<code>${binding.routing_key}</code>` : html`<span class="quiet">–</span>`) },
    { key: "arguments", label: "Arguments", optional: true, render: (binding) => (Object.keys(binding.arguments ?? {}).length ? html`<code>${plain(binding.arguments)}</code>` : "") },
    { key: "actions", label: "", style: "actions", render: (binding) => html`<button type="button" class="button compact" onClick=${() => unbind(vhost, binding, onChange)}>Unbind</button>` },
  ];
  return html`<${Table} label="Bindings" columns=${columns} rows=${bindings} keyOf=${(binding) => JSON.stringify([binding.source, binding.destination_type, binding.destination, binding.properties_key])} />`;
}

async function unbind(vhost, binding, onChange) {
  const letter = binding.destination_type === "queue" ? "q" : "e";
  const address = path`bindings/${vhost}/e/${binding.source}/${letter}/${binding.destination}/${binding.properties_key}`;
  if (await attempt(() => remove(address), `Binding from ${binding.source} to ${binding.destination} removed.`)) onChange();
}

/** Either `source` or `destination` (of `kind`) is given; the other end is asked for. */
export function NewBinding({ vhost, source, destination, kind = "queue", onClose, onDone }) {
  const [other, setOther] = useState("");
  const [type, setType] = useState(kind);
  const [key, setKey] = useState("");
  const [pairs, setPairs] = useState([]);
  const act = async () => {
    const from = source ?? other;
    const to = destination ?? other;
    await post(path`bindings/${vhost}/e/${from}/${type === "queue" ? "q" : "e"}/${to}`, { routing_key: key, arguments: tableOf(pairs) });
    say(`Binding from ${from} to ${to} created.`);
    onDone();
  };
  return html`<${FormDialog} title=${source ? `Bind ${source} to…` : `Bind ${destination} to an exchange`} verb="Bind" ready=${other !== ""} act=${act} onClose=${onClose}>
    ${source && html`<${Choice} label="To" value=${type} onValue=${setType} choices=${[["queue", "A queue or stream"], ["exchange", "An exchange"]]} />`}
    <${Field} label=${source ? "Name" : "Exchange"} value=${other} onValue=${setOther} required=${true} autofocus=${true} />
    <${Field} label="Routing key" value=${key} onValue=${setKey} hint="For a topic exchange, * stands for one word and # for any number." />
    <${Pairs} label="Arguments" names=${["x-match"]} pairs=${pairs} onPairs=${setPairs} />
  <//>`;
}
