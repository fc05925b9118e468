import { path, put } from "../core/api.js";
import { html, useState } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { go, link } from "../core/router.js";
import { FormDialog } from "../parts/dialog.js";
import { Check, Field } from "../parts/field.js";
import { Icon } from "../parts/icons.js";
import { say } from "../parts/notices.js";
import { Banner, Head, Tags, Trouble, Waiting } from "../parts/states.js";
import { Table, useSorted } from "../parts/table.js";

const TAGS = [
  ["administrator", "Administrator: everything"], ["monitoring", "Monitoring: sees all connections and nodes"],
  ["policymaker", "Policymaker: sets policies"], ["management", "Management: may log in here"],
];

export function tagsOf(user) {
  return (Array.isArray(user.tags) ? user.tags : String(user.tags ?? "").split(",")).filter(Boolean);
}

export function UsersPage() {
  const [making, setMaking] = useState(false);
  const users = usePoll("/api/users", 10);
  const permissions = usePoll("/api/permissions", 10);
  const vhostsOf = (user) => (permissions.data ?? []).filter((one) => one.user === user.name).map((one) => one.vhost);
  const columns = [
    { key: "name", label: "Name", sort: "name", render: (user) => html`<a href=${link("users", user.name)}>${user.name}</a>` },
    { key: "tags", label: "Tags", sort: (user) => tagsOf(user).join(), render: (user) => html`<${Tags} tags=${tagsOf(user).map((tag) => [tag, tag === "administrator" ? "info" : ""])} />` },
    {
      key: "vhosts", label: "Virtual hosts", sort: (user) => vhostsOf(user).length,
      render: (user) => (vhostsOf(user).length ? html`<${Tags} tags=${vhostsOf(user).map((vhost) => [vhost, ""])} />` : html`<${Tags} tags=${[["none", "warn", "This user has no access to any virtual host"]]} />`),
    },
    { key: "password", label: "Password", render: (user) => html`<${Tags} tags=${[hasPassword(user) ? ["set", "good"] : ["none", ""]]} />` },
  ];
  const sorted = useSorted(users.data ?? [], columns, { key: "name", reverse: false });
  const guest = users.data?.some((user) => user.name === "guest");
  return html`
    <${Head} title="Users"><button type="button" class="button primary" onClick=${() => setMaking(true)}><${Icon} name="plus" />New user</button><//>
    <div class="stack">
      ${guest && html`<${Banner} tone="warn" title="The default user guest exists">It can log in from this machine only. Add your own users before other machines connect, then delete guest.<//>`}
      <section class="panel">
        ${users.error && html`<${Trouble} error=${users.error} />`}
        ${!users.data && !users.error && html`<${Waiting} />`}
        ${users.data && html`<${Table} label="Users" columns=${columns} keyOf=${(user) => user.name} ...${sorted} />`}
      </section>
    </div>
    ${making && html`<${UserForm} onClose=${() => setMaking(false)} onDone=${(name) => go(link("users", name))} />`}`;
}

function hasPassword(user) {
  return user.password_hash === undefined || user.password_hash !== "";
}

/** Makes a user, or changes `user`: without a new password, it keeps the one it has. */
export function UserForm({ user, onClose, onDone }) {
  const [name, setName] = useState(user?.name ?? "");
  const [password, setPassword] = useState("");
  const [tags, setTags] = useState(user ? tagsOf(user) : []);
  const act = async () => {
    const body = { tags: tags.join(",") };
    if (password) body.password = password;
    else if (user) Object.assign(body, { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm });
    else body.password_hash = "";
    await put(path`users/${name}`, body);
    say(user ? `${name} is changed.` : `User ${name} created. Set its permissions in a virtual host.`);
    onDone(name);
  };
  const switched = (tag) => (on) => setTags(on ? [...tags, tag] : tags.filter((one) => one !== tag));
  return html`<${FormDialog} title=${user ? `Change ${name}` : "New user"} verb=${user ? "Save" : "Create"} ready=${name !== ""} act=${act} onClose=${onClose}>
    ${!user && html`<${Field} label="Name" value=${name} onValue=${setName} required=${true} autofocus=${true} />`}
    <${Field} label=${user ? "New password" : "Password"} type="password" value=${password} onValue=${setPassword} autocomplete="new-password"
      hint=${user ? "Empty: the password stays." : "Empty: no login with a password, only by certificate or token."} />
    <div class="field" role="group" aria-label="Tags"><span class="label">Tags</span>
      ${TAGS.map(([tag, text]) => html`<${Check} key=${tag} label=${text} value=${tags.includes(tag)} onValue=${switched(tag)} />`)}
    </div>
  <//>`;
}
