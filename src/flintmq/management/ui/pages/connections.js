import { path } from "../core/api.js";
import { bytes, count } from "../core/format.js";
import { note, seen } from "../core/history.js";
import { html } from "../core/html.js";
import { link } from "../core/router.js";
import { useVhost } from "../core/vhosts.js";
import { ResumableLinks } from "../parts/links.js";
import { Listing } from "../parts/listing.js";
import { RateCell } from "../parts/sparkline.js";
import { Empty, Head, Tags } from "../parts/states.js";

export function connectionTags(connection) {
  const state = connection.state ?? "running";
  const tags = [[state, state === "running" ? "good" : state === "idle" ? "" : "warn"]];
  if (connection.ssl) tags.push([connection.ssl_protocol || "TLS", "info"]);
  return tags;
}

export function traffic(connection, direction) {
  return connection[`${direction}_oct_details`]?.rate ?? 0;
}

const COLUMNS = [
  {
    key: "name", label: "Client", sort: "name",
    render: (one) => html`<a href=${link("connections", one.name)}>${one.user_provided_name || one.client_properties?.connection_name || one.name}</a>
      <span class="in-vhost">${one.user_provided_name || one.client_properties?.connection_name ? one.name : one.client_properties?.product ?? ""}</span>`,
  },
  { key: "user", label: "User", sort: "user", render: (one) => html`<span>${one.user}<span class="in-vhost">${one.vhost}</span></span>` },
  { key: "state", label: "State", sort: "state", render: (one) => html`<${Tags} tags=${connectionTags(one)} />` },
  { key: "protocol", label: "Protocol", sort: "protocol", optional: true, render: (one) => one.protocol },
  { key: "channels", label: "Channels", number: true, sort: "channels", render: (one) => count(one.channels ?? 0) },
  { key: "in", label: "From client /s", number: true, sort: "recv_oct_details.rate", render: (one) => html`<${RateCell} value=${traffic(one, "recv")} values=${seen(`connection in ${one.name}`)} tone="1" show=${bytes} />` },
  { key: "out", label: "To client /s", number: true, sort: "send_oct_details.rate", render: (one) => html`<${RateCell} value=${traffic(one, "send")} values=${seen(`connection out ${one.name}`)} tone="3" show=${bytes} />` },
];

function remember(page) {
  for (const one of page.items) {
    note(`connection in ${one.name}`, traffic(one, "recv"));
    note(`connection out ${one.name}`, traffic(one, "send"));
  }
}

export function ConnectionsPage() {
  const vhost = useVhost();
  return html`
    <${Head} title="Connections" />
    <${Listing} label="Connections" address=${vhost ? path`vhosts/${vhost}/connections` : "/api/connections"} columns=${COLUMNS} keyOf=${(one) => one.name}
      first=${{ key: "name", reverse: false }} onData=${remember}
      empty=${html`<${Empty} icon="connections" title="No connections">
        <p>Give a client the broker's address, such as <code>amqp://guest:guest@localhost/</code>. It is listed here as soon as it has connected.</p>
      <//>`} />
    <${ResumableLinks} vhost=${vhost} />`;
}
