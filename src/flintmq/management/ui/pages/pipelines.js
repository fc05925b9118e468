import { ago, count, rate, span } from "../core/format.js";
import { note, seen } from "../core/history.js";
import { html } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { Banner, Empty, Head, Tags, Trouble, Waiting } from "../parts/states.js";
import { Sparkline } from "../parts/sparkline.js";

const TONES = { running: "good", starting: "info", stopping: "info", failed: "bad", silent: "warn" };

function noteFlows(pipelines) {
  for (const pipeline of pipelines) {
    for (const flow of pipeline.flows) {
      note(`flow rate ${pipeline.pipeline} ${flow.name}`, flow.rate);
      if (flow.lag !== null) note(`flow lag ${pipeline.pipeline} ${flow.name}`, flow.lag);
    }
  }
}

export function PipelinesPage() {
  const { data, error } = usePoll("/api/pipelines", 2, noteFlows);
  return html`
    <${Head} title="Pipelines" />
    ${error && !data && html`<section class="panel"><${Trouble} error=${error} /></section>`}
    ${!data && !error && html`<${Waiting} />`}
    ${data?.length === 0 && html`<section class="panel"><${Empty} icon="pipelines" title="No pipeline has reported">
      <p>A pipeline is a file that defines flows between queues, streams, exchanges and the lake. Spark runs it. Running pipelines report their state here.</p>
      <pre tabindex="0">flintmq pipeline run carriers.yaml</pre>
    <//></section>`}
    <div class="stack">${(data ?? []).map((pipeline) => html`<${Pipeline} key=${pipeline.pipeline} pipeline=${pipeline} />`)}</div>`;
}

function Pipeline({ pipeline }) {
  return html`<section class="panel pipeline">
    <header>
      <h2>${pipeline.pipeline}</h2><${Tags} tags=${[[pipeline.state, TONES[pipeline.state] ?? ""]]} />
      <span class="grow"></span><span class="quiet small">${pipeline.master}${pipeline.host && ` on ${pipeline.host}`} · last report ${ago(pipeline.updated_ms)}</span>
    </header>
    ${(pipeline.description || pipeline.error) && html`<div class="body">
      ${pipeline.description && html`<p class="path">${pipeline.description}</p>`}
      ${pipeline.error && html`<${Banner} tone="bad" title="The pipeline failed">${pipeline.error}<//>`}
    </div>`}
    ${pipeline.flows.map((flow) => html`<${Flow} key=${flow.name} pipeline=${pipeline.pipeline} flow=${flow} />`)}
  </section>`;
}

function Flow({ pipeline, flow }) {
  const numbers = [
    ["Lag", flow.lag === null || flow.lag === undefined ? "–" : count(flow.lag), seen(`flow lag ${pipeline} ${flow.name}`), 2],
    ["Rows per second", rate(flow.rate), seen(`flow rate ${pipeline} ${flow.name}`), 1],
    ["Rows", count(flow.rows)], ["Batches", count(flow.batches)], ["Last batch", flow.batch_ms ? span(flow.batch_ms) : "–"],
    ["Files", flow.files === null || flow.files === undefined ? "–" : count(flow.files)],
  ];
  return html`<div class="flow">
    <div class="row"><h3>${flow.name}</h3><${Tags} tags=${[[flow.state, TONES[flow.state] ?? ""], ...progressOf(flow)]} /></div>
    ${flow.error && html`<p class="complaint">${flow.error}</p>`}
    <dl class="numbers">${numbers.map(([name, value, shape, tone]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd>${shape && html`<${Sparkline} values=${shape} tone=${tone} />`}</div>`)}</dl>
  </div>`;
}

/** Whether a flow keeps up, from what comes in and what it does. */
function progressOf(flow) {
  if (flow.state !== "running" || flow.lag === null || flow.lag === undefined) return [];
  if (flow.lag === 0) return [["up to date", "good"]];
  const gain = flow.rate - flow.input_rate;
  return gain > 0 ? [[`up to date in ${span((flow.lag / gain) * 1000)}`, "info"]] : [["falling behind", "warn"]];
}
