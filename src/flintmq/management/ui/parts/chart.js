// Lines over time, drawn by uPlot on a canvas; the legend beside it is text, with the last value of each line.
import { SHOWN_SECONDS } from "../core/course.js";
import { html, useEffect, useRef } from "../core/html.js";
import { brief, bytes } from "../core/format.js";
import { colour, useTheme } from "../core/theme.js";

const HEIGHT = 230;
// Steps of an axis of things that there are no halves of.
const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

// Steps that an axis of bytes can be labelled by.
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** `lines`: {name, values} with one value per time of `times` (seconds). */
export function Chart({ label, times, lines, show = brief }) {
  const place = useRef(null);
  const plot = useRef(null);
  const theme = useTheme();
  const names = lines.map((line) => line.name).join("\n");
  const data = [times, ...lines.map((line) => line.values)];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    plot.current = new window.uPlot(options(place.current.clientWidth, lines, show), latest.current, place.current);
    const watcher = new ResizeObserver(() => plot.current?.setSize({ width: place.current.clientWidth, height: HEIGHT }));
    watcher.observe(place.current);
    return () => {
      watcher.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme, names]);
  const begins = times.length > 0 && times[0] > times.at(-1) - SHOWN_SECONDS;
  useEffect(() => plot.current?.setData(data), [times.at(-1), times.length]);
  return html`<figure role="group" aria-label=${label}>
    <div class="chart" ref=${place} aria-hidden="true"></div>
    <ul class="legend">
      ${lines.map((line, index) => html`<li key=${line.name}><span class=${`swatch tone-${index + 1}`}></span>${line.name} <b>${show(line.values.at(-1) ?? 0)}</b></li>`)}
      ${begins && html`<li class="since">Drawn since ${clock(times[0])}</li>`}
    </ul>
  </figure>`;
}

/** Courses in one chart; what began later than the longest of them was nothing before. */
export function Course({ label, courses, show }) {
  const longest = courses.reduce((best, line) => (line.times.length > best.length ? line.times : best), []);
  const lines = courses.map(({ name, values }) => ({ name, values: [...Array(longest.length - values.length).fill(0), ...values] }));
  return html`<${Chart} label=${label} times=${longest} lines=${lines} show=${show} />`;
}

function options(width, lines, show) {
  const ink = colour("ink-3");
  const grid = { stroke: colour("line"), width: 1 };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return {
    width: Math.max(width, 200), height: HEIGHT, padding: [12, 8, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    legend: { show: false },
    scales: { x: { range: (_, __, last) => [last - SHOWN_SECONDS, last] }, y: { range: (_, __, top) => [0, Math.max(top * 1.1, 1)] } },
    axes: [
      { stroke: ink, font, grid: { show: false }, ticks: { ...grid, size: 4 }, space: 90, size: 34, values: (_, ticks) => ticks.map(clock) },
      { stroke: ink, font, grid, ticks: { show: false }, size: 54, incrs: show === brief ? WHOLE_STEPS : show === bytes ? BYTE_STEPS : undefined, values: (_, ticks) => ticks.map(show) },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.name, stroke: colour(`series-${index + 1}`), width: 1.8, points: { show: false }, spanGaps: true,
      })),
    ],
  };
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}
