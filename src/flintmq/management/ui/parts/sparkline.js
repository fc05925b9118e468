// The shape of a number's last minutes, in the height of a line of text.
import { html } from "../core/html.js";
import { rate } from "../core/format.js";

const WIDTH = 100;
const HEIGHT = 24;
const SHOWN = 40;

export function Sparkline({ values, tone = 1, inline = false }) {
  const shown = values.slice(-SHOWN);
  // What is not known, or was nothing all the time, has no shape.
  if (shown.length < 2 || !shown.some(Boolean)) return html`<svg class=${`spark ${inline ? "inline" : ""}`} aria-hidden="true"></svg>`;
  // A number that stays the same is a line with room above it, not a block.
  const top = Math.max(...shown, 1e-9) * 1.25;
  const step = WIDTH / (shown.length - 1);
  const points = shown.map((value, index) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
  return html`<svg class=${`spark tone-${tone} ${inline ? "inline" : ""}`} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
    <polygon class="area" points=${`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
    <polyline class="line" points=${points.join(" ")} />
  </svg>`;
}

export function RateCell({ value, values, tone, show = rate }) {
  return html`<span class="rate"><${Sparkline} values=${values} tone=${tone} inline=${true} /><span class=${value ? "" : "zero"}>${show(value ?? 0)}</span></span>`;
}
