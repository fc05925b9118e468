// What came of an act, said once, also to a screen reader.
import { html, useEffect, useState } from "../core/html.js";
import { Icon } from "./icons.js";

const SHOWN_MS = 7000;
let listener = () => {};
let last = 0;

export function say(text) {
  listener({ text, bad: false, id: ++last });
}

export function complain(error) {
  listener({ text: error.message ?? String(error), bad: true, id: ++last });
}

/** Runs an act, says what came of it, and returns whether it succeeded. */
export async function attempt(act, done) {
  try {
    const result = await act();
    const text = typeof done === "function" ? done(result) : done;
    if (text) say(text);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

export function Notices() {
  const [notices, setNotices] = useState([]);
  useEffect(() => {
    listener = (notice) => {
      setNotices((before) => [...before.slice(-3), notice]);
      // What went wrong stays until it has been read.
      if (!notice.bad) setTimeout(() => close(notice.id), SHOWN_MS);
    };
    return () => {
      listener = () => {};
    };
  }, []);
  const close = (id) => setNotices((before) => before.filter((notice) => notice.id !== id));
  return html`<div class="notices" role="status" aria-live="polite">
    ${notices.map((notice) => html`<div class=${`notice ${notice.bad ? "bad" : ""}`} key=${notice.id}>
      <p>${notice.text}</p>
      <button type="button" class="button plain icon compact" aria-label="Dismiss" onClick=${() => close(notice.id)}><${Icon} name="close" /></button>
    </div>`)}
  </div>`;
}
