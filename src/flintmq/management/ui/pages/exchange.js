import { path, withQuery } from "../core/api.js";
import { COURSE_QUERY, coursesOf, noteCourses, speedsOf } from "../core/course.js";
import { plain, rate } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { removeShown, usePoll } from "../core/poll.js";
import { go } from "../core/router.js";
import { BindingsOf, BindingTable, NewBinding } from "../parts/bindings.js";
import { Course } from "../parts/chart.js";
import { Confirm } from "../parts/dialog.js";
import { say } from "../parts/notices.js";
import { PublishDialog } from "../parts/publish.js";
import { Facts, Head, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { exchangeTags } from "./exchanges.js";

const RATES = speedsOf([["In", "publish_in"], ["Out to queues", "publish_out"]]);

export function ExchangePage({ names: [vhost, name] }) {
  const [dialog, setDialog] = useState("");
  const address = path`exchanges/${vhost}/${name}`;
  const where = `exchange ${vhost} ${name}`;
  const { data: exchange, error } = usePoll(withQuery(address, COURSE_QUERY), 2, (one) => noteCourses(where, RATES, one.message_stats));
  const out = usePoll(`${address}/bindings/source`, 8);
  const into = usePoll(`${address}/bindings/destination`, 8);
  const known = usePoll(`${path`exchanges/${vhost}`}?columns=name,type`, 30);
  const standard = name === "amq.default";
  const title = standard ? "(default)" : name;
  const crumbs = html`<a href="#/exchanges">Exchanges</a> · ${vhost}`;
  if (!exchange) return html`<${Head} title=${title} crumbs=${crumbs} />${error ? html`<${Trouble} error=${error} />` : html`<${Waiting} />`}`;
  const close = () => setDialog("");
  const changed = () => {
    out.refresh();
    into.refresh();
  };
  const deleted = async () => {
    await removeShown(address);
    say(`${name} is deleted.`);
    go("#/exchanges");
  };
  const types = new Map((known.data ?? []).map((one) => [`exchange ${one.name}`, one.type]));
  return html`
    <${Head} title=${title} crumbs=${crumbs} badge=${html`<${Tags} tags=${exchangeTags(exchange)} />`}>
      ${!exchange.internal && html`<button type="button" class="button primary" onClick=${() => setDialog("publish")}>Publish</button>`}
      ${!standard && !name.startsWith("amq.") && html`<button type="button" class="button danger" onClick=${() => setDialog("delete")}>Delete</button>`}
    <//>
    <div class="stack">
      ${standard
        ? html`<p class="lede">The default exchange routes each message to the queue whose name is the routing key. It cannot be bound or deleted.</p>`
        : html`<${BindingsOf} title="Bindings from this exchange" vhost=${vhost} bindings=${out.data ?? []} into=${into.data ?? []}
            end="destination" here=${{ kind: "exchange", name }} types=${types} onChange=${changed} onNew=${() => setDialog("bind")} />`}
      ${!standard && into.data?.length > 0 && html`<${Panel} title="Bindings to this exchange" flush=${true}><${BindingTable} vhost=${vhost} bindings=${into.data} end="source" onChange=${changed} /><//>`}
      <div class="columns">
        <${Panel} title="Messages per second"><${Course} label="Messages per second over the last minutes" courses=${coursesOf(where, RATES, exchange.message_stats)} show=${rate} /><//>
        <${Panel} title="About this exchange"><${Facts} facts=${[
          ["Type", exchange.type], ["Durable", exchange.durable ? "yes" : "no"], ["Policy", exchange.policy],
          ...Object.entries(exchange.arguments ?? {}).map(([argument, value]) => [html`<code>${argument}</code>`, html`<code>${plain(value)}</code>`]),
        ]} /><//>
      </div>
    </div>
    ${dialog === "publish" && html`<${PublishDialog} vhost=${vhost} exchange=${standard ? "" : name} target=${title} onClose=${close} />`}
    ${dialog === "bind" && html`<${NewBinding} vhost=${vhost} source=${name} onClose=${close} onDone=${changed} />`}
    ${dialog === "delete" && html`<${Confirm} title=${`Delete ${name}`} verb="Delete" name=${name} onClose=${close} act=${deleted}>
      <p>Its bindings are deleted too. Publishing to it then closes the publisher's channel. This cannot be undone.</p><//>`}`;
}
