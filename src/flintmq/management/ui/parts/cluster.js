// The nodes of a cluster: which one leads, which are in sync, and how far each is behind.
import { bytes, span } from "../core/format.js";
import { html } from "../core/html.js";
import { Banner, Panel, Tags } from "./states.js";
import { Table } from "./table.js";

const COLUMNS = [
  { key: "name", label: "Node", render: (node) => node.name },
  { key: "state", label: "State", render: (node) => html`<${Tags} tags=${stateOf(node)} />` },
  { key: "bytes", label: "Behind", number: true, render: (node) => (node.is_leader ? "–" : bytes(node.behind_bytes ?? NaN)) },
  { key: "seconds", label: "Behind, time", number: true, render: (node) => (node.is_leader ? "–" : span(node.behind_seconds === null ? NaN : Math.round(1000 * node.behind_seconds))) },
  { key: "address", label: "Address", optional: true, render: (node) => node.address },
  { key: "version", label: "Version", optional: true, render: (node) => node.version },
];

function stateOf(node) {
  if (node.is_leader) return [["leads", "info", "Clients talk to this node"]];
  const sync = node.is_in_sync ? ["in sync", "good", "It has everything that is confirmed"] : ["not in sync", "warn", "It does not have everything that is confirmed"];
  return node.running ? [sync] : [["not running", "bad", "Nothing was heard of it in the last seconds"]];
}

/** Whether nodes are those of a cluster. */
export function isCluster(nodes) {
  return nodes.some((node) => node.is_leader !== undefined);
}

export function ClusterNodes({ nodes, tools }) {
  if (!isCluster(nodes)) return null;
  return html`<${Panel} title="Nodes" flush=${true} tools=${tools}><${Table} label="Nodes" columns=${COLUMNS} rows=${nodes} keyOf=${(node) => node.name} /><//>`;
}

export function ShortageBanner({ cluster }) {
  if (!cluster?.shortage) return null;
  return html`<${Banner} tone="bad" title="Publishers wait for other nodes">${cluster.shortage}. Messages are confirmed when at least ${cluster.min_in_sync} of ${cluster.nodes} nodes have them. Start nodes that do not run; others catch up by themselves.<//>`;
}
