"""Options of format("flintmq"): their names, the conversion of their values, and one error for everything else.

Names follow Spark's Kafka source where it has the same option. They are case-insensitive: Spark passes them in lower
case. See source/options.py and sink/options.py for the values.
"""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)", re.ASCII)


class Use(StrEnum):
    BATCH_READ = "spark.read"
    STREAM_READ = "spark.readStream"
    WRITE = "writing"


_EVERYWHERE: Final = frozenset(Use)
READING: Final = frozenset({Use.BATCH_READ, Use.STREAM_READ})
BATCH: Final = frozenset({Use.BATCH_READ})
STREAM: Final = frozenset({Use.STREAM_READ})
WRITING: Final = frozenset({Use.WRITE})

NAMES: Final = {
    "url": _EVERYWHERE,
    "urlEnv": _EVERYWHERE,
    "urlFile": _EVERYWHERE,
    "queue": READING,
    "columns": READING,
    "includeProperties": READING,
    "includeHeaders": READING,
    "startingOffsets": READING,
    "startingOffsetsByTimestamp": READING,
    "endingOffsets": BATCH,
    "endingOffsetsByTimestamp": BATCH,
    "minMessagesPerTrigger": STREAM,
    "maxTriggerDelay": STREAM,
    "maxMessagesPerTrigger": STREAM,
    "maxBytesPerTrigger": STREAM,
    "minPartitions": READING,
    "maxMessagesPerPartition": READING,
    "fetchBytes": READING,
    "failOnDataLoss": READING,
    "consumerName": STREAM,
    "leaseTimeout": STREAM,
    "settleUnread": STREAM,
    "exchange": WRITING,
    "routingKey": WRITING,
    "persistent": WRITING,
    "mandatory": WRITING,
    "contentType": WRITING,
    "batchSize": WRITING,
    "deliveryMode": WRITING,
    "transactionalId": WRITING,
    "batchId": WRITING,
    "batchOwner": WRITING,
}
_CANONICAL: Final = {name.lower(): name for name in NAMES}
# Names of other connectors for these options.
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
    "queues": "queue",
    "maxoffsetspertrigger": "maxMessagesPerTrigger",
    "minoffsetspertrigger": "minMessagesPerTrigger",
    "startingtimestamp": "startingOffsetsByTimestamp",
    "endingtimestamp": "endingOffsetsByTimestamp",
    "kafka.group.id": "consumerName",
    "groupidprefix": "consumerName",
    "subscriptionname": "consumerName",
    "maxrecordsperpartition": "maxMessagesPerPartition",
    "kafka.transactional.id": "transactionalId",
    "txnappid": "transactionalId",
    "txnversion": "batchId",
}
# Spark passes these options of writeStream on to the sink.
SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})


def endpoint(o: "Given") -> Endpoint:
    """The address of the broker. Raises ConfigurationError unless exactly one option gives it."""
    return only_endpoint(o.text("url") or "", o.text("urlEnv") or "", o.text("urlFile") or "")


def only_endpoint(url: str, env: str, file: str, reason: str = "") -> Endpoint:
    """The address of the broker from these options, each "" if it is not set.

    `reason` begins the error. Raises ConfigurationError unless exactly one option is set.
    """
    if sum(map(bool, (url, env, file))) != 1:
        raise ConfigurationError(
            f"{reason}say where the broker is with exactly one of the options url (amqp://user:password@host/vhost), "
            "urlEnv (an environment variable that holds the URL) and urlFile (a file that holds it)"
        )
    return Endpoint(url, env, file)


class Given:
    """The options of a user.

    Names are checked at once, values when they are asked for; both raise ConfigurationError.
    """

    def __init__(self, given: Mapping[str, str], uses: frozenset[Use]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        for name in self._values:
            if name not in SPARK_OPTIONS:
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

    def names(self, name: str) -> tuple[str, ...]:
        """Names that are separated by commas, or in a JSON list, which allows commas in names."""
        value = (self.text(name) or "").strip()
        listed = json.loads(value) if value.startswith("[") and _is_json(value) else value.split(",")
        if not all(isinstance(one, str) for one in listed):
            raise ConfigurationError(f"the option {name} is {value!r}: all elements of the list must be strings")
        found = tuple(one.strip() for one in listed if one.strip())
        for one in found:
            if found.count(one) > 1:
                raise ConfigurationError(f"the option {name} has {one} twice")
        return found

    def duration_ms(self, name: str) -> int:
        """A time in milliseconds; 0 if the option is not set."""
        value = self.text(name)
        if value is None:
            return 0
        match = _DURATION.fullmatch(value.strip().lower())
        if match is None or int(match[1]) == 0:
            raise ConfigurationError(f"the option {name} is {value!r}: it must be a time such as 30s, 10m or 2h")
        return int(match[1]) * _UNITS_MS[match[2]]


def check_progress_tracking(name: str) -> None:
    """Raises ConfigurationError for an option of Spark that breaks exactly once."""
    if name.lower().startswith("asyncprogresstracking"):
        raise ConfigurationError(
            f"the option {name} is not supported: with it, Spark's checkpoint falls behind, and batches are repeated"
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _check_name(name: str, uses: frozenset[Use]) -> None:
    check_progress_tracking(name)
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
