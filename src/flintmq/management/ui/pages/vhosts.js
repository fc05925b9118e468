import { path, put, remove } from "../core/api.js";
import { count, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { reload, VHOSTS } from "../core/known.js";
import { usePoll } from "../core/poll.js";
import { Confirm, Dialog, FormDialog } from "../parts/dialog.js";
import { Check, Field } from "../parts/field.js";
import { Icon } from "../parts/icons.js";
import { Limits } from "../parts/limits.js";
import { say } from "../parts/notices.js";
import { rateOf } from "../parts/queues.js";
import { Head, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table, useSorted } from "../parts/table.js";

export function VhostsPage() {
  const [dialog, setDialog] = useState(null);
  const { data, error, refresh } = usePoll("/api/vhosts", 5);
  const open = (kind, vhost) => () => setDialog({ kind, vhost });
  const close = () => setDialog(null);
  const changed = () => {
    refresh();
    reload(VHOSTS).catch(() => {});
  };
  const columns = [
    { key: "name", label: "Name", sort: "name", render: (vhost) => html`<b>${vhost.name}</b>${vhost.description && html`<span class="in-vhost">${vhost.description}</span>`}` },
    { key: "tags", label: "Tags", optional: true, render: (vhost) => html`<${Tags} tags=${[...(vhost.tags ?? []).map((tag) => [tag, ""]), ...(vhost.tracing ? [["tracing", "warn"]] : [])]} />` },
    { key: "ready", label: "Ready", number: true, sort: "messages_ready", render: (vhost) => count(vhost.messages_ready ?? 0) },
    { key: "unacked", label: "Unacked", number: true, sort: "messages_unacknowledged", render: (vhost) => count(vhost.messages_unacknowledged ?? 0) },
    { key: "in", label: "In /s", number: true, sort: (vhost) => rateOf(vhost, "publish"), render: (vhost) => rate(rateOf(vhost, "publish")) },
    { key: "out", label: "Out /s", number: true, sort: (vhost) => rateOf(vhost, "deliver_get"), render: (vhost) => rate(rateOf(vhost, "deliver_get")) },
    {
      key: "actions", label: "", style: "actions",
      render: (vhost) => html`<div class="row end">
        <button type="button" class="button compact" onClick=${open("limits", vhost)}>Limits</button>
        <button type="button" class="button compact" onClick=${open("change", vhost)}>Change</button>
        <button type="button" class="button compact danger" onClick=${open("delete", vhost)}>Delete</button>
      </div>`,
    },
  ];
  const sorted = useSorted(data ?? [], columns, { key: "name", reverse: false });
  return html`
    <${Head} title="Virtual hosts"><button type="button" class="button primary" onClick=${open("new", null)}><${Icon} name="plus" />New virtual host</button><//>
    <section class="panel">
      ${error && html`<${Trouble} error=${error} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${data && html`<${Table} label="Virtual hosts" columns=${columns} keyOf=${(vhost) => vhost.name} ...${sorted} />`}
    </section>
    ${(dialog?.kind === "new" || dialog?.kind === "change") && html`<${VhostForm} vhost=${dialog.vhost} onClose=${close} onDone=${changed} />`}
    ${dialog?.kind === "limits" && html`<${Dialog} title=${`Limits of ${dialog.vhost.name}`} onClose=${close}><${Limits} title="Limits" kind="vhost" name=${dialog.vhost.name} known=${["max-connections", "max-queues"]} /><//>`}
    ${dialog?.kind === "delete" && html`<${Confirm} title=${`Delete ${dialog.vhost.name}`} verb="Delete" name=${dialog.vhost.name} onClose=${close} act=${async () => {
      await remove(path`vhosts/${dialog.vhost.name}`);
      say(`${dialog.vhost.name} is deleted.`);
      changed();
    }}><p>Its queues with all their messages, its exchanges, permissions and policies are deleted too. Its connections are closed. This cannot be undone.</p><//>`}`;
}

function VhostForm({ vhost, onClose, onDone }) {
  const [name, setName] = useState(vhost?.name ?? "");
  const [description, setDescription] = useState(vhost?.description ?? "");
  const [tags, setTags] = useState((vhost?.tags ?? []).join(", "));
  const [tracing, setTracing] = useState(vhost?.tracing ?? false);
  const act = async () => {
    await put(path`vhosts/${name}`, { description, tags: tags.split(",").map((tag) => tag.trim()).filter(Boolean).join(","), tracing });
    say(vhost ? `${name} is changed.` : `Virtual host ${name} created.`);
    onDone();
  };
  return html`<${FormDialog} title=${vhost ? `Change ${name}` : "New virtual host"} verb=${vhost ? "Save" : "Create"} ready=${name !== ""} act=${act} onClose=${onClose}>
    ${!vhost && html`<${Field} label="Name" value=${name} onValue=${setName} required=${true} autofocus=${true} />`}
    <${Field} label="Description" value=${description} onValue=${setDescription} />
    <${Field} label="Tags" value=${tags} onValue=${setTags} hint="Separated by commas." />
    <${Check} label="Trace messages: copies go to the exchange amq.rabbitmq.trace" value=${tracing} onValue=${setTracing} />
  <//>`;
}
