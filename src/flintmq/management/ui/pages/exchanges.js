import { path, put } from "../core/api.js";
import { note, seen } from "../core/history.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { usePoll } from "../core/poll.js";
import { go, link } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { FormDialog } from "../parts/dialog.js";
import { Check, Choice, Field, Pairs, tableOf } from "../parts/field.js";
import { BindingGraph } from "../parts/graph.js";
import { Icon } from "../parts/icons.js";
import { Listing } from "../parts/listing.js";
import { EXCHANGE_TYPES } from "../parts/names.js";
import { say } from "../parts/notices.js";
import { rateOf, VHOST_COLUMN } from "../parts/queues.js";
import { RateCell } from "../parts/sparkline.js";
import { Empty, Head, Panel, Tabs, Tags, Waiting } from "../parts/states.js";

export function exchangeTags(exchange) {
  const tags = [[exchange.type, "info"]];
  if (!exchange.durable) tags.push(["transient", ""]);
  if (exchange.auto_delete) tags.push(["auto-delete", ""]);
  if (exchange.internal) tags.push(["internal", "", "Clients cannot publish to it"]);
  if (exchange.arguments?.["alternate-exchange"]) tags.push(["alternate", "", `Unroutable messages go to ${exchange.arguments["alternate-exchange"]}`]);
  if (exchange.policy) tags.push([exchange.policy, "good", `Policy ${exchange.policy}`]);
  return tags;
}

const keyOf = (exchange, what) => `exchange ${what} ${exchange.vhost} ${exchange.name}`;

function noteExchanges(exchanges) {
  for (const exchange of exchanges) {
    note(keyOf(exchange, "in"), rateOf(exchange, "publish_in"));
    note(keyOf(exchange, "out"), rateOf(exchange, "publish_out"));
  }
}

function columnsOf(showVhost) {
  return [
    {
      key: "name", label: "Name", sort: "name",
      render: (exchange) => html`<a href=${link("exchanges", exchange.vhost, exchange.name || "amq.default")}>${exchange.name || "(default)"}</a>`,
    },
    ...(showVhost ? [VHOST_COLUMN] : []),
    { key: "type", label: "Type", sort: "type", render: (exchange) => html`<${Tags} tags=${exchangeTags(exchange)} />` },
    { key: "in", label: "In /s", number: true, sort: "message_stats.publish_in_details.rate", render: (exchange) => html`<${RateCell} value=${rateOf(exchange, "publish_in")} values=${seen(keyOf(exchange, "in"))} tone="1" />` },
    { key: "out", label: "Out /s", number: true, sort: "message_stats.publish_out_details.rate", render: (exchange) => html`<${RateCell} value=${rateOf(exchange, "publish_out")} values=${seen(keyOf(exchange, "out"))} tone="3" />` },
  ];
}

export function ExchangesPage({ query }) {
  const vhost = useVhost();
  const vhosts = useVhostNames();
  const [making, setMaking] = useState(false);
  const drawing = query.get("view") === "map";
  const make = html`<button type="button" class="button primary" onClick=${() => setMaking(true)}><${Icon} name="plus" />New exchange</button>`;
  return html`
    <${Head} title="Exchanges">${make}<//>
    <${Tabs} label="Views" tabs=${[{ href: "#/exchanges", text: "List", here: !drawing }, { href: "#/exchanges?view=map", text: "Map", here: drawing }]} />
    ${drawing
      ? html`<div class="stack">${(vhost ? [vhost] : vhosts).map((name) => html`<${TopologyMap} key=${name} vhost=${name} />`)}</div>`
      : html`<${Listing} label="Exchanges" address=${vhost ? path`exchanges/${vhost}` : "/api/exchanges"} columns=${columnsOf(!vhost && vhosts.length > 1)}
          keyOf=${(exchange) => link(exchange.vhost, exchange.name)} first=${{ key: "name", reverse: false }} onData=${(page) => noteExchanges(page.items)} />`}
    ${making && html`<${NewExchange} vhosts=${vhosts} vhost=${vhost} onClose=${() => setMaking(false)} onDone=${(...names) => go(link("exchanges", ...names))} />`}`;
}

function TopologyMap({ vhost }) {
  const bindings = usePoll(path`bindings/${vhost}`, 15);
  const exchanges = usePoll(`${path`exchanges/${vhost}`}?columns=name,type`, 15);
  const queues = usePoll(`${path`queues/${vhost}`}?columns=name,type`, 15);
  if (!bindings.data || !exchanges.data || !queues.data) return html`<${Waiting} />`;
  const types = new Map([
    ...exchanges.data.map((exchange) => [`exchange ${exchange.name}`, exchange.type]),
    ...queues.data.filter((queue) => queue.type === "stream").map((queue) => [`queue ${queue.name}`, "stream"]),
  ]);
  const shown = bindings.data.filter((binding) => binding.source !== "");
  return html`<${Panel} title=${`Virtual host ${vhost}`} flush=${true}>
    ${shown.length
      ? html`<${BindingGraph} vhost=${vhost} bindings=${shown} types=${types} />`
      : html`<${Empty} icon="exchanges" title="No bindings"><p>The default exchange reaches every queue by its name. Bind a queue to an exchange to route by key or by header. The graph of bindings is shown here.</p><//>`}
  <//>`;
}

function NewExchange({ vhosts, vhost, onClose, onDone }) {
  const [place, setPlace] = useState(vhost || vhosts[0] || "/");
  const [name, setName] = useState("");
  const [type, setType] = useState("topic");
  const [durable, setDurable] = useState(true);
  const [autoDelete, setAutoDelete] = useState(false);
  const [internal, setInternal] = useState(false);
  const [pairs, setPairs] = useState([]);
  const known = usePoll("/api/overview", 3600).data?.exchange_types?.map((one) => one.name) ?? EXCHANGE_TYPES;
  const act = async () => {
    await put(path`exchanges/${place}/${name}`, { type, durable, auto_delete: autoDelete, internal, arguments: tableOf(pairs) });
    say(`Exchange ${name} created.`);
    onDone(place, name);
  };
  return html`<${FormDialog} title="New exchange" verb="Create" ready=${name !== ""} act=${act} onClose=${onClose}>
    <${Field} label="Name" value=${name} onValue=${setName} autofocus=${true} required=${true} />
    <div class="pair">
      <${Choice} label="Virtual host" value=${place} onValue=${setPlace} choices=${vhosts} />
      <${Choice} label="Type" value=${type} onValue=${setType} choices=${known} />
    </div>
    <div class="row">
      <${Check} label="Durable" value=${durable} onValue=${setDurable} />
      <${Check} label="Delete with its last binding" value=${autoDelete} onValue=${setAutoDelete} />
      <${Check} label="Internal" value=${internal} onValue=${setInternal} />
    </div>
    <${Pairs} label="Arguments" names=${["alternate-exchange", "x-delayed-type", "hash-header", "hash-property", "x-recent-history-length"]} pairs=${pairs} onPairs=${setPairs} />
  <//>`;
}
