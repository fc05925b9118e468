"""What a user may set on format("flintmq"): names, values, and one clear error for everything else.

Names follow Spark's Kafka source where it has the thing. Spark makes them case-insensitive: keys come in lower case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
# What one fetch asks for, and so the size of an Arrow batch: more is hardly faster, and the broker serves others too.
FETCH_BYTES: Final = 1024 * 1024
# A task of this many small messages takes about a second; fewer would pay more for tasks than for reading.
MESSAGES_PER_PARTITION: Final = 250_000
# Messages that are written before their confirms are waited for.
BATCH_MESSAGES: Final = 5_000


class DeliveryMode(StrEnum):
    """What a message that is written by a task that runs again comes to: two, or one on queues that deduplicate."""

    AT_LEAST_ONCE = "at-least-once"
    DEDUP = "dedup"


class Use(StrEnum):
    BATCH_READ = "spark.read"
    STREAM_READ = "spark.readStream"
    WRITE = "writing"


_EVERYWHERE: Final = frozenset(Use)
_READING: Final = frozenset({Use.BATCH_READ, Use.STREAM_READ})
_BATCH: Final = frozenset({Use.BATCH_READ})
_STREAM: Final = frozenset({Use.STREAM_READ})
_WRITING: Final = frozenset({Use.WRITE})

NAMES: Final = {
    "url": _EVERYWHERE,
    "urlEnv": _EVERYWHERE,
    "urlFile": _EVERYWHERE,
    "queue": _READING,
    "startingOffsets": _READING,
    "startingTimestamp": _READING,
    "endingOffsets": _BATCH,
    "endingTimestamp": _BATCH,
    "maxMessagesPerTrigger": _STREAM,
    "minPartitions": _READING,
    "maxMessagesPerPartition": _READING,
    "fetchBytes": _READING,
    "failOnDataLoss": _READING,
    "includeProperties": _READING,
    "includeHeaders": _READING,
    "exchange": _WRITING,
    "routingKey": _WRITING,
    "persistent": _WRITING,
    "mandatory": _WRITING,
    "contentType": _WRITING,
    "batchSize": _WRITING,
    "deliveryMode": _WRITING,
}
_CANONICAL: Final = {name.lower(): name for name in NAMES}
# What other connectors call these things.
_ELSEWHERE: Final = {
    "kafka.bootstrap.servers": "url",
    "host": "url",
    "hostname": "url",
    "port": "url",
    "username": "url",
    "password": "url",
    "vhost": "url",
    "path": "queue",
    "stream": "queue",
    "subscribe": "queue",
    "queuename": "queue",
    "topic": "exchange",
    "exchangename": "exchange",
    "maxoffsetspertrigger": "maxMessagesPerTrigger",
    "maxrecordsperpartition": "maxMessagesPerPartition",
}
# Spark hands these on from writeStream to the sink.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})


@dataclass(frozen=True)
class ReadOptions:
    """`starting` and `ending` are EARLIEST, LATEST or an offset; a timestamp (ms) takes the place of its offset."""

    endpoint: Endpoint
    queue: str
    starting: str | int
    starting_timestamp: int | None
    ending: str | int
    ending_timestamp: int | None
    max_messages_per_trigger: int | None
    min_partitions: int
    max_messages_per_partition: int
    fetch_bytes: int
    fail_on_data_loss: bool
    include_properties: bool
    include_headers: bool


@dataclass(frozen=True)
class WriteOptions:
    """None for `exchange` and `routing_key`: each row says."""

    endpoint: Endpoint
    exchange: str | None
    routing_key: str | None
    persistent: bool
    mandatory: bool
    content_type: str | None
    batch_size: int
    delivery_mode: DeliveryMode


def read_options(given: Mapping[str, str], uses: frozenset[Use] = _READING) -> ReadOptions:
    """Raises ConfigurationError for a name that none of `uses` has, and for a wrong or missing value."""
    o = _Given(given, uses)
    o.either("startingOffsets", "startingTimestamp")
    o.either("endingOffsets", "endingTimestamp")
    return ReadOptions(
        endpoint=_endpoint(o),
        queue=o.required("queue", "the name of a stream queue"),
        starting=o.offset("startingOffsets", LATEST if uses == _STREAM else EARLIEST),
        starting_timestamp=o.natural("startingTimestamp", "a time in milliseconds since 1970"),
        ending=o.offset("endingOffsets", LATEST),
        ending_timestamp=o.natural("endingTimestamp", "a time in milliseconds since 1970"),
        max_messages_per_trigger=o.positive("maxMessagesPerTrigger"),
        min_partitions=o.positive("minPartitions") or 1,
        max_messages_per_partition=o.positive("maxMessagesPerPartition") or MESSAGES_PER_PARTITION,
        fetch_bytes=o.positive("fetchBytes") or FETCH_BYTES,
        fail_on_data_loss=o.truth("failOnDataLoss", True),
        include_properties=o.truth("includeProperties", False),
        include_headers=o.truth("includeHeaders", False),
    )


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    return read_options(given, _BATCH)


def stream_read_options(given: Mapping[str, str]) -> ReadOptions:
    return read_options(given, _STREAM)


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ConfigurationError, as `read_options` does."""
    o = _Given(given, _WRITING)
    return WriteOptions(
        endpoint=_endpoint(o),
        exchange=o.text("exchange"),
        routing_key=o.text("routingKey"),
        persistent=o.truth("persistent", True),
        mandatory=o.truth("mandatory", False),
        content_type=o.text("contentType"),
        batch_size=o.positive("batchSize") or BATCH_MESSAGES,
        delivery_mode=DeliveryMode(o.choice("deliveryMode", DeliveryMode.AT_LEAST_ONCE, [*DeliveryMode])),
    )


