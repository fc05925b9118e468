// The course of numbers, the oldest first: as the broker remembers it, from the `..._details` of the API; until it has looked twice, as this page saw it.
import { note, seen } from "./history.js";

export const SHOWN_SECONDS = 180;
const STEP_SECONDS = 5;
// The broker looks a little less often, and a speed needs the look before it: with these the first is as old as what is shown.
const AGE_SECONDS = SHOWN_SECONDS + 3 * STEP_SECONDS;

export const COURSE_QUERY = {
  lengths_age: AGE_SECONDS, lengths_incr: STEP_SECONDS, msg_rates_age: AGE_SECONDS, msg_rates_incr: STEP_SECONDS,
};

function samplesOf(details) {
  return [...(details?.samples ?? [])].reverse();
}

/** {times, values} of what there was, times in seconds. */
export function amounts(details) {
  const samples = samplesOf(details);
  return { times: samples.map((one) => one.timestamp / 1000), values: samples.map((one) => one.sample) };
}

/** {times, values} of what passed per second, from how much had passed by then. */
export function speeds(details) {
  const samples = samplesOf(details);
  const pairs = samples.slice(1).map((one, index) => [samples[index], one]);
  return {
    times: pairs.map(([, now]) => now.timestamp / 1000),
    values: pairs.map(([before, now]) => (1000 * Math.max(0, now.sample - before.sample)) / Math.max(1, now.timestamp - before.timestamp)),
  };
}

/** What a chart of amounts shows: lines are pairs of a name and a key of the API. */
export function amountsOf(lines) {
  return { lines, told: amounts, now: (facts, key) => facts?.[key] };
}

/** The same for what passes per second. */
export function speedsOf(lines) {
  return { lines, told: speeds, now: (facts, key) => facts?.[`${key}_details`]?.rate };
}

const keyOf = (where, { told }, key) => `course ${told.name} ${key} ${where}`;

/** Notes what `facts` say now of each line. `where` is whose they are. */
export function noteCourses(where, kind, facts) {
  note(keyOf(where, kind, ""), Date.now() / 1000);
  kind.lines.forEach(([, key]) => note(keyOf(where, kind, key), kind.now(facts, key)));
}

/** Each line's {name, times, values}. */
export function coursesOf(where, kind, facts) {
  return kind.lines.map(([name, key]) => {
    const told = kind.told(facts?.[`${key}_details`]);
    return { name, ...(told.times.length > 1 ? told : { times: [...seen(keyOf(where, kind, ""))], values: [...seen(keyOf(where, kind, key))] }) };
  });
}
