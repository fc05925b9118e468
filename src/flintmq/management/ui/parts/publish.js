// Publishing one message, to an exchange or straight to a queue.
import { path, post } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { FormDialog } from "./dialog.js";
import { Check, Choice, Field, Pairs, tableOf } from "./field.js";
import { complain, say } from "./notices.js";

const TYPES = ["application/json", "text/plain", ""];

export function PublishDialog({ vhost, exchange = "", routingKey = "", target, onClose, onDone }) {
  const [key, setKey] = useState(routingKey);
  const [payload, setPayload] = useState("");
  const [type, setType] = useState(TYPES[0]);
  const [persistent, setPersistent] = useState(true);
  const [copies, setCopies] = useState("1");
  const [headers, setHeaders] = useState([]);
  const toQueue = exchange === "";
  const act = async () => {
    const properties = { delivery_mode: persistent ? 2 : 1, headers: tableOf(headers) };
    if (type) properties.content_type = type;
    let unrouted = 0;
    for (let copy = 0; copy < Math.min(Number(copies) || 1, 1000); copy += 1) {
      const answer = await post(path`exchanges/${vhost}/${exchange || "amq.default"}/publish`, {
        properties, routing_key: key, payload, payload_encoding: "string", vhost, name: exchange || "amq.default",
      });
      if (!answer.routed) unrouted += 1;
    }
    if (unrouted) complain(new Error("The message was not routed: no binding matches its routing key and headers."));
    else say(Number(copies) > 1 ? `${copies} messages published.` : "Message published.");
    onDone?.();
  };
  return html`<${FormDialog} title=${`Publish to ${target}`} verb="Publish" broad=${true} act=${act} onClose=${onClose}>
    ${!toQueue && html`<${Field} label="Routing key" value=${key} onValue=${setKey} />`}
    <${Field} label="Body" area=${true} value=${payload} onValue=${setPayload} spellcheck="false" autofocus=${true} class="mono" />
    <div class="pair">
      <${Choice} label="Content type" value=${type} onValue=${setType} choices=${TYPES.map((one) => [one, one || "none"])} />
      <${Field} label="Copies" type="number" min="1" max="1000" value=${copies} onValue=${setCopies} />
    </div>
    <${Check} label="Persistent: survives a restart of the broker" value=${persistent} onValue=${setPersistent} />
    <${Pairs} label="Headers" pairs=${headers} onPairs=${setHeaders} />
  <//>`;
}
