// The broker's own resources, which RabbitMQ's API does not have.
import { get, path, post, withQuery } from "./api.js";

/** One page of what lies on a queue, from behind `after` on; nothing is taken. */
export function browse({ vhost, queue, search, after, count }) {
  return get(withQuery(path`queues/${vhost}/${queue}/messages`, { count, search, after }));
}

export function move({ vhost, queue }, destination, positions) {
  return inSteps(path`queues/${vhost}/${queue}/move`, "moved", { destination, positions });
}

/** Publishes dead letters again to where they died, and takes them off the queue. */
export function redrive({ vhost, queue }, positions) {
  return inSteps(path`queues/${vhost}/${queue}/redrive`, "redriven", { positions });
}

/** One request goes only so far, and says where the next one goes on. */
async function inSteps(address, counted, asked) {
  const sum = { [counted]: 0, skipped: 0 };
  for (let after = ""; after !== null;) {
    const answer = await post(address, { ...asked, after });
    sum[counted] += answer[counted];
    sum.skipped += answer.skipped;
    after = answer.next;
  }
  return sum;
}

export function deadLettersAddress(vhost) {
  return vhost ? path`dead-letters/${vhost}` : "/api/dead-letters";
}
