"""The settings of a queue: typed values of its arguments (by x- names) combined with policies, decoded once."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.arguments import age_ms
from flintmq.broker.fields import Field
from flintmq.broker.message import FOREVER, MessageOptions, Table

DROP_HEAD: Final = "drop-head"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"

# RabbitMQ 4's default for quorum queues.
_QUORUM_DELIVERY_LIMIT: Final = 20
# The minimum segment size of a stream: smaller ones would make a file for every few messages.
_SEGMENT_MIN_BYTES: Final = 4_096


@final
class QueueSettings:
    """Typed values of the arguments that work on a queue. For every number, -1 means that it is not set.

    The table must have passed `check_queue_arguments`, or come from a policy that was checked as strictly.
    """

    def __init__(self, table: Table, kind: str) -> None:
        self.ttl_ms: i64 = _number(table, "x-message-ttl")
        self.expires_ms: i64 = _number(table, "x-expires")
        self.max_length: i64 = _number(table, "x-max-length")
        self.max_bytes: i64 = _number(table, "x-max-length-bytes")
        self.overflow = _text(table, "x-overflow") or DROP_HEAD
        self.dead_letter_exchange: str | None = _text(table, "x-dead-letter-exchange")
        self.dead_letter_key: str | None = _text(table, "x-dead-letter-routing-key")
        self.dead_letters_at_least_once = _text(table, "x-dead-letter-strategy") == "at-least-once"
        limit = _number(table, "x-delivery-limit")
        if limit < 0 and kind == "quorum" and "x-delivery-limit" not in table:
            limit = _QUORUM_DELIVERY_LIMIT
        self.delivery_limit: i64 = limit
        self.consumer_timeout_ms: i64 = _number(table, "x-consumer-timeout")
        self.group_field = _field(table, "x-group-header")
        self.last_value_field = _field(table, "x-last-value-key")
        self.dedup_window_ms: i64 = _number(table, "x-dedup-window")
        self.dedup_size: i64 = _number(table, "x-dedup-size")
        self.deduplicates = self.dedup_window_ms > 0 or self.dedup_size > 0
        # Whether a queue has to be asked before it takes a message.
        self.is_guarding = self.max_length >= 0 or self.max_bytes >= 0 or self.deduplicates
        retry = _text(table, "x-delayed-retry-type")
        self.pauses_failed = retry == "all" or retry == "failed"
        self.pauses_returned = retry == "all" or retry == "returned"
        self.retry_min_ms: i64 = _number(table, "x-delayed-retry-min")
        self.retry_max_ms: i64 = _number(table, "x-delayed-retry-max")
        self.retry_multiplier: i64 = _number(table, "x-delayed-retry-multiplier")
        self.paused = table.get("x-paused") is True
        self.single_active = table.get("x-single-active-consumer") is True
        # Settings of streams.
        self.max_age_ms: i64 = _age(table, "x-max-age")
        segment = _number(table, "x-stream-max-segment-size-bytes")
        self.segment_bytes: i64 = 0 if segment < 0 else max(segment, _SEGMENT_MIN_BYTES)

    def is_exceeded_by(self, count: i64, body_bytes: i64) -> bool:
        """Whether `count` ready messages, with `body_bytes` bytes in their bodies, exceed the length limits."""
        return 0 <= self.max_length < count or 0 <= self.max_bytes < body_bytes

    def ttl_of(self, options: MessageOptions) -> i64:
        """The time to live of a message once it is ready, in milliseconds, or FOREVER."""
        if options.ttl_ms != FOREVER and (self.ttl_ms == FOREVER or options.ttl_ms < self.ttl_ms):
            return options.ttl_ms
        return self.ttl_ms


def _number(table: Table, name: str) -> i64:
    value = table.get(name)
    return i64(value) if isinstance(value, int) and not isinstance(value, bool) else -1


def _age(table: Table, name: str) -> i64:
    value = table.get(name)
    return i64(age_ms(value)) if isinstance(value, str) else -1


def _text(table: Table, name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _field(table: Table, name: str) -> Field | None:
    value = _text(table, name)
    return None if value is None else Field(value)
