// A long list: the broker filters, sorts and pages it.
import { withQuery } from "../core/api.js";
import { html, useEffect, useState } from "../core/html.js";
import { usePoll } from "../core/poll.js";
import { count } from "../core/format.js";
import { Table } from "./table.js";
import { Trouble, Waiting } from "./states.js";

const PAGE_SIZE = 100;
const TYPING_MS = 250;

/** `text` when it has not changed for a moment. */
export function useSettled(text) {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** `columns` as for Table; their `sort` is the field's name in the API. `empty` is shown when there is nothing at all. */
export function Listing({ address, label, columns, keyOf, first, empty, tools, onData, query = {}, seconds = 5 }) {
  const [typed, setTyped] = useState("");
  const [pattern, setPattern] = useState(false);
  const [sort, setSort] = useState(first);
  const [page, setPage] = useState(1);
  const name = useSettled(typed);
  useEffect(() => setPage(1), [address, name, pattern]);
  const asked = withQuery(address, {
    ...query, page, page_size: PAGE_SIZE, name, use_regex: name ? pattern : undefined,
    sort: columns.find((column) => column.key === sort?.key)?.sort, sort_reverse: sort?.reverse ? true : undefined,
  });
  const { data, stale, error, refresh } = usePoll(asked, seconds, onData);
  const shown = data ?? (error ? null : stale);
  const nothing = shown && !name && shown.items.length === 0 && page === 1;
  return html`<section class="panel">
    <div class="tools">
      <input type="search" class="search" aria-label=${`Filter ${label.toLowerCase()}`} placeholder="Filter by name" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
      <label class="check small"><input type="checkbox" checked=${pattern} onChange=${(event) => setPattern(event.target.checked)} />Regular expression</label>
      <span class="grow"></span>
      ${tools?.(refresh)}
    </div>
    ${error && html`<${Trouble} error=${error} />`}
    ${!shown && !error && html`<${Waiting} />`}
    ${nothing && empty}
    ${shown && !nothing && shown.items.length === 0 && html`<div class="empty"><p>No match. Try a shorter part of the name.</p></div>`}
    ${shown && shown.items.length > 0 && html`
      <${Table} label=${label} columns=${columns} rows=${shown.items} keyOf=${keyOf} sort=${sort} onSort=${setSort} />
      <div class="pager">
        <span>${count(shown.filtered_count)} ${shown.filtered_count !== shown.total_count ? `of ${count(shown.total_count)}` : "in total"}</span>
        ${shown.page_count > 1 && html`
          <button type="button" class="button compact" disabled=${page <= 1} onClick=${() => setPage(page - 1)}>Previous</button>
          <span>Page ${page} of ${shown.page_count}</span>
          <button type="button" class="button compact" disabled=${page >= shown.page_count} onClick=${() => setPage(page + 1)}>Next</button>`}
      </div>`}
  </section>`;
}
