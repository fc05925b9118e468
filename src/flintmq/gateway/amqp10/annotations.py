"""Checks of annotations in messages, deliveries, footers and outcomes (amqp-1.0 part 3 §3.2.10)."""

from typing import Final

from flintmq.base.errors import NotImplementedHere
from flintmq.broker.queue.dedup import NUMBER_HEADER, PRODUCER_HEADER
from flintmq.broker.queue.reader import FILTER_HEADER
from flintmq.gateway.amqp10.codec import CANCEL, DELAY, DELIVER_AT
from flintmq.gateway.conversion import names
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.states import DeliveryState, Modified, TransactionalState

_OPTIONAL: Final = "x-opt-"
# Annotations that the broker acts on or writes itself, or that conversion to AMQP 0-9-1 maps to something.
_UNDERSTOOD: Final = frozenset(
    {
        *DELAY,
        *DELIVER_AT,
        CANCEL,
        PRODUCER_HEADER,
        NUMBER_HEADER,
        FILTER_HEADER,
        "x-stream-offset",
        names.TYPE,
        names.DELIVERY_MODE,
        names.PRIORITY,
        names.EXPIRATION,
        names.COPIES,
        names.EXCHANGE,
        names.ROUTING_KEY,
        names.DEATHS_HEADER,
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        names.MESSAGE_ID_HEADER,
        names.CORRELATION_ID_HEADER,
    }
)


def check_annotations(annotations: Annotations, is_strict: bool) -> None:
    """Check the keys of annotations. Raises NotImplementedHere for a key that must not be ignored.

    Keys without the prefix "x-" are reserved by the specification, and the broker understands none of them. Keys that
    begin with "x-opt-" may always be ignored. `is_strict` also refuses unknown keys that begin with "x-"; RabbitMQ
    passes these on, because its clients use such keys for their own annotations.
    """
    for key in annotations:
        if not isinstance(key, str) or not key.startswith("x-"):
            raise NotImplementedHere(f"annotation '{key}' is not understood: keys of one's own begin with {_OPTIONAL}")
        if is_strict and not key.startswith(_OPTIONAL) and key not in _UNDERSTOOD:
            raise NotImplementedHere(
                f"annotation '{key}' is not understood, and the dialect strict refuses such: keys of one's own begin "
                f"with {_OPTIONAL}"
            )


def check_state(state: DeliveryState | None, is_strict: bool) -> None:
    """Check the annotations that a `modified` outcome adds to its message; `is_strict` as in `check_annotations`.

    Raises NotImplementedHere for a key that must not be ignored.
    """
    outcome = state.outcome if isinstance(state, TransactionalState) else state
    if isinstance(outcome, Modified):
        check_annotations(outcome.message_annotations, is_strict)
