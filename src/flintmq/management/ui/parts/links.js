// Ends of AMQP 1.0 links that are kept for who resumes them: there is nothing to see where there are none.
import { path, remove } from "../core/api.js";
import { bytes, count, plural } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { current, mayAdminister } from "../core/session.js";
import { Confirm } from "./dialog.js";
import { say } from "./notices.js";
import { Numbered } from "./queues.js";
import { Panel, Tags } from "./states.js";
import { Table, useSorted } from "./table.js";

const mayForget = (one) => !one.attached && (mayAdminister() || one.user === current()?.name);

function columnsOf(forget) {
  return [
    { key: "name", label: "Link", sort: "name", render: (one) => html`<span>${one.name}<span class="in-vhost">${one.container}</span></span>` },
    { key: "user", label: "User", sort: "user", render: (one) => html`<span>${one.user}<span class="in-vhost">${one.vhost}</span></span>` },
    { key: "state", label: "State", sort: "attached", render: (one) => html`<${Tags} tags=${[one.attached ? ["attached", "good"] : ["suspended", ""]]} />` },
    { key: "role", label: "Broker's role", sort: "role", optional: true, render: (one) => one.role },
    { key: "unsettled", label: "Unsettled", number: true, sort: "unsettled", render: (one) => html`<${Numbered} value=${one.unsettled} />` },
    { key: "partial", label: "Partial messages", number: true, sort: "partial_messages", render: (one) => html`<${Numbered} value=${one.partial_messages} />` },
    { key: "bytes", label: "Partial bytes", number: true, sort: "partial_bytes", render: (one) => bytes(one.partial_bytes) },
    {
      key: "forget", label: "",
      render: (one) => mayForget(one) && html`<button type="button" class="button compact danger" onClick=${() => forget(one)}>Forget</button>`,
    },
  ];
}

export function ResumableLinks({ vhost }) {
  const [forgetting, setForgetting] = useState(null);
  const { data } = usePoll(vhost ? path`resumable-links/${vhost}` : "/api/resumable-links", 5);
  const sorted = useSorted(data ?? [], columnsOf(setForgetting), { key: "bytes", reverse: true });
  if (!data?.length) return null;
  return html`
    <${Panel} title="Resumable links" flush=${true}>
      <${Table} label="Resumable links" columns=${columnsOf(setForgetting)} keyOf=${(one) => one.id} ...${sorted} />
    <//>
    ${forgetting && html`<${Confirm} title=${`Forget ${forgetting.name}`} verb="Forget link" onClose=${() => setForgetting(null)} act=${async () => {
      await remove(path`resumable-links/${forgetting.vhost}/${String(forgetting.id)}`);
      say("Link forgotten.");
    }}>
      <p>Its client can no longer resume it. Messages that were sent to the client return to their queues; ${plural(forgetting.partial_messages, "partial message")} (${bytes(forgetting.partial_bytes)}) and ${count(forgetting.unsettled)} unsettled deliveries are deleted.</p>
    <//>`}`;
}
