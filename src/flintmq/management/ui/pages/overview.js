import { withQuery } from "../core/api.js";
import { amounts, amountsOf, COURSE_QUERY, coursesOf, noteCourses, speeds, speedsOf } from "../core/course.js";
import { brief, count, rate } from "../core/format.js";
import { html } from "../core/html.js";
import { useVhostNames } from "../core/known.js";
import { usePoll } from "../core/poll.js";
import { link } from "../core/router.js";
import { mayMonitor } from "../core/session.js";
import { useVhost } from "../core/vhosts.js";
import { Course } from "../parts/chart.js";
import { ClusterNodes, ShortageBanner } from "../parts/cluster.js";
import { Banner, Empty, Head, Panel, Tags, Trouble, Waiting } from "../parts/states.js";
import { Sparkline } from "../parts/sparkline.js";
import { Table } from "../parts/table.js";
import { noteQueues, Numbered, QueueName, rateOf, RateOut, VHOST_COLUMN } from "../parts/queues.js";

const SECONDS = 5;
const RATES = speedsOf([
  ["Published", "publish"], ["Delivered", "deliver_get"], ["Acknowledged", "ack"], ["Redelivered", "redeliver"], ["Unroutable", "drop_unroutable"],
]);
const DEPTHS = amountsOf([["Ready", "messages_ready"], ["Unacknowledged", "messages_unacknowledged"]]);

export function OverviewPage() {
  const { data, error } = usePoll(withQuery("/api/overview", COURSE_QUERY), SECONDS, remember);
  const nodes = usePoll(mayMonitor() ? "/api/nodes" : null, 10);
  if (error && !data) return html`<${Head} title="Overview" /><${Trouble} error=${error} />`;
  if (!data) return html`<${Head} title="Overview" /><${Waiting} />`;
  const version = data.product_version ?? data.rabbitmq_version;
  return html`
    <${Head} title="Overview"><span class="quiet small">${data.product_name ?? "FlintMQ"} ${version} · ${data.node}</span><//>
    <div class="stack">
      <${Alarms} nodes=${nodes.data ?? []} />
      <${ShortageBanner} cluster=${data.cluster} />
      <${Stats} overview=${data} />
      <div class="columns">
        <${Panel} title="Messages per second"><${Course} courses=${coursesOf("overview", RATES, data.message_stats)} show=${rate} label="Messages per second over the last minutes" /><//>
        <${Panel} title="Messages in queues"><${Course} courses=${coursesOf("overview", DEPTHS, data.queue_totals)} show=${brief} label="Messages in queues over the last minutes" /><//>
      </div>
      <${ClusterNodes} nodes=${nodes.data ?? []} tools=${html`<a href="#/node">The node that leads</a>`} />
      <${Deepest} />
    </div>`;
}

function Alarms({ nodes }) {
  return nodes.map((node) => html`
    ${node.mem_alarm && html`<${Banner} tone="bad" title="Memory is low">Publishers wait until consumers have removed messages. Start consumers, or give the broker more memory.<//>`}
    ${node.disk_free_alarm && html`<${Banner} tone="bad" title="The disk is nearly full">Publishers wait until disk space is free again. Free some, or let consumers remove messages.<//>`}`);
}

function Stats({ overview }) {
  const ready = amounts(overview.queue_totals?.messages_ready_details).values;
  const unacked = amounts(overview.queue_totals?.messages_unacknowledged_details).values;
  const published = speeds(overview.message_stats?.publish_details).values;
  const delivered = speeds(overview.message_stats?.deliver_get_details).values;
  const totals = overview.queue_totals ?? {};
  const objects = overview.object_totals ?? {};
  return html`<dl class="stats">
    <${Stat} name="Ready" value=${brief(totals.messages_ready ?? 0)} shape=${ready} tone="2" />
    <${Stat} name="Unacknowledged" value=${brief(totals.messages_unacknowledged ?? 0)} shape=${unacked} tone="2" />
    <${Stat} name="Published" value=${rate(rateOf(overview, "publish"))} unit="/s" shape=${published} tone="1" />
    <${Stat} name="Delivered" value=${rate(rateOf(overview, "deliver_get"))} unit="/s" shape=${delivered} tone="3" />
    <${Stat} name="Connections" value=${count(objects.connections)} href="#/connections" />
    <${Stat} name="Channels" value=${count(objects.channels)} href="#/channels" />
    <${Stat} name="Queues" value=${count(objects.queues)} href="#/queues" />
    <${Stat} name="Consumers" value=${count(objects.consumers)} />
  </dl>`;
}

function Stat({ name, value, unit, shape, tone, href }) {
  return html`<div class="stat">
    <dt>${href ? html`<a href=${href}>${name}</a>` : name}</dt>
    <dd>${value}${unit && html`<small> ${unit}</small>`}${shape && html`<${Sparkline} values=${shape} tone=${tone} />`}</dd>
  </div>`;
}

// Who sees some of several virtual hosts is told no course of them together: then it is what this page has seen.
function remember(overview) {
  noteCourses("overview", RATES, overview.message_stats);
  noteCourses("overview", DEPTHS, overview.queue_totals);
}

const columnsOf = (showVhost) => [
  { key: "name", label: "Queue", render: (queue) => html`<${QueueName} queue=${queue} />` },
  ...(showVhost ? [VHOST_COLUMN] : []),
  { key: "ready", label: "Ready", number: true, render: (queue) => html`<${Numbered} value=${queue.messages_ready} />` },
  { key: "unacked", label: "Unacked", number: true, render: (queue) => html`<${Numbered} value=${queue.messages_unacknowledged} />` },
  {
    key: "consumers", label: "Consumers", number: true,
    // Messages of a stream wait for nobody.
    render: (queue) => (queue.messages_ready && !queue.consumers && queue.type !== "stream" ? html`<${Tags} tags=${[["none", "warn", "Messages are waiting, but there is no consumer"]]} />` : count(queue.consumers ?? 0)),
  },
  { key: "out", label: "Delivered /s", number: true, render: (queue) => html`<${RateOut} queue=${queue} />` },
];

function Deepest() {
  const vhost = useVhost();
  const vhosts = useVhostNames();
  const address = withQuery(vhost ? `/api/queues/${encodeURIComponent(vhost)}` : "/api/queues", { page: 1, page_size: 6, sort: "messages", sort_reverse: true });
  const { data } = usePoll(address, 5, (page) => noteQueues(page.items));
  if (!data) return null;
  const queues = data.items;
  return html`<${Panel} title="Deepest queues" flush=${true} tools=${html`<a href="#/queues">All queues</a>`}>
    ${queues.length
      ? html`<${Table} label="Deepest queues" columns=${columnsOf(!vhost && vhosts.length > 1)} rows=${queues} keyOf=${(queue) => link(queue.vhost, queue.name)} />`
      : html`<${Empty} icon="queues" title="No queue yet">
          <p>Any client of RabbitMQ works unchanged. With pika, this declares a queue and sends a first message:</p>
          <pre tabindex="0">${FIRST_MESSAGE}</pre>
          <div class="row"><a class="button primary" href="#/queues">Create a queue</a></div>
        <//>`}
  <//>`;
}

const FIRST_MESSAGE = `import pika

connection = pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@localhost/"))
channel = connection.channel()
channel.queue_declare("hello", durable=True)
channel.basic_publish("", "hello", b"Hello, FlintMQ")`;
