import { path, put, remove } from "../core/api.js";
import { plain } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { usePoll } from "../core/poll.js";
import { maySetPolicies } from "../core/session.js";
import { useVhost } from "../core/vhosts.js";
import { Confirm, FormDialog } from "../parts/dialog.js";
import { Choice, Field, Pairs, pairsOf, tableOf } from "../parts/field.js";
import { Icon } from "../parts/icons.js";
import { POLICY_KEYS } from "../parts/names.js";
import { say } from "../parts/notices.js";
import { Empty, Head, Tabs, Trouble, Waiting } from "../parts/states.js";
import { Table, useSorted } from "../parts/table.js";

const KINDS = new Map([
  ["policies", { title: "Policies", one: "policy", text: "A policy sets arguments of all queues and exchanges with matching names, including existing ones." }],
  ["operator-policies", { title: "Operator policies", one: "operator policy", text: "An operator policy limits what arguments and policies can set: the smaller value applies." }],
]);
const APPLIES = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];

function addressOf(kind, vhost, name) {
  return kind === "policies" ? path`policies/${vhost}/${name}` : path`operator-policies/${vhost}/${name}`;
}

export function PoliciesPage({ query }) {
  const kind = query.get("kind") === "operator" ? "operator-policies" : "policies";
  const { title, one, text } = KINDS.get(kind);
  const vhost = useVhost();
  const [dialog, setDialog] = useState(null);
  const { data, error, refresh } = usePoll(vhost ? `/api/${kind}/${encodeURIComponent(vhost)}` : `/api/${kind}`, 8);
  const columns = [
    { key: "name", label: "Name", sort: "name", render: (policy) => html`<b>${policy.name}</b><span class="in-vhost">${policy.vhost}</span>` },
    { key: "pattern", label: "Pattern", sort: "pattern", render: (policy) => html`<code>${policy.pattern}</code>` },
    { key: "applies", label: "Applies to", sort: "apply-to", render: (policy) => policy["apply-to"] },
    { key: "definition", label: "Definition", render: (policy) => html`<code>${Object.entries(policy.definition).map(([key, value]) => `${key}: ${plain(value)}`).join(", ")}</code>` },
    { key: "priority", label: "Priority", number: true, sort: "priority", render: (policy) => policy.priority },
    {
      key: "actions", label: "", style: "actions",
      render: (policy) => maySetPolicies() && html`<div class="row end">
        <button type="button" class="button compact" onClick=${() => setDialog({ policy })}>Change</button>
        <button type="button" class="button compact danger" onClick=${() => setDialog({ policy, deleting: true })}>Delete</button>
      </div>`,
    },
  ];
  const sorted = useSorted(data ?? [], columns, { key: "name", reverse: false });
  const make = maySetPolicies() && html`<button type="button" class="button primary" onClick=${() => setDialog({})}><${Icon} name="plus" />New ${one}</button>`;
  return html`
    <${Head} title=${title}>${make}<//>
    <${Tabs} label="Kinds of policies" tabs=${[
      { href: "#/policies", text: "Policies", here: kind === "policies" }, { href: "#/policies?kind=operator", text: "Operator policies", here: kind !== "policies" },
    ]} />
    <section class="panel">
      ${error && html`<${Trouble} error=${error} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${data?.length === 0 && html`<${Empty} icon="policies" title=${`No ${one} yet`}><p>${text}</p><div class="row">${make}</div><//>`}
      ${data?.length > 0 && html`<${Table} label=${title} columns=${columns} keyOf=${(policy) => JSON.stringify([policy.vhost, policy.name])} ...${sorted} />`}
    </section>
    ${dialog && !dialog.deleting && html`<${PolicyForm} kind=${kind} one=${one} policy=${dialog.policy} vhost=${vhost} onClose=${() => setDialog(null)} onDone=${refresh} />`}
    ${dialog?.deleting && html`<${Confirm} title=${`Delete ${dialog.policy.name}`} verb="Delete" onClose=${() => setDialog(null)} act=${async () => {
      await remove(addressOf(kind, dialog.policy.vhost, dialog.policy.name));
      say(`${dialog.policy.name} is deleted.`);
      refresh();
    }}><p>Queues and exchanges that it matched lose the arguments that it set.</p><//>`}`;
}

function PolicyForm({ kind, one, policy, vhost, onClose, onDone }) {
  const vhosts = useVhostNames();
  const [place, setPlace] = useState((policy?.vhost ?? vhost) || vhosts[0] || "/");
  const [name, setName] = useState(policy?.name ?? "");
  const [pattern, setPattern] = useState(policy?.pattern ?? "");
  const [applies, setApplies] = useState(policy?.["apply-to"] ?? "queues");
  const [priority, setPriority] = useState(String(policy?.priority ?? 0));
  const [pairs, setPairs] = useState(policy ? pairsOf(policy.definition) : [{ name: "", value: "", kind: "number" }]);
  const act = async () => {
    await put(addressOf(kind, place, name), { pattern, "apply-to": applies, priority: Number(priority), definition: tableOf(pairs) });
    say(`The ${one} ${name} is saved.`);
    onDone();
  };
  return html`<${FormDialog} title=${policy ? `Change ${name}` : `New ${one}`} verb=${policy ? "Save" : "Create"} ready=${name !== ""} act=${act} onClose=${onClose}>
    ${!policy && html`<div class="pair">
      <${Field} label="Name" value=${name} onValue=${setName} required=${true} autofocus=${true} />
      <${Choice} label="Virtual host" value=${place} onValue=${setPlace} choices=${vhosts} />
    </div>`}
    <${Field} label="Pattern" value=${pattern} onValue=${setPattern} class="mono" hint="Regular expression for names. ^orders\\. matches names that begin with orders." />
    <div class="pair">
      <${Choice} label="Applies to" value=${applies} onValue=${setApplies} choices=${kind === "policies" ? APPLIES : APPLIES.filter((what) => what !== "exchanges" && what !== "all")} />
      <${Field} label="Priority" type="number" value=${priority} onValue=${setPriority} hint="Of several matching policies, the one with the highest priority applies." />
    </div>
    <${Pairs} label="Definition" names=${POLICY_KEYS} pairs=${pairs} onPairs=${setPairs} />
  <//>`;
}
