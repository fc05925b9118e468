// What goes from where to where, laid out by dagre and drawn as SVG. The lists beside it say the same as text.
import dagre from "../vendor/dagre.esm.js";
import { html, useMemo } from "../core/html.js";
import { link } from "../core/router.js";

const MOST_NODES = 160;
const BOX_HEIGHT = 46;
const LETTER = 7.6;
const SHOWN_LETTERS = 30;

/** `bindings` are the API's; `here` is {kind: "exchange"|"queue", name}; `types` says the type of what is known, by kind and name. */
export function BindingGraph({ vhost, bindings, here, types = new Map() }) {
  const drawn = useMemo(() => layout(bindings, here, types), [JSON.stringify(bindings), here?.name]);
  if (!drawn.nodes.length) return null;
  return html`<div class="graph" tabindex="0" role="region" aria-label=${`Bindings in ${vhost}`}>
    <svg width=${drawn.width} height=${drawn.height} viewBox=${`0 0 ${drawn.width} ${drawn.height}`} role="group" aria-label="Exchanges and the queues they route to">
      <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="tip" d="M0 0 8 4 0 8z" /></marker></defs>
      ${drawn.edges.map((edge) => html`<path key=${edge.id} class="edge" d=${edge.path} marker-end="url(#tip)" />`)}
      ${drawn.edges.filter((edge) => edge.label).map((edge) => html`<g key=${`key ${edge.id}`} class="key">
        <rect x=${edge.x - edge.width / 2} y=${edge.y - 9} width=${edge.width} height="18" rx="4" />
        <text x=${edge.x} y=${edge.y + 4} text-anchor="middle">${edge.label}<title>${edge.title}</title></text>
      </g>`)}
      ${drawn.nodes.map((node) => html`<a key=${node.id} class=${`${node.kind} ${node.here ? "here" : ""}`} href=${link(`${node.kind === "exchange" ? "exchanges" : "queues"}`, vhost, node.name)}>
        <title>${node.name}, ${node.type}</title><rect class="box" x=${node.x - node.width / 2} y=${node.y - BOX_HEIGHT / 2} width=${node.width} height=${BOX_HEIGHT} rx=${node.kind === "exchange" ? 23 : 7} />
        <text x=${node.x} y=${node.y - 1} text-anchor="middle">${shortened(node.name)}</text>
        <text class="kind" x=${node.x} y=${node.y + 14} text-anchor="middle">${node.type}</text>
      </a>`)}
    </svg>
    ${drawn.left > 0 && html`<p class="quiet small">${drawn.left} more bindings are not drawn. The list has them all.</p>`}
  </div>`;
}

function layout(bindings, here, types) {
  const graph = new dagre.graphlib.Graph({ multigraph: false });
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 70, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  const add = (kind, name) => {
    const id = `${kind} ${name}`;
    if (!graph.hasNode(id)) {
      const type = types.get(id) ?? kind;
      const width = Math.max(96, Math.min(name.length, SHOWN_LETTERS) * LETTER + 34);
      graph.setNode(id, { id, kind: type === "stream" ? "stream" : kind, name, type, width, height: BOX_HEIGHT, here: here?.kind === kind && here.name === name });
    }
    return id;
  };
  if (here) add(here.kind, here.name);
  const keys = new Map();
  let left = 0;
  for (const binding of bindings) {
    if (!binding.source) continue;
    if (graph.nodeCount() >= MOST_NODES) {
      left += 1;
      continue;
    }
    const from = add("exchange", binding.source);
    const to = add(binding.destination_type, binding.destination);
    const id = JSON.stringify([from, to]);
    keys.set(id, [...(keys.get(id) ?? []), labelOf(binding)]);
    const labels = keys.get(id).filter(Boolean);
    const label = labels.length > 1 ? `${labels.length} keys` : shortened(labels[0] ?? "");
    const width = label ? label.length * 7.4 + 12 : 0;
    graph.setEdge(from, to, { id, label, title: labels.join("\n"), width, height: label ? 18 : 0, labelpos: "c" });
  }
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width: Math.max(1, Math.ceil(width)), height: Math.max(1, Math.ceil(height)), left,
    nodes: graph.nodes().map((id) => graph.node(id)),
    edges: graph.edges().map((edge) => ({ ...graph.edge(edge), path: curve(graph.edge(edge).points) })),
  };
}

function labelOf(binding) {
  const terms = Object.entries(binding.arguments ?? {});
  return binding.routing_key || terms.map(([name, value]) => `${name}=${value}`).join(" ");
}

function shortened(text) {
  return text.length > SHOWN_LETTERS ? `${text.slice(0, SHOWN_LETTERS - 1)}…` : text;
}

function curve(points) {
  const [first, ...rest] = points;
  let way = `M${first.x} ${first.y}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    way += next ? ` Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}` : ` L${point.x} ${point.y}`;
  });
  return way;
}
