// Fields of forms: each has its label, and a hint that a screen reader reads with it.
import { html, useState } from "../core/html.js";
import { Icon } from "./icons.js";

let numbered = 0;

function useName(given) {
  const [name] = useState(() => given ?? `field-${++numbered}`);
  return name;
}

export function Field({ label, hint, value, onValue, id, area = false, ...rest }) {
  const name = useName(id);
  const about = hint ? `${name}-hint` : undefined;
  const changed = (event) => onValue(event.target.value);
  return html`<div class="field">
    <label for=${name}>${label}</label>
    ${area
      ? html`<textarea id=${name} aria-describedby=${about} value=${value} onInput=${changed} ...${rest}></textarea>`
      : html`<input id=${name} aria-describedby=${about} value=${value} onInput=${changed} autocomplete="off" ...${rest} />`}
    ${hint && html`<span class="hint" id=${about}>${hint}</span>`}
  </div>`;
}

/** `choices` are values, or pairs of a value and what is shown. */
export function Choice({ label, hint, value, onValue, choices, id, ...rest }) {
  const name = useName(id);
  const about = hint ? `${name}-hint` : undefined;
  return html`<div class="field">
    <label for=${name}>${label}</label>
    <select id=${name} aria-describedby=${about} value=${value} onChange=${(event) => onValue(event.target.value)} ...${rest}>
      ${choices.map((choice) => {
        const [key, text] = Array.isArray(choice) ? choice : [choice, choice];
        return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
      })}
    </select>
    ${hint && html`<span class="hint" id=${about}>${hint}</span>`}
  </div>`;
}

export function Check({ label, value, onValue, ...rest }) {
  return html`<label class="check"><input type="checkbox" checked=${value} onChange=${(event) => onValue(event.target.checked)} ...${rest} />${label}</label>`;
}

const KINDS = ["text", "number", "boolean", "list", "JSON"];

export function emptyPair() {
  return { name: "", value: "", kind: "text" };
}

/** Rows of arguments or headers; see `tableOf` for what becomes of them. */
export function Pairs({ label, pairs, onPairs, names = [] }) {
  const list = useName();
  const change = (index, part) => onPairs(pairs.map((pair, at) => (at === index ? { ...pair, ...part } : pair)));
  return html`<div class="field" role="group" aria-label=${label}>
    <span class="label">${label}</span>
    <datalist id=${list}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    <div class="pairs">
      ${pairs.map((pair, index) => html`<div class="line" key=${index}>
        <input aria-label=${`${label}: name ${index + 1}`} placeholder="name" list=${list} value=${pair.name} onInput=${(event) => change(index, { name: event.target.value })} />
        <input aria-label=${`${label}: value ${index + 1}`} placeholder="value" value=${pair.value} onInput=${(event) => change(index, { value: event.target.value })} />
        <select aria-label=${`${label}: type ${index + 1}`} value=${pair.kind} onChange=${(event) => change(index, { kind: event.target.value })}>
          ${KINDS.map((kind) => html`<option key=${kind} value=${kind} selected=${kind === pair.kind}>${kind}</option>`)}
        </select>
        <button type="button" class="button icon" aria-label=${`Remove ${pair.name || `row ${index + 1}`}`} onClick=${() => onPairs(pairs.filter((_, at) => at !== index))}><${Icon} name="close" /></button>
      </div>`)}
    </div>
    <div><button type="button" class="button compact" onClick=${() => onPairs([...pairs, emptyPair()])}><${Icon} name="plus" />Add</button></div>
  </div>`;
}

/** The table that rows of `Pairs` stand for. Throws an Error that says which value is wrong. */
export function tableOf(pairs) {
  return Object.fromEntries(pairs.filter((pair) => pair.name).map((pair) => [pair.name, valueOf(pair)]));
}

function valueOf({ name, value, kind }) {
  if (kind === "number") {
    const number = Number(value);
    if (value.trim() === "" || Number.isNaN(number)) throw new Error(`${name}: "${value}" is not a number.`);
    return number;
  }
  if (kind === "boolean") {
    if (value !== "true" && value !== "false") throw new Error(`${name}: write true or false.`);
    return value === "true";
  }
  if (kind === "list") return value.split(",").map((item) => item.trim()).filter(Boolean);
  if (kind === "JSON") {
    try {
      return JSON.parse(value);
    } catch {
      throw new Error(`${name}: "${value}" is not JSON.`);
    }
  }
  return value;
}

/** Rows of `Pairs` for a table that exists. */
export function pairsOf(table) {
  return Object.entries(table ?? {}).map(([name, value]) => {
    if (typeof value === "number") return { name, value: String(value), kind: "number" };
    if (typeof value === "boolean") return { name, value: String(value), kind: "boolean" };
    if (typeof value === "object") return { name, value: JSON.stringify(value), kind: "JSON" };
    return { name, value: String(value), kind: "text" };
  });
}
