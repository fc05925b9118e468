import { get } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { basic, begin } from "../core/session.js";
import { Field } from "../parts/field.js";
import { Mark } from "../parts/icons.js";

export function Login({ reason }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [complaint, setComplaint] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Log in · FlintMQ";
  }, []);
  const submitted = async (event) => {
    event.preventDefault();
    setBusy(true);
    setComplaint("");
    const authorization = basic(name, password);
    try {
      const who = await get("/api/whoami", { authorization });
      begin({ name: who.name, tags: tagsOf(who.tags), authorization });
    } catch (error) {
      setComplaint(error.notLoggedIn ? "Wrong user name or password." : error.message);
      setBusy(false);
    }
  };
  return html`<main class="login">
    <div class="card">
      <h1 class="brand"><${Mark} />FlintMQ</h1>
      <div class="panel">
        <form class="form" onSubmit=${submitted}>
          <${Field} label="User" id="login-name" value=${name} onValue=${setName} autocomplete="username" required=${true} autofocus=${true} autocapitalize="none" spellcheck="false" />
          <${Field} label="Password" id="login-password" type="password" value=${password} onValue=${setPassword} autocomplete="current-password" />
          <p class="complaint" role="alert">${complaint || reason}</p>
          <button class="button primary" disabled=${busy}>${busy ? "Logging in…" : "Log in"}</button>
        </form>
        <p class="quiet">A new broker has the user <code>guest</code> with the password <code>guest</code>, who can log in from this machine only.</p>
      </div>
    </div>
  </main>`;
}

function tagsOf(tags) {
  return Array.isArray(tags) ? tags : String(tags ?? "").split(",").map((tag) => tag.trim());
}