def _endpoint(o: "_Given") -> Endpoint:
    url, env, file = o.text("url") or "", o.text("urlEnv") or "", o.text("urlFile") or ""
    if sum(map(bool, (url, env, file))) != 1:
        raise ConfigurationError(
            "say where the broker is with exactly one of the options url (amqp://user:password@host/vhost), "
            "urlEnv (an environment variable that holds the URL) and urlFile (a file that holds it)"
        )
    return Endpoint(url, env, file)


class _Given:
    """The options as they came, checked by name; values are converted as they are asked for."""

    def __init__(self, given: Mapping[str, str], uses: frozenset[Use]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        for name in self._values:
            if name not in _SPARKS_OWN:
                _check_name(name, uses)

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if not value:
            raise ConfigurationError(f"the option {name} is missing: {what}")
        return value

    def either(self, one: str, other: str) -> None:
        if self.text(one) is not None and self.text(other) is not None:
            raise ConfigurationError(f"the options {one} and {other} exclude each other")

    def natural(self, name: str, what: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal()):
            raise ConfigurationError(f"the option {name} is {value!r}: it must be {what}")
        return int(value)

    def positive(self, name: str) -> int | None:
        number = self.natural(name, "a number greater than 0")
        if number == 0:
            raise ConfigurationError(f"the option {name} is 0: it must be a number greater than 0")
        return number

    def truth(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigurationError(f"the option {name} is {value!r}: it must be true or false")
        return value.lower() == "true"

    def choice(self, name: str, default: str, choices: list[str]) -> str:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in choices:
            raise ConfigurationError(f"the option {name} is {value!r}: it must be one of {', '.join(choices)}")
        return value.lower()

    def offset(self, name: str, default: str) -> str | int:
        value = (self.text(name) or default).lower()
        if value in (EARLIEST, LATEST):
            return value
        return self.natural(name, f"{EARLIEST}, {LATEST} or an offset, as a number") or 0


def _check_name(name: str, uses: frozenset[Use]) -> None:
    canonical = _CANONICAL.get(name)
    if canonical is not None:
        allowed = NAMES[canonical]
        if allowed.isdisjoint(uses):
            raise ConfigurationError(f"the option {canonical} is for {' and '.join(sorted(allowed))} only")
        return
    known = {key: spelled for key, spelled in _CANONICAL.items() if not NAMES[spelled].isdisjoint(uses)}
    meant = _ELSEWHERE.get(name)
    if meant is None or meant.lower() not in known:
        near = get_close_matches(name, known, n=1)
        meant = known[near[0]] if near else None
    advice = f"did you mean {meant}?" if meant else f"known are {', '.join(known.values())}"
    raise ConfigurationError(f"there is no option {name}: {advice}")
