// Line drawings, 24 by 24, in the colour of the text beside them.
import { html } from "../core/html.js";

const LINES = {
  overview: "M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-3H4z",
  queues: "M4 6h16M4 12h16M4 18h10",
  streams: "M3 8c3-3 6 3 9 0s6 3 9 0M3 16c3-3 6 3 9 0s6 3 9 0",
  exchanges: "M4 12h6M10 12l6-6h4M10 12l6 6h4M10 12h10",
  messages: "M4 5h16v14H4zM4 6l8 7 8-7",
  dead: "M12 3 2.5 20h19zM12 10v4M12 17v.5",
  connections: "M9 7V3M15 7V3M6 7h12v4a6 6 0 0 1-12 0zM12 17v4",
  channels: "M4 7h16M4 12h16M4 17h16M8 4v16",
  pipelines: "M3 6h5v5H3zM16 4h5v5h-5zM16 15h5v5h-5zM8 8.5h4M16 6.5h-4v11h4",
  users: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM2 21c0-4 3-6 7-6s7 2 7 6M16 4a4 4 0 0 1 0 7M18 15c3 1 4 3 4 6",
  vhosts: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  policies: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5",
  definitions: "M12 3v11M8 10l4 4 4-4M4 17v4h16v-4",
  node: "M5 4h14v16H5zM9 8h6M9 12h6M12 16h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5",
  moon: "M20 14A8 8 0 1 1 10 4a6.5 6.5 0 0 0 10 10z",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M7 14h10",
  leave: "M10 4H5v16h5M9 12h11M16 8l4 4-4 4",
  plus: "M12 5v14M5 12h14",
  warning: "M12 3 2.5 20h19zM12 10v4M12 17v.5",
};

export function Icon({ name, art = false }) {
  return html`<svg viewBox="0 0 24 24" class=${art ? "art" : ""} fill="none" stroke="currentColor" stroke-width=${art ? 1.3 : 1.7}
    stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d=${LINES[name]} /></svg>`;
}

export function Mark() {
  return html`<svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <path fill="#4a505a" d="M5 19 11 7l11-3 6 9-5 12-12 3z" /><path fill="#6b7380" d="m11 7 11-3-6 10z" />
    <path fill="#30353c" d="m5 19 11-5-5 14z" /><path fill="#ff8a3d" d="m17 9 6 5-4 1 3 7-9-8 4-1z" />
  </svg>`;
}
