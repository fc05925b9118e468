// What stands where there is nothing to show: yet, at all, or because something went wrong.
import { html } from "../core/html.js";
import { Icon } from "./icons.js";

export function Waiting() {
  return html`<div class="empty"><p role="status">Loading…</p></div>`;
}

// Status 0 is that of a request without an answer.
const TITLES = new Map([[0, "No answer"], [401, "Not allowed"], [403, "Not allowed"], [404, "Not found"]]);

export function Trouble({ error }) {
  return html`<div class="empty">
    <${Icon} name="warning" art=${true} />
    <h2>${TITLES.get(error.status) ?? (error.status >= 500 ? "Broker error" : "Request refused")}</h2>
    <p>${error.message}</p>
  </div>`;
}

/** Says what to do next. */
export function Empty({ icon, title, children }) {
  return html`<div class="empty"><${Icon} name=${icon} art=${true} /><h2>${title}</h2>${children}</div>`;
}

export function Banner({ tone = "", title, children }) {
  return html`<div class=${`banner ${tone}`} role=${tone === "bad" ? "alert" : "note"}>
    <${Icon} name="warning" /><div><b>${title}</b>${children}</div>
  </div>`;
}

export function Head({ title, crumbs, badge, children }) {
  return html`<div class="head">
    ${crumbs && html`<nav class="crumbs" aria-label="Breadcrumbs">${crumbs}</nav>`}
    <h1 tabindex="-1">${title}</h1>${badge}<span class="grow"></span>${children}
  </div>`;
}

export function Panel({ title, tools, flush = false, children }) {
  return html`<section class="panel">
    ${title && html`<header><h2>${title}</h2><span class="grow"></span>${tools}</header>`}
    ${flush ? children : html`<div class="body">${children}</div>`}
  </section>`;
}

export function Facts({ facts }) {
  const said = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return html`<dl class="facts">${said.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd>${value}</dd>`])}</dl>`;
}

export function Tabs({ label, tabs }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map((tab) => html`<a key=${tab.href} href=${tab.href} aria-current=${tab.here ? "page" : undefined}>${tab.text}</a>`)}
  </nav>`;
}

export function Meter({ label, value, tone = "" }) {
  const part = Math.max(0, Math.min(1, Number.isFinite(value) ? value : 0));
  return html`<span class=${`meter ${tone}`} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(part * 100)}>
    <span style=${{ width: `${part * 100}%` }}></span>
  </span>`;
}

export function Tags({ tags }) {
  if (!tags.length) return null;
  return html`<span class="tags">${tags.map(([text, tone = "", title]) => html`<span key=${text} class=${`tag ${tone}`} title=${title}>${text}</span>`)}</span>`;
}
