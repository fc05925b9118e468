// Tables that are sorted by their heads, and are cards on a phone. The roles are said, for a browser forgets them where a
// style sheet makes a row something else.
import { html, useState } from "../core/html.js";

/** `columns`: {key, label, render(row), number, sort, optional, head}. `sort` is a field's name, or a function of a row. */
export function Table({ label, columns, rows, keyOf, sort, onSort }) {
  return html`<div class="table"><table role="table" aria-label=${label}>
    <thead role="rowgroup"><tr role="row">
      ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
    </tr></thead>
    <tbody role="rowgroup">
      ${rows.map((row) => html`<tr role="row" key=${keyOf(row)}>
        ${columns.map((column, index) => html`<${Cell} key=${column.key} column=${column} row=${row} first=${index === 0 || column.head} />`)}
      </tr>`)}
    </tbody>
  </table></div>`;
}

function classOf(column) {
  return `${column.number ? "number" : ""} ${column.optional ? "optional" : ""} ${column.style ?? ""}`;
}

function Head({ column, sort, onSort }) {
  const sorted = sort?.key === column.key ? (sort.reverse ? "descending" : "ascending") : undefined;
  return html`<th role="columnheader" scope="col" class=${classOf(column)} aria-sort=${sorted}>
    ${column.sort && onSort
      ? html`<button type="button" onClick=${() => onSort({ key: column.key, reverse: sorted ? !sort.reverse : Boolean(column.number) })}>
          ${column.label}<span class="arrow" aria-hidden="true">${sorted === "descending" ? "↓" : sorted === "ascending" ? "↑" : ""}</span>
        </button>`
      : column.label || html`<span class="hidden-text">${column.about ?? "Actions"}</span>`}
  </th>`;
}

function Cell({ column, row, first }) {
  const content = column.render(row);
  return first && !column.style
    ? html`<th role="rowheader" scope="row" class=${classOf(column)}>${content}</th>`
    : html`<td role="cell" class=${classOf(column)} data-label=${column.label || undefined}>${content}</td>`;
}

/** Rows in the order that a table's head asks for, with the props `Table` needs for it. */
export function useSorted(rows, columns, first) {
  const [sort, setSort] = useState(first);
  const column = columns.find((one) => one.key === sort?.key);
  const by = typeof column?.sort === "function" ? column.sort : (row) => row[column?.sort];
  const sorted = column ? [...rows].sort((left, right) => compare(by(left), by(right)) * (sort.reverse ? -1 : 1)) : rows;
  return { rows: sorted, sort, onSort: setSort };
}

function compare(left, right) {
  if (typeof left === "number" || typeof right === "number") return (left ?? -1) - (right ?? -1);
  return String(left ?? "").localeCompare(String(right ?? ""), undefined, { numeric: true });
}
