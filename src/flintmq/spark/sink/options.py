"""Options of writes to an exchange."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.options import WRITING, Given, endpoint

# A task sends this many messages before the broker has to confirm the first half of them.
BATCH_MESSAGES: Final = 10_000
# The messages of one staged piece: each piece costs a sync of the disk, and stays in memory in case it is sent again.
STAGED_MESSAGES: Final = 50_000

_TRANSACTIONAL_ID: Final = (
    "a name under which the broker remembers what this query or job has published; each query or job needs its own"
)


class DeliveryMode(StrEnum):
    """How often a message of a task that Spark runs again is published.

    AT_LEAST_ONCE: possibly twice. DEDUP: twice, but queues with deduplication keep one. EXACTLY_ONCE: once.
    """

    AT_LEAST_ONCE = "at-least-once"
    DEDUP = "dedup"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write.

    `exchange` and `routing_key` are None if columns set them. `batch_id` is None if Spark numbers the batches.
    `batch_owner` is the owner of these numbers; "" for the query whose id Spark gives to tasks.
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
        """Whether tasks stage messages and the driver commits them."""
        return self.delivery_mode == DeliveryMode.EXACTLY_ONCE


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check options of a write. Raises ConfigurationError for an unknown name, and for a wrong or missing value."""
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
            f"deliveryMode {DeliveryMode.EXACTLY_ONCE} publishes persistent messages, because a crash of the broker "
            "loses others: remove the option persistent"
        )
    if options.batch_owner and options.batch_id is None:
        raise ConfigurationError("the option batchOwner needs batchId, the number of the batch")
    return options
