import { path } from "../core/api.js";
import { bytes, count, moment, plain } from "../core/format.js";
import { note, seen } from "../core/history.js";
import { html, useState } from "../core/html.js";
import { removeShown, usePoll } from "../core/poll.js";
import { go } from "../core/router.js";
import { current, mayAdminister } from "../core/session.js";
import { CHANNEL_COLUMNS, noteChannels } from "../parts/channels.js";
import { Chart } from "../parts/chart.js";
import { FormDialog } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { say } from "../parts/notices.js";
import { Facts, Head, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { connectionTags, traffic } from "./connections.js";

export function ConnectionPage({ names: [name] }) {
  const [closing, setClosing] = useState(false);
  const [reason, setReason] = useState("");
  const address = path`connections/${name}`;
  const key = (what) => `connection page ${what} ${name}`;
  const { data: connection, error } = usePoll(address, 2, (one) => {
    note(key("time"), Date.now() / 1000);
    note(key("in"), traffic(one, "recv"));
    note(key("out"), traffic(one, "send"));
  });
  const channels = usePoll(`${address}/channels`, 4, noteChannels);
  const crumbs = html`<a href="#/connections">Connections</a>`;
  if (!connection || error) return html`<${Head} title=${name} crumbs=${crumbs} />${error ? html`<${Trouble} error=${error} />` : html`<${Waiting} />`}`;
  const act = async () => {
    // A header has room for Latin-1 only.
    const told = (reason || "Closed from the web interface").replace(/[^\x20-\xff]/g, "?");
    await removeShown(address, { extra: { "X-Reason": told } });
    say("Connection closed.");
    go("#/connections");
  };
  const line = (text, what) => ({ name: text, values: [...seen(key(what))] });
  const { capabilities, ...properties } = connection.client_properties ?? {};
  return html`
    <${Head} title=${connection.user_provided_name || connection.client_properties?.connection_name || name} crumbs=${crumbs} badge=${html`<${Tags} tags=${connectionTags(connection)} />`}>
      ${(mayAdminister() || connection.user === current()?.name) && html`<button type="button" class="button danger" onClick=${() => setClosing(true)}>Close connection</button>`}
    <//>
    <div class="stack">
      <div class="columns">
        <${Panel} title="Bytes per second"><${Chart} label="Bytes per second over the last minutes" times=${[...seen(key("time"))]} show=${bytes} lines=${[line("From the client", "in"), line("To the client", "out")]} /><//>
        <${Panel} title="About this connection"><${Facts} facts=${[
          ["User", connection.user], ["Virtual host", connection.vhost], ["Protocol", connection.protocol],
          ["Client address", connection.peer_host ? `${connection.peer_host}:${connection.peer_port}` : undefined],
          ["Login", connection.auth_mechanism],
          ["TLS", connection.ssl ? `${connection.ssl_protocol ?? ""} ${connection.ssl_cipher ?? ""}` : "no"],
          ["Connected since", moment(connection.connected_at)],
          ["Heartbeat", connection.timeout ? `${connection.timeout} s` : "off"],
          ["Maximum frame size", bytes(connection.frame_max)], ["Channels", `${count(connection.channels)} of ${count(connection.channel_max)}`],
        ]} /><//>
      </div>
      <${Panel} title="Channels" flush=${true}>
        ${channels.data?.length ? html`<${Table} label="Channels" columns=${CHANNEL_COLUMNS} rows=${channels.data} keyOf=${(channel) => channel.name} />` : html`<div class="empty"><p>This connection has no open channels.</p></div>`}
      <//>
      <${Panel} title="Client properties"><${Facts} facts=${[
        ...Object.entries(properties).map(([property, value]) => [property, plain(value)]),
        ["capabilities", Object.entries(capabilities ?? {}).filter(([, on]) => on).map(([capability]) => capability).join(", ")],
      ]} /><//>
    </div>
    ${closing && html`<${FormDialog} title="Close this connection" verb="Close connection" danger=${true} act=${act} onClose=${() => setClosing(false)}>
      <p>Unacknowledged messages return to their queues. Most clients reconnect automatically.</p>
      <${Field} label="Reason for the client" value=${reason} onValue=${setReason} autofocus=${true} />
    <//>`}`;
}
