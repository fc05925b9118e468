"""Which annotations are taken: of messages, for this hop, of footers and of outcomes (amqp-1.0 part 3 §3.2.10)."""

from typing import Final

from flintmq.base.errors import NotImplementedHere
from flintmq.broker.queue.dedup import NUMBER_HEADER, PRODUCER_HEADER
from flintmq.broker.queue.reader import FILTER_HEADER
from flintmq.gateway.amqp10.codec import CANCEL, DELAY, DELIVER_AT
from flintmq.gateway.conversion import names
from flintmq.wire.amqp10.composite import Annotations
from flintmq.wire.amqp10.states import DeliveryState, Modified, TransactionalState

_OPTIONAL: Final = "x-opt-"
# What the broker acts on or writes itself, and what conversion has a place for.
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
    """Keys are reserved but for those of x-, and no reserved one is understood. Raises NotImplementedHere.

    Of x-, those of x-opt- are harmless. Others that nobody here understands are refused where `is_strict`; RabbitMQ's
    clients put annotations of their own under such keys, and it passes them on.
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
    """The same for the annotations that an outcome is to give a message."""
    outcome = state.outcome if isinstance(state, TransactionalState) else state
    if isinstance(outcome, Modified):
        check_annotations(outcome.message_annotations, is_strict)
