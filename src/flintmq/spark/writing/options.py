"""What a user may set on writing."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flintmq.spark.endpoint import Endpoint
from flintmq.spark.options import WRITING, Given, endpoint

# Messages that are written before their confirms are waited for.
BATCH_MESSAGES: Final = 5_000


class DeliveryMode(StrEnum):
    """What a message that is written by a task that runs again comes to: two, or one on queues that deduplicate."""

    AT_LEAST_ONCE = "at-least-once"
    DEDUP = "dedup"


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


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises ConfigurationError for a name that writing does not have, and for a wrong or missing value."""
    o = Given(given, WRITING)
    return WriteOptions(
        endpoint=endpoint(o),
        exchange=o.text("exchange"),
        routing_key=o.text("routingKey"),
        persistent=o.truth("persistent", True),
        mandatory=o.truth("mandatory", False),
        content_type=o.text("contentType"),
        batch_size=o.positive("batchSize") or BATCH_MESSAGES,
        delivery_mode=DeliveryMode(o.choice("deliveryMode", DeliveryMode.AT_LEAST_ONCE, [*DeliveryMode])),
    )
