import { path, put, remove } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { removeShown, usePoll } from "../core/poll.js";
import { go } from "../core/router.js";
import { current } from "../core/session.js";
import { Confirm, FormDialog } from "../parts/dialog.js";
import { Choice, Field } from "../parts/field.js";
import { Icon } from "../parts/icons.js";
import { Limits } from "../parts/limits.js";
import { attempt, say } from "../parts/notices.js";
import { Head, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { tagsOf, UserForm } from "./users.js";

export function UserPage({ names: [name] }) {
  const [dialog, setDialog] = useState("");
  const address = path`users/${name}`;
  const { data: user, error, refresh } = usePoll(address, 15);
  const permissions = usePoll(`${address}/permissions`, 15);
  const topics = usePoll(`${address}/topic-permissions`, 15);
  const crumbs = html`<a href="#/users">Users</a>`;
  if (!user) return html`<${Head} title=${name} crumbs=${crumbs} />${error ? html`<${Trouble} error=${error} />` : html`<${Waiting} />`}`;
  const close = () => setDialog("");
  const withdraw = (kind, vhost, again) => async () => {
    if (await attempt(() => remove(kind === "permissions" ? path`permissions/${vhost}/${name}` : path`topic-permissions/${vhost}/${name}`), `Permissions in ${vhost} removed.`)) again();
  };
  const patterns = (fields) => fields.map((field) => ({ key: field, label: field[0].toUpperCase() + field.slice(1), render: (one) => html`<code>${one[field]}</code>` }));
  const rights = [
    { key: "vhost", label: "Virtual host", render: (one) => one.vhost }, ...patterns(["configure", "write", "read"]),
    { key: "actions", label: "", style: "actions", render: (one) => html`<button type="button" class="button compact" onClick=${withdraw("permissions", one.vhost, permissions.refresh)}>Remove</button>` },
  ];
  const topicRights = [
    { key: "vhost", label: "Virtual host", render: (one) => one.vhost }, ...patterns(["exchange", "write", "read"]),
    { key: "actions", label: "", style: "actions", render: (one) => html`<button type="button" class="button compact" onClick=${withdraw("topic", one.vhost, topics.refresh)}>Remove</button>` },
  ];
  return html`
    <${Head} title=${name} crumbs=${crumbs} badge=${html`<${Tags} tags=${tagsOf(user).map((tag) => [tag, tag === "administrator" ? "info" : ""])} />`}>
      <button type="button" class="button" onClick=${() => setDialog("change")}>Password and tags</button>
      <button type="button" class="button danger" disabled=${name === current().name} title=${name === current().name ? "You are logged in as this user" : ""} onClick=${() => setDialog("delete")}>Delete</button>
    <//>
    <div class="stack">
      <${Panel} title="Permissions" flush=${true} tools=${html`<button type="button" class="button compact" onClick=${() => setDialog("permit")}><${Icon} name="plus" />Set permissions</button>`}>
        ${permissions.data?.length ? html`<${Table} label="Permissions" columns=${rights} rows=${permissions.data} keyOf=${(one) => one.vhost} />` : html`<div class="empty"><p>This user has no access to any virtual host. Set permissions to grant access.</p></div>`}
      <//>
      <${Panel} title="Topic permissions" flush=${true} tools=${html`<button type="button" class="button compact" onClick=${() => setDialog("topic")}><${Icon} name="plus" />Set topic permissions</button>`}>
        ${topics.data?.length ? html`<${Table} label="Topic permissions" columns=${topicRights} rows=${topics.data} keyOf=${(one) => `${one.vhost} ${one.exchange}`} />` : html`<div class="empty"><p>Routing keys are not restricted.</p></div>`}
      <//>
      <${Limits} title="Limits" kind="user" name=${name} known=${["max-connections", "max-channels"]} />
    </div>
    ${dialog === "change" && html`<${UserForm} user=${user} onClose=${close} onDone=${refresh} />`}
    ${dialog === "permit" && html`<${Permit} name=${name} onClose=${close} onDone=${permissions.refresh} />`}
    ${dialog === "topic" && html`<${PermitTopic} name=${name} onClose=${close} onDone=${topics.refresh} />`}
    ${dialog === "delete" && html`<${Confirm} title=${`Delete ${name}`} verb="Delete" name=${name} onClose=${close} act=${async () => {
      await removeShown(address);
      say(`${name} is deleted.`);
      go("#/users");
    }}><p>Its permissions are deleted too, and it can no longer log in.</p><//>`}`;
}

function Permit({ name, onClose, onDone }) {
  const vhosts = useVhostNames();
  const [vhost, setVhost] = useState(vhosts[0] ?? "/");
  const [configure, setConfigure] = useState(".*");
  const [write, setWrite] = useState(".*");
  const [read, setRead] = useState(".*");
  const act = async () => {
    await put(path`permissions/${vhost}/${name}`, { configure, write, read });
    say(`${name} can access ${vhost}.`);
    onDone();
  };
  return html`<${FormDialog} title=${`Permissions of ${name}`} verb="Set" act=${act} onClose=${onClose}>
    <${Choice} label="Virtual host" value=${vhost} onValue=${setVhost} choices=${vhosts} />
    <${Field} label="Configure" value=${configure} onValue=${setConfigure} class="mono" hint="Regular expression for names that the user may declare and delete. Empty: none." />
    <${Field} label="Write" value=${write} onValue=${setWrite} class="mono" hint="Exchanges that may be published to, queues that may be bound." />
    <${Field} label="Read" value=${read} onValue=${setRead} class="mono" hint="Queues that may be consumed, exchanges that may be bound from." />
  <//>`;
}

function PermitTopic({ name, onClose, onDone }) {
  const vhosts = useVhostNames();
  const [vhost, setVhost] = useState(vhosts[0] ?? "/");
  const [exchange, setExchange] = useState("amq.topic");
  const [write, setWrite] = useState(".*");
  const [read, setRead] = useState(".*");
  const act = async () => {
    await put(path`topic-permissions/${vhost}/${name}`, { exchange, write, read });
    say(`Topic permissions of ${name} are set.`);
    onDone();
  };
  return html`<${FormDialog} title=${`Topic permissions of ${name}`} verb="Set" act=${act} onClose=${onClose}>
    <${Choice} label="Virtual host" value=${vhost} onValue=${setVhost} choices=${vhosts} />
    <${Field} label="Exchange" value=${exchange} onValue=${setExchange} />
    <${Field} label="Write" value=${write} onValue=${setWrite} class="mono" hint="Routing keys that may be published with." />
    <${Field} label="Read" value=${read} onValue=${setRead} class="mono" hint="Routing keys that may be bound with." />
  <//>`;
}
