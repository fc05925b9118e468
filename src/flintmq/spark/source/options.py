"""Options of reads, with the offsets at which a read of a stream starts and ends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import default_columns
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.options import BATCH, READING, STREAM, Given, Use, endpoint

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
# The size of one fetch and of one Arrow batch. Larger ones are hardly faster, and the broker has to serve other
# clients.
FETCH_BYTES: Final = 1024 * 1024
# A task reads this many small messages in about a second. With fewer, starting tasks would cost more than reading.
MESSAGES_PER_PARTITION: Final = 250_000


@dataclass(frozen=True)
class AtTime:
    """The first message that the broker received at this Unix time in milliseconds, or later."""

    timestamp_ms: int


# EARLIEST, LATEST, an offset, or a time.
Bound = str | int | AtTime


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read. `starting` and `ending` have the queues for which an option sets a bound."""

    endpoint: Endpoint
    queues: tuple[str, ...]
    starting: Mapping[str, Bound]
    ending: Mapping[str, Bound]
    min_messages_per_trigger: int
    max_trigger_delay_ms: int
    max_messages_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_partitions: int
    max_messages_per_partition: int
    fetch_bytes: int
    fail_on_data_loss: bool
    consumer_name: str
    lease_timeout_ms: int
    settle_unread: bool
    columns: tuple[str, ...]


def read_options(given: Mapping[str, str], uses: frozenset[Use] = READING) -> ReadOptions:
    """Check options for these uses. Raises ConfigurationError for an unknown name, and for a wrong or missing value."""
    o = Given(given, uses)
    queues = o.names("queue")
    if not queues:
        raise ConfigurationError("the option queue is missing: the name of a queue, or of several separated by commas")
    return ReadOptions(
        endpoint=endpoint(o),
        queues=queues,
        starting=_bounds(o, "startingOffsets", queues),
        ending=_bounds(o, "endingOffsets", queues),
        min_messages_per_trigger=o.positive("minMessagesPerTrigger") or 0,
        max_trigger_delay_ms=_delay_ms(o),
        max_messages_per_trigger=o.positive("maxMessagesPerTrigger"),
        max_bytes_per_trigger=o.positive("maxBytesPerTrigger"),
        min_partitions=o.positive("minPartitions") or 1,
        max_messages_per_partition=o.positive("maxMessagesPerPartition") or MESSAGES_PER_PARTITION,
        fetch_bytes=o.positive("fetchBytes") or FETCH_BYTES,
        fail_on_data_loss=o.truth("failOnDataLoss", True),
        consumer_name=o.text("consumerName") or "",
        lease_timeout_ms=o.duration_ms("leaseTimeout"),
        settle_unread=o.truth("settleUnread", False),
        columns=_columns(o),
    )


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check options of spark.read. Raises ConfigurationError for an unknown name, and for a wrong or missing value."""
    return read_options(given, BATCH)


def stream_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check options of spark.readStream. Raises ConfigurationError for an unknown name, and for a wrong or missing
    value.
    """
    return read_options(given, STREAM)


def _delay_ms(o: Given) -> int:
    delay_ms = o.duration_ms("maxTriggerDelay")
    fewest = o.positive("minMessagesPerTrigger") or 0
    if bool(delay_ms) != bool(fewest):
        raise ConfigurationError(
            "the options minMessagesPerTrigger and maxTriggerDelay go together: how many messages a micro-batch waits "
            "for, and how long"
        )
    most = o.positive("maxMessagesPerTrigger") or fewest
    if most < fewest:
        raise ConfigurationError(
            f"the option minMessagesPerTrigger is {fewest}, and maxMessagesPerTrigger is {most}: it must not be less"
        )
    return delay_ms


def _columns(o: Given) -> tuple[str, ...]:
    if o.text("columns") is None:
        return default_columns(o.truth("includeProperties", False), o.truth("includeHeaders", False))
    for name in ("includeProperties", "includeHeaders"):
        o.either("columns", name)
    return o.names("columns")


def _bounds(o: Given, name: str, queues: tuple[str, ...]) -> dict[str, Bound]:
    by_time = f"{name}ByTimestamp"
    o.either(name, by_time)
    wanted = o.text(name)
    if wanted is not None:
        each = _each(name, wanted, queues, f"{EARLIEST}, {LATEST}, an offset, or JSON with these by queue")
        return {queue: _bound(name, value) for queue, value in each.items()}
    wanted = o.text(by_time)
    if wanted is not None:
        each = _each(by_time, wanted, queues, "a time in milliseconds since 1970, or JSON with these by queue")
        return {queue: AtTime(_natural(by_time, value, "a time in ms since 1970")) for queue, value in each.items()}
    return {}


def _each(name: str, text: str, queues: tuple[str, ...], what: str) -> dict[str, str]:
    """The text for all queues, or the values of a JSON object, which must have each queue and no other."""
    text = text.strip()
    if not text.startswith("{"):
        return dict.fromkeys(queues, text)
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"the option {name} is not JSON ({error}): it must be {what}") from None
    for queue in given:
        if queue not in queues:
            raise ConfigurationError(f"the option {name} has the queue {queue}, which the option queue has not")
    for queue in queues:
        if queue not in given:
            raise ConfigurationError(f"the option {name} lacks the queue {queue}: it must have each queue")
    return {queue: str(value) for queue, value in given.items()}


def _bound(name: str, value: str) -> Bound:
    word = value.lower()
    return word if word in (EARLIEST, LATEST) else _natural(name, value, f"{EARLIEST}, {LATEST} or an offset")


def _natural(name: str, value: str, what: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigurationError(f"the option {name} is {value!r}: it must be {what}")
    return int(value)
