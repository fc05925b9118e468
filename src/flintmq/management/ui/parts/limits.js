// Limits of a user or a virtual host.
import { path, put, remove } from "../core/api.js";
import { count } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { FormDialog } from "./dialog.js";
import { Choice, Field } from "./field.js";
import { Icon } from "./icons.js";
import { attempt, say } from "./notices.js";
import { Panel } from "./states.js";
import { Table } from "./table.js";

/** `kind` is "user" or "vhost". */
export function Limits({ title, kind, name, known }) {
  const [setting, setSetting] = useState(false);
  const list = kind === "user" ? path`user-limits/${name}` : path`vhost-limits/${name}`;
  const one = (limit) => (kind === "user" ? path`user-limits/${name}/${limit}` : path`vhost-limits/${name}/${limit}`);
  const { data, refresh } = usePoll(list, 15);
  const rows = Object.entries(data?.[0]?.value ?? {});
  const lift = (limit) => async () => {
    if (await attempt(() => remove(one(limit)), "Limit removed.")) refresh();
  };
  const columns = [
    { key: "limit", label: "Limit", render: ([limit]) => limit },
    { key: "value", label: "Maximum", number: true, render: ([, value]) => (value < 0 ? "unlimited" : count(value)) },
    { key: "actions", label: "", style: "actions", render: ([limit]) => html`<button type="button" class="button compact" onClick=${lift(limit)}>Remove</button>` },
  ];
  return html`<${Panel} title=${title} flush=${true} tools=${html`<button type="button" class="button compact" onClick=${() => setSetting(true)}><${Icon} name="plus" />Set a limit</button>`}>
    ${rows.length ? html`<${Table} label=${title} columns=${columns} rows=${rows} keyOf=${([limit]) => limit} />` : html`<div class="empty"><p>No limit is set.</p></div>`}
    ${setting && html`<${LimitForm} known=${known} one=${one} onClose=${() => setSetting(false)} onDone=${refresh} />`}
  <//>`;
}

function LimitForm({ known, one, onClose, onDone }) {
  const [limit, setLimit] = useState(known[0]);
  const [value, setValue] = useState("");
  const act = async () => {
    await put(one(limit), { value: Number(value) });
    say("Limit set.");
    onDone();
  };
  return html`<${FormDialog} title="Set a limit" verb="Set" ready=${value !== ""} act=${act} onClose=${onClose}>
    <${Choice} label="Limit" value=${limit} onValue=${setLimit} choices=${known} />
    <${Field} label="Maximum" type="number" value=${value} onValue=${setValue} hint="0 allows none, -1 is unlimited." />
  <//>`;
}
