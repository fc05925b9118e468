// Numbers and times as people read them.
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(value) {
  if (value === null || value === undefined || value === "") return "–";
  return whole.format(value);
}

/** Short enough for a card: 12,345, then 123k, 4.6M. */
export function brief(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 100_000) return whole.format(value);
  if (value < 1_000_000) return `${whole.format(value / 1000)}k`;
  if (value < 1e9) return `${fine.format(value / 1e6)}M`;
  return `${fine.format(value / 1e9)}G`;
}

export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  return value > 0 && value < 10 ? fine.format(value) : brief(value);
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? fine.format(value) : whole.format(value)} ${UNITS[unit]}`;
}

/** A span, from milliseconds. */
export function span(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "–";
  if (milliseconds < 1000) return `${whole.format(milliseconds)} ms`;
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${fine.format(milliseconds / 1000)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

export function moment(milliseconds) {
  if (!Number.isFinite(milliseconds) || milliseconds <= 0) return "–";
  return new Date(milliseconds).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function ago(milliseconds) {
  if (!Number.isFinite(milliseconds) || milliseconds <= 0) return "–";
  return `${span(Math.max(0, Math.round((Date.now() - milliseconds) / 1000) * 1000))} ago`;
}

/** Any value of a table of fields, in a line. */
export function plain(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
