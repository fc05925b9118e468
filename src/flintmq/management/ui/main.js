// The page: who is logged in sees the shell with one page in it, others the login.
import { html, render, useEffect, useState } from "./core/html.js";
import { forget } from "./core/history.js";
import { forgetKnown } from "./core/known.js";
import { current, watch } from "./core/session.js";
import { Notices } from "./parts/notices.js";
import { Login } from "./pages/login.js";
import { Shell } from "./shell.js";

function App() {
  const [, setTurn] = useState(0);
  const [reason, setReason] = useState("");
  useEffect(() => watch((why = "") => {
    forget();
    forgetKnown();
    setReason(why);
    setTurn((turn) => turn + 1);
  }), []);
  return html`${current() ? html`<${Shell} />` : html`<${Login} reason=${reason} />`}<${Notices} />`;
}

render(html`<${App} />`, document.getElementById("app"));
