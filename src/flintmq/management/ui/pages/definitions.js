import { get, path, post } from "../core/api.js";
import { count } from "../core/format.js";
import { html, useState } from "../core/html.js";
import { reload, useVhostNames, VHOSTS } from "../core/known.js";
import { mayAdminister } from "../core/session.js";
import { Confirm } from "../parts/dialog.js";
import { Choice } from "../parts/field.js";
import { attempt, complain, say } from "../parts/notices.js";
import { Facts, Head, Panel } from "../parts/states.js";

const PARTS = [
  "vhosts", "users", "permissions", "topic_permissions", "exchanges", "queues", "bindings", "policies", "parameters", "global_parameters",
];

function addressOf(vhost) {
  return vhost ? path`definitions/${vhost}` : "/api/definitions";
}

export function DefinitionsPage() {
  const vhosts = useVhostNames();
  const choices = mayAdminister() ? [["", "The whole broker"], ...vhosts] : vhosts;
  const [from, setFrom] = useState(mayAdminister() ? "" : vhosts[0]);
  const [into, setInto] = useState(mayAdminister() ? "" : vhosts[0]);
  const [file, setFile] = useState(null);
  const [sure, setSure] = useState(false);
  const exported = () => attempt(async () => {
    const definitions = await get(addressOf(from ?? vhosts[0]));
    download(`flintmq-${(from || "broker").replace(/[^\w.-]+/g, "_")}-${new Date().toISOString().slice(0, 10)}.json`, definitions);
  }, "Definitions saved.");
  const chosen = async (event) => {
    const [given] = event.target.files;
    setFile(null);
    if (!given) return;
    try {
      setFile({ name: given.name, definitions: JSON.parse(await given.text()) });
    } catch {
      complain(new Error(`${given.name} is not JSON. Choose a file that FlintMQ or RabbitMQ exported.`));
    }
  };
  const act = async () => {
    await post(addressOf(into), file.definitions);
    say("Definitions imported.");
    reload(VHOSTS).catch(() => {});
  };
  return html`
    <${Head} title="Definitions" />
    <p class="lede">Users, permissions, virtual hosts, exchanges, queues, bindings and policies as one JSON file, in RabbitMQ's format. Messages are not in it.</p>
    <div class="columns">
      <${Panel} title="Export">
        <div class="form">
          <${Choice} label="Scope" value=${from} onValue=${setFrom} choices=${choices} />
          <div class="row"><button type="button" class="button primary" onClick=${exported}>Save as a file</button></div>
        </div>
      <//>
      <${Panel} title="Import">
        <div class="form">
          <div class="field"><label for="definitions-file">A file that FlintMQ or RabbitMQ exported</label><input type="file" id="definitions-file" accept=".json,application/json" onChange=${chosen} /></div>
          <${Choice} label="Into" value=${into} onValue=${setInto} choices=${choices} hint="Existing objects stay, unless the file changes them." />
          ${file && html`<${Facts} facts=${PARTS.filter((part) => Array.isArray(file.definitions[part])).map((part) => [part.replaceAll("_", " "), count(file.definitions[part].length)])} />`}
          <div class="row"><button type="button" class="button primary" disabled=${!file} onClick=${() => setSure(true)}>Import…</button></div>
        </div>
      <//>
    </div>
    ${sure && html`<${Confirm} title=${`Import ${file.name}`} verb="Import" act=${act} onClose=${() => setSure(false)}>
      <p>The objects in the file are added or changed ${into ? html`in the virtual host <code>${into}</code>` : "in the whole broker"}. Nothing is removed.</p><//>`}`;
}

function download(name, content) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  URL.revokeObjectURL(address);
}
