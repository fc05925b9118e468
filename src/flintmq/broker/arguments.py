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
_BINDING_NOT_YET: Final = ("x-selector",)
_CONSUMER_NOT_YET: Final = ("x-priority", "x-consumer-timeout", "x-stream-filter")

QUEUE_KINDS: Final = ("classic", "stream")

# What a repeated declaration has to agree on.
EXCHANGE_COMPARED: Final = ("alternate-exchange",)
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


def alternate_exchange(name: str, vhost: str, arguments: Table) -> str:
    """The alternate exchange that an exchange's arguments name; empty when they name none."""
    found = arguments.get("alternate-exchange")
    if found is None:
        return ""
    if not isinstance(found, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(found)}' for arg 'alternate-exchange' in exchange '{name}' in vhost '{vhost}'"
        )
    return found


def check_binding_arguments(arguments: Table) -> None:
    _refuse(arguments, _BINDING_NOT_YET, "binding")


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
    """The same for the arguments a declaration is compared by; a value that only one side has is told with its type."""
    for key in keys:
        mine, theirs = current.get(key), received.get(key)
        if mine is None or theirs is None:
            if mine is not theirs:
                raise PreconditionFailed(
                    f"inequivalent arg '{key}' for {what} '{name}' in vhost '{vhost}': "
                    f"received {_typed(theirs)} but current is {_typed(mine)}"
                )
        elif isinstance(mine, bool) != isinstance(theirs, bool):
            check_same(what, name, vhost, key, _plain(theirs), _plain(mine))
        else:
            check_same(what, name, vhost, key, theirs, mine)


def check_same_table(what: str, name: str, vhost: str, received: Table, current: Table) -> None:
    """The same for all arguments of both: the specification knows no argument that would not matter."""
    check_same_arguments(what, name, vhost, tuple(sorted({*received, *current})), received, current)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _typed(value: object) -> str:
    """How RabbitMQ's texts tell an argument that only one side has; the other side's is "none"."""
    return "none" if value is None else f"the value '{_plain(value)}' of type '{type_name(value)}'"


def type_name(value: object) -> str:
    """What RabbitMQ's texts call the type of an argument's value."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -0x8000_0000 <= value <= 0x7FFF_FFFF else "long"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, float):
        return "double"
    if isinstance(value, Decimal):
        return "decimal"
    if isinstance(value, Timestamp):
        return "timestamp"
    return "array" if isinstance(value, list) else "table"
