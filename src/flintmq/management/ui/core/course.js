// The course of a number as the broker remembers it, from the API's `..._details`, with the oldest first.
const AGE_SECONDS = 180;
const STEP_SECONDS = 5;

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
