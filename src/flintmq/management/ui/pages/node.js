import { bytes, count, span } from "../core/format.js";
import { html } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { ClusterNodes, ShortageBanner } from "../parts/cluster.js";
import { Banner, Facts, Head, Meter, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table } from "../parts/table.js";

const LISTENERS = [
  { key: "protocol", label: "Protocol", render: (one) => one.protocol },
  { key: "address", label: "Address", render: (one) => one.ip_address },
  { key: "port", label: "Port", number: true, render: (one) => one.port },
];

export function NodePage() {
  const nodes = usePoll("/api/nodes", 3);
  const overview = usePoll("/api/overview", 15);
  if (!nodes.data) return html`<${Head} title="Node" />${nodes.error ? html`<${Trouble} error=${nodes.error} />` : html`<${Waiting} />`}`;
  const listeners = overview.data?.listeners ?? [];
  return html`<${Head} title="Node" />
    <div class="stack">
      <${ShortageBanner} cluster=${overview.data?.cluster} />
      <${ClusterNodes} nodes=${nodes.data} />
      ${nodes.data.filter((node) => node.is_leader !== false).map((node) => html`<${Node} key=${node.name} node=${node} overview=${overview.data} />`)}
      <${Panel} title="Listeners" flush=${true}>
        ${listeners.length ? html`<${Table} label="Listeners" columns=${LISTENERS} rows=${listeners} keyOf=${(one) => `${one.protocol} ${one.ip_address} ${one.port}`} />` : html`<div class="empty"><p>Unknown.</p></div>`}
      <//>
    </div>`;
}

function Node({ node, overview }) {
  return html`
    ${node.mem_alarm && html`<${Banner} tone="bad" title="Memory is low">Publishers wait until memory is free again.<//>`}
    ${node.disk_free_alarm && html`<${Banner} tone="bad" title="The disk is nearly full">Publishers wait until disk space is free again.<//>`}
    <div class="columns">
      <${Panel} title="Resources">
        <div class="stack">
          <${Gauge} name="Memory" used=${node.mem_used} limit=${node.mem_limit} show=${bytes} bad=${node.mem_alarm} />
          <${DiskGauge} node=${node} />
          <${Gauge} name="File descriptors" used=${node.fd_used} limit=${node.fd_total} show=${count} />
          <${Gauge} name="Connections" used=${node.sockets_used} limit=${node.sockets_total} show=${count} />
        </div>
      <//>
      <${Panel} title=${node.name}><${Facts} facts=${[
        ["Uptime", Number.isFinite(node.uptime) ? span(node.uptime) : undefined],
        ["Version", overview?.product_version ?? overview?.rabbitmq_version],
        ["Process", node.os_pid], ["Processors", node.processors],
        ["Data directory", node.db_dir], ["Log", node.log_files?.join(", ")], ["Settings", node.config_files?.join(", ")],
        ["Compatible with RabbitMQ", overview?.product_version ? overview.rabbitmq_version : undefined],
        ["Ticks, last minute", timing(node.tick_seconds)],
        ["Stalls of the event loop, last minute", timing(node.loop_stall_seconds)],
        ["Exchange types", overview && html`<${Tags} tags=${overview.exchange_types.map((one) => [one.name])} />`],
      ]} /><//>
    </div>`;
}

function timing(measured) {
  if (!measured) return undefined;
  const { p50, p99, longest } = measured;
  return `p50 ${milliseconds(p50)}, p99 ${milliseconds(p99)}, longest ${milliseconds(longest)}`;
}

function milliseconds(seconds) {
  return `${Number((1000 * seconds).toPrecision(2))} ms`;
}

function Gauge({ name, used, limit, show, bad = false }) {
  if (!Number.isFinite(used)) return null;
  const part = limit ? used / limit : 0;
  return html`<div class="gauge">
    <div class="row"><span>${name}</span><span><b>${show(used)}</b>${limit ? html` <span class="quiet">of ${show(limit)}</span>` : ""}</span></div>
    ${limit ? html`<${Meter} label=${name} value=${part} tone=${bad || part > 0.95 ? "bad" : part > 0.8 ? "warn" : ""} />` : null}
  </div>`;
}

function DiskGauge({ node }) {
  if (!Number.isFinite(node.disk_free)) return null;
  const total = node.disk_total;
  return html`<div class="gauge">
    <div class="row"><span>Free disk space</span><span><b>${bytes(node.disk_free)}</b> <span class="quiet">alarm below ${bytes(node.disk_free_limit)}</span></span></div>
    ${total ? html`<${Meter} label="Used disk space" value=${1 - node.disk_free / total} tone=${node.disk_free_alarm ? "bad" : ""} />` : null}
  </div>`;
}
