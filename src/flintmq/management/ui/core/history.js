// The last few minutes of numbers that were seen, so that a rate has a shape from the second look on.
const KEPT = 90;
const series = new Map();

/** Remembers `value` under `name`, and returns what is known of it, the oldest first. */
export function note(name, value) {
  let values = series.get(name);
  if (!values) {
    values = [];
    series.set(name, values);
  }
  values.push(Number.isFinite(value) ? value : 0);
  if (values.length > KEPT) values.shift();
  return values;
}

export function seen(name) {
  return series.get(name) ?? [];
}

export function forget() {
  series.clear();
}
