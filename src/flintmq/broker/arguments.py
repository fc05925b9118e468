"""Arguments of declarations: which are understood, and when two declarations of one name are the same."""

from decimal import Decimal
from typing import Final

from flintmq.base.errors import NotImplementedHere, PreconditionFailed
from flintmq.base.values import Timestamp
from flintmq.broker.message import Table

# Features whose silent absence would lose or keep messages against the declarer's wish: they are refused by name.
# An argument nobody knows is kept, and neither refused nor compared, as in RabbitMQ.
_QUEUE_NOT_YET: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-age",
    "x-overflow",
    "x-single-active-consumer",
    "x-max-priority",
    "x-delivery-limit",
    "x-consumer-timeout",
)
_EXCHANGE_NOT_YET: Final = ("alternate-exchange",)
_CONSUMER_NOT_YET: Final = ("x-priority", "x-consumer-timeout", "x-stream-filter")

QUEUE_KINDS: Final = ("classic", "stream")

# What a repeated declaration has to agree on.
QUEUE_COMPARED: Final = ("x-queue-type", *_QUEUE_NOT_YET)


def queue_kind(arguments: Table) -> str:
    """The x-queue-type a declaration asks for; raises what an unknown or unusable one deserves."""
    kind = arguments.get("x-queue-type", "classic")
    if not isinstance(kind, str):
        raise PreconditionFailed(f"invalid arg 'x-queue-type': {kind!r} is not a name of a queue type")
    if kind == "quorum":
        raise NotImplementedHere("x-queue-type 'quorum' is not implemented yet")
    if kind not in QUEUE_KINDS:
        raise PreconditionFailed(
            f"invalid arg 'x-queue-type': unknown queue type '{kind}'; there are classic and stream"
        )
    return kind


def check_queue_arguments(arguments: Table) -> None:
    _refuse(arguments, _QUEUE_NOT_YET, "queue")


def check_exchange_arguments(arguments: Table) -> None:
    _refuse(arguments, _EXCHANGE_NOT_YET, "exchange")


def check_consumer_arguments(arguments: Table) -> None:
    _refuse(arguments, _CONSUMER_NOT_YET, "consumer")


def _refuse(arguments: Table, names: tuple[str, ...], what: str) -> None:
    for name in names:
        if name in arguments:
            raise NotImplementedHere(f"{what} argument '{name}' is not implemented yet")


def check_same(what: str, name: str, vhost: str, attribute: str, received: object, current: object) -> None:
    """Raises RabbitMQ's 406 when a declaration differs from what is there in one attribute."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{attribute}' for {what} '{name}' in vhost '{vhost}': "
            f"received '{_plain(received)}' but current is '{_plain(current)}'"
        )


def check_same_arguments(
    what: str, name: str, vhost: str, keys: tuple[str, ...], received: Table, current: Table
) -> None:
    """The same for the arguments a declaration is compared by."""
    for key in keys:
        mine, theirs = current.get(key), received.get(key)
        if mine != theirs or isinstance(mine, bool) != isinstance(theirs, bool):
            raise PreconditionFailed(
                f"inequivalent arg '{key}' for {what} '{name}' in vhost '{vhost}': "
                f"received {_typed(theirs)} but current is {_typed(mine)}"
            )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _typed(value: object) -> str:
    """How RabbitMQ's texts name an argument's value; absent ones are "none"."""
    if value is None:
        return "none"
    kind = "table"
    if isinstance(value, bool):
        kind = "bool"
    elif isinstance(value, int):
        kind = "signedint" if -0x8000_0000 <= value <= 0x7FFF_FFFF else "long"
    elif isinstance(value, str):
        kind = "longstr"
    elif isinstance(value, bytes):
        kind = "binary"
    elif isinstance(value, float):
        kind = "double"
    elif isinstance(value, Decimal):
        kind = "decimal"
    elif isinstance(value, Timestamp):
        kind = "timestamp"
    elif isinstance(value, list):
        kind = "array"
    return f"the value '{_plain(value)}' of type '{kind}'"
