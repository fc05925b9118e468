"""What a user may set on writing."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.options import WRITING, Given, endpoint

# Messages on their way before the first half of them has to be confirmed.
BATCH_MESSAGES: Final = 10_000
# What is staged at a time: each piece costs a wait for the disk, and is kept in memory in case it has to go again.
STAGED_MESSAGES: Final = 50_000

_TRANSACTIONAL_ID: Final = (
    "a name by which the broker knows after a failure what this query or job has published; each needs its own"
)


class DeliveryMode(StrEnum):
    """What a message that is written by a task that runs again comes to: two; one on queues that deduplicate; one."""

    AT_LEAST_ONCE = "at-least-once"
    DEDUP = "dedup"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class WriteOptions:
    """None for `exchange` and `routing_key`: each row says. `batch_id`: None where Spark numbers the batches.

    `batch_owner`: who numbers them, "" for the query that Spark tells tasks of.
    """

    endpoint: Endpoint
    exchange: str | None
    routing_key: str | None
    persistent: bool
    mandatory: bool
    content_type: str | None
    batch_size: int
    delivery_mode: DeliveryMode
    transactional_id: str
    batch_id: int | None
    batch_owner: str

    @property
    def is_staged(self) -> bool:
        return self.delivery_mode == DeliveryMode.EXACTLY_ONCE


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ConfigurationError for a name that writing does not have, and for a wrong or missing value."""
    o = Given(given, WRITING)
    mode = DeliveryMode(o.choice("deliveryMode", DeliveryMode.AT_LEAST_ONCE, [*DeliveryMode]))
    is_staged = mode == DeliveryMode.EXACTLY_ONCE
    options = WriteOptions(
        endpoint=endpoint(o),
        exchange=o.text("exchange"),
        routing_key=o.text("routingKey"),
        persistent=o.truth("persistent", True),
        mandatory=o.truth("mandatory", False),
        content_type=o.text("contentType"),
        batch_size=o.positive("batchSize") or (STAGED_MESSAGES if is_staged else BATCH_MESSAGES),
        delivery_mode=mode,
        transactional_id=o.required("transactionalId", _TRANSACTIONAL_ID) if is_staged else "",
        batch_id=o.natural("batchId", "the number of a micro-batch, as foreachBatch has it"),
        batch_owner=o.text("batchOwner") or "",
    )
    if not is_staged:
        for name in ("transactionalId", "batchId", "batchOwner"):
            if o.text(name) is not None:
                raise ConfigurationError(f"the option {name} is for deliveryMode {DeliveryMode.EXACTLY_ONCE} only")
    elif not options.persistent:
        raise ConfigurationError(
            f"deliveryMode {DeliveryMode.EXACTLY_ONCE} publishes persistent messages: without them, a crash of the "
            "broker would take some; leave the option persistent out"
        )
    if options.batch_owner and options.batch_id is None:
        raise ConfigurationError("the option batchOwner goes with batchId: whose number that is")
    return options
