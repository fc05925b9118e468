// Names of arguments that the broker knows, offered while somebody types.
export const QUEUE_ARGUMENTS = [
  "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-dead-letter-exchange",
  "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-delivery-limit", "x-max-priority", "x-single-active-consumer",
  "x-last-value-key", "x-max-age", "x-stream-max-segment-size-bytes", "x-queue-leader-locator",
];

export const EXCHANGE_TYPES = ["direct", "fanout", "topic", "headers"];

export const POLICY_KEYS = [
  "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange", "dead-letter-routing-key",
  "dead-letter-strategy", "delivery-limit", "max-age", "stream-max-segment-size-bytes", "alternate-exchange", "consumer-timeout",
];
