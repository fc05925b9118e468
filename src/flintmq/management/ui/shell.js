// What stands around every page: menu, bar, and the keys.
import { html, useEffect, useRef, useState } from "./core/html.js";
import { useHeard } from "./core/poll.js";
import { usePlace } from "./core/router.js";
import { current, end } from "./core/session.js";
import { enable, enabled, listen } from "./core/shortcuts.js";
import { switchTheme, useTheme } from "./core/theme.js";
import { choose, useVhost } from "./core/vhosts.js";
import { useVhostNames } from "./core/known.js";
import { Dialog } from "./parts/dialog.js";
import { Check } from "./parts/field.js";
import { Icon, Mark } from "./parts/icons.js";
import { Trouble } from "./parts/states.js";
import { GROUPS, PLACES, placeOf } from "./places.js";

export function Shell() {
  const { segments, query } = usePlace();
  const [open, setOpen] = useState(false);
  const [helping, setHelping] = useState(false);
  const main = useRef(null);
  const first = useRef(true);
  const place = placeOf(segments);
  const address = segments.join("/");
  useEffect(() => listen(PLACES.filter((one) => one.may()), { help: () => setHelping(true), theme: switchTheme }), []);
  useEffect(() => {
    document.title = `${segments[2] ?? segments[1] ?? place?.title ?? "Not found"} · FlintMQ`;
    setOpen(false);
    // The next page is read from its heading on.
    if (!first.current) {
      scrollTo(0, 0);
      main.current.querySelector("h1")?.focus();
    }
    first.current = false;
  }, [address]);
  const skip = (event) => {
    event.preventDefault();
    main.current.focus();
  };
  return html`
    <a class="skip" href="#content" onClick=${skip}>Skip to content</a>
    <div class=${`shell ${open ? "open" : ""}`} onKeyDown=${(event) => event.key === "Escape" && setOpen(false)}>
      <${Side} here=${place} />
      <button type="button" class="veil" aria-label="Close the menu" onClick=${() => setOpen(false)}></button>
      <div>
        <${Bar} open=${open} onMenu=${() => setOpen(!open)} onHelp=${() => setHelping(true)} />
        <main id="content" tabindex="-1" ref=${main}><${Page} key=${address} place=${place} segments=${segments} query=${query} /></main>
      </div>
    </div>
    ${helping && html`<${Help} onClose=${() => setHelping(false)} />`}`;
}

function Page({ place, segments, query }) {
  if (place && !place.may()) return html`<${Trouble} error=${{ status: 403, message: "You do not have permission to see this page." }} />`;
  if (place && segments.length <= 1) return html`<${place.page} query=${query} />`;
  if (place?.detail) return html`<${place.detail} names=${segments.slice(1)} query=${query} />`;
  return html`<h1 tabindex="-1" class="hidden-text">Not found</h1><${Trouble} error=${{ status: 404, message: "This page does not exist. Choose a page from the menu." }} />`;
}

function Side({ here }) {
  return html`<nav class="side" id="menu" aria-label="Pages">
    <a class="brand" href="#/"><${Mark} />FlintMQ</a>
    ${GROUPS.map((group) => html`<div key=${group.title}>
      ${group.title && html`<h2>${group.title}</h2>`}
      <ul>${group.places.filter((place) => place.may()).map((place) => html`<li key=${place.name}>
        <a class="place" href=${place.address} aria-current=${place === here ? "page" : undefined}><${Icon} name=${place.name} />${place.title}</a>
      </li>`)}</ul>
    </div>`)}
  </nav>`;
}

function Bar({ open, onMenu, onHelp }) {
  const heard = useHeard();
  const theme = useTheme();
  const vhost = useVhost();
  const names = useVhostNames();
  return html`<header class="bar">
    <button type="button" class="button plain icon menu-button" aria-label="Menu" aria-controls="menu" aria-expanded=${open} onClick=${onMenu}><${Icon} name="menu" /></button>
    <label><span class="wide">Virtual host</span>
      <select aria-label="Virtual host" value=${vhost} onChange=${(event) => choose(event.target.value)}>
        <option value="" selected=${vhost === ""}>All</option>
        ${names.map((name) => html`<option key=${name} value=${name} selected=${name === vhost}>${name}</option>`)}
      </select>
    </label>
    <span class="grow"></span>
    <span class=${`beat ${heard ? "" : "lost"}`} role="status">${heard ? html`<span class="wide">Live</span>` : "No answer"}</span>
    <span class="who wide" title=${current().name}>${current().name}</span>
    <button type="button" class="button plain icon wide" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick=${onHelp}><${Icon} name="keyboard" /></button>
    <button type="button" class="button plain icon" aria-label=${theme === "dark" ? "Light theme" : "Dark theme"} title="Change the theme (t)" onClick=${switchTheme}><${Icon} name=${theme === "dark" ? "sun" : "moon"} /></button>
    <button type="button" class="button plain icon" aria-label="Log out" title="Log out" onClick=${() => end()}><${Icon} name="leave" /></button>
  </header>`;
}

function Help({ onClose }) {
  const [on, setOn] = useState(enabled);
  const switched = (value) => {
    enable(value);
    setOn(value);
  };
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <div class="stack">
      <${Check} label="Single-key shortcuts" value=${on} onValue=${switched} />
      <div class="shortcuts">
        <kbd>/</kbd><span>Search or filter</span>
        <kbd>t</kbd><span>Light or dark</span>
        <kbd>?</kbd><span>This list</span>
        ${PLACES.filter((place) => place.may()).map((place) => [html`<span><kbd>g</kbd> <kbd>${place.key}</kbd></span>`, html`<span>${place.title}</span>`])}
      </div>
    </div>
  <//>`;
}
