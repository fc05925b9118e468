// The browser's own dialog: it keeps the focus inside, closes on Escape, and gives the focus back.
import { html, useEffect, useRef, useState } from "../core/html.js";
import { Icon } from "./icons.js";

export function Dialog({ title, broad = false, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current.showModal();
    return () => opener?.focus?.();
  }, []);
  return html`<dialog ref=${element} class=${broad ? "broad" : ""} aria-labelledby="dialog-title" onClose=${onClose}>
    <header>
      <h2 id="dialog-title">${title}</h2>
      <button type="button" class="button plain icon" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button>
    </header>
    <div class="body">${children}</div>
  </dialog>`;
}

/** A form in a dialog: `act` may throw, and its complaint stands in the form. */
export function FormDialog({ title, verb, act, onClose, danger = false, ready = true, broad = false, children }) {
  const [complaint, setComplaint] = useState("");
  const [busy, setBusy] = useState(false);
  const submitted = async (event) => {
    event.preventDefault();
    setBusy(true);
    setComplaint("");
    try {
      await act();
      onClose();
    } catch (error) {
      setBusy(false);
      setComplaint(error.message ?? String(error));
    }
  };
  return html`<${Dialog} title=${title} broad=${broad} onClose=${onClose}>
    <form class="form" onSubmit=${submitted}>
      ${children}
      <p class="complaint" role="alert">${complaint}</p>
      <div class="row end">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button class=${`button primary ${danger ? "danger" : ""}`} disabled=${busy || !ready}>${verb}</button>
      </div>
    </form>
  <//>`;
}

/** For what cannot be undone. With `name`, it has to be typed. */
export function Confirm({ title, verb, name = "", act, onClose, children }) {
  const [typed, setTyped] = useState("");
  return html`<${FormDialog} title=${title} verb=${verb} act=${act} onClose=${onClose} danger=${true} ready=${!name || typed === name}>
    ${children}
    ${name && html`<div class="field">
      <label for="confirm-name">Type <code>${name}</code> to confirm</label>
      <input id="confirm-name" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
    </div>`}
  <//>`;
}
