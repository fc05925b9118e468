"""Arguments of declarations: which ones are understood, and when two declarations of one name are equivalent."""

from decimal import Decimal
from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import DEDUP_MAX_ENTRIES, EXPIRY_MAX_MS, SHORTSTR_MAX_BYTES
from flintmq.base.values import INTEGER_TYPES, Timestamp, integer_type
from flintmq.broker.fields import Field
from flintmq.broker.message import Table

# The queue argument for the lifetime policy, and the policies' names (amqp-1.0 §3.5.10 to §3.5.13).
LIFETIME: Final = "x-lifetime-policy"
ON_CLOSE: Final = "delete-on-close"
ON_NO_LINKS: Final = "delete-on-no-links"
ON_NO_MESSAGES: Final = "delete-on-no-messages"
ON_NO_LINKS_OR_MESSAGES: Final = "delete-on-no-links-or-messages"
LIFETIME_POLICIES: Final = (ON_CLOSE, ON_NO_LINKS, ON_NO_MESSAGES, ON_NO_LINKS_OR_MESSAGES)

QUEUE_KINDS: Final = ("classic", "quorum", "stream")
_CLASSIC: Final = ("classic",)
_NOT_STREAM: Final = ("classic", "quorum")
_STREAM: Final = ("stream",)

EXCHANGE_COMPARED: Final = ("alternate-exchange",)
# The consumer argument that names a stream's reader. The broker stores the reader's offset under this name.
READER: Final = "x-stream-reader"
# RabbitMQ's limit: positions in larger segments would not fit its indexes.
SEGMENT_MAX_BYTES: Final = 3_000_000_000
# RabbitMQ's bounds for the filter of a chunk. Filters here are exact and need no space.
FILTER_MIN_BYTES: Final = 16
FILTER_MAX_BYTES: Final = 255
# RabbitMQ's limit: x-max-priority is one octet.
_PRIORITIES_MAX: Final = 255
# A higher multiplier would reach the longest possible pause with the second retry, whatever the first pause was.
_MULTIPLIER_MAX: Final = 1_000_000
OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
RETRY_TYPES: Final = ("disabled", "all", "failed", "returned")
STRATEGIES: Final = ("at-most-once", "at-least-once")
# RabbitMQ's settings for the node of a queue, and for where its messages are kept. They have no effect here.
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders", "min-masters")
_QUEUE_MODES: Final = ("default", "lazy")
_AGE_UNITS: Final = {
    "Y": 365 * 86_400_000,
    "M": 30 * 86_400_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}
# 30,000 years. A longer age makes no difference.
_AGE_MAX_MS: Final = 10**15
_AGE_MAX_DIGITS: Final = 15


class _Argument:
    """A queue argument whose value can be anything. Queues of other `kinds` refuse it.

    `compared`: a repeated declaration has to agree on it.
    """

    def __init__(self, kinds: tuple[str, ...] = QUEUE_KINDS, *, compared: bool = True) -> None:
        self.kinds = kinds
        self.compared = compared

    def fault(self, value: object, arguments: Table) -> str:
        """Return the error of a value, one of a declaration's `arguments`, in RabbitMQ's words; "" if it is valid."""
        return ""


class _Number(_Argument):
    def __init__(
        self,
        kinds: tuple[str, ...] = QUEUE_KINDS,
        *,
        least: int = 0,
        most: int | None = None,
        above: str = "max_value_exceeded",
        compared: bool = True,
    ) -> None:
        super().__init__(kinds, compared=compared)
        self._least = least
        self._most = most
        self._above = above

    def fault(self, value: object, arguments: Table) -> str:
        if isinstance(value, bool) or not isinstance(value, int):
            return _integer_fault(value)
        if value < self._least:
            return "{value_zero,0}" if value == 0 else f"{{value_negative,{value}}}"
        if self._most is not None and value > self._most:
            return f"{{{self._above},{value}}}"
        return ""


@final
class _Time(_Number):
    """A time in milliseconds."""

    def __init__(self, kinds: tuple[str, ...] = QUEUE_KINDS, *, least: int = 0) -> None:
        super().__init__(kinds, least=least, most=EXPIRY_MAX_MS, above="value_too_large")


@final
class _Flag(_Argument):
    def fault(self, value: object, arguments: Table) -> str:
        return "" if isinstance(value, bool) else _type_fault(value)


@final
class _Word(_Argument):
    """One of several texts. `otherwise` is the error of any other text."""

    def __init__(
        self, kinds: tuple[str, ...], words: tuple[str, ...], otherwise: str, *, compared: bool = True
    ) -> None:
        super().__init__(kinds, compared=compared)
        self._words = words
        self._otherwise = otherwise

    def fault(self, value: object, arguments: Table) -> str:
        if not isinstance(value, str):
            return _type_fault(value)
        return "" if value in self._words else self._otherwise


@final
class _DeadLetterKey(_Argument):
    def fault(self, value: object, arguments: Table) -> str:
        if not isinstance(value, str):
            return _type_fault(value)
        if "x-dead-letter-exchange" not in arguments:
            return "routing_key_but_no_dlx_defined"
        return "" if is_routing_key(value) else f"expected a routing key of at most {SHORTSTR_MAX_BYTES} bytes"


@final
class _FieldName(_Argument):
    """The name of a message's header or property."""

    def fault(self, value: object, arguments: Table) -> str:
        if not isinstance(value, str):
            return _type_fault(value)
        if value == "":
            return "expected the name of a header, or properties. and the name of a property"
        try:
            Field(value)
        except PreconditionFailed as error:
            return error.text
        return ""


@final
class _Age(_Argument):
    def fault(self, value: object, arguments: Table) -> str:
        if not isinstance(value, str):
            return _type_fault(value)
        return "" if is_age(value) else "invalid_max_age"


# All queue arguments. An argument that is not here is kept, and neither refused nor compared. `QueueSettings` has the
# typed values of those that have an effect.
_QUEUE_ARGUMENTS: Final[dict[str, _Argument]] = {
    # `queue_kind` checks it.
    "x-queue-type": _Argument(),
    "x-expires": _Time(_NOT_STREAM, least=1),
    "x-message-ttl": _Time(_NOT_STREAM),
    # `check_queue_arguments` checks it.
    "x-dead-letter-exchange": _Argument(_NOT_STREAM),
    "x-dead-letter-routing-key": _DeadLetterKey(_NOT_STREAM),
    "x-dead-letter-strategy": _Word(_NOT_STREAM, STRATEGIES, "invalid_dlx_strategy"),
    "x-max-length": _Number(_NOT_STREAM),
    "x-max-length-bytes": _Number(),
    "x-max-age": _Age(_STREAM),
    "x-stream-max-segment-size-bytes": _Number(_STREAM),
    "x-max-priority": _Number(_CLASSIC, most=_PRIORITIES_MAX),
    "x-overflow": _Word(_NOT_STREAM, OVERFLOWS, "invalid_overflow"),
    "x-single-active-consumer": _Flag(),
    "x-delivery-limit": _Number(_NOT_STREAM, least=-1),
    "x-consumer-timeout": _Time(),
    # Not in RabbitMQ, or not on its classic queues.
    "x-group-header": _FieldName(_NOT_STREAM),
    "x-last-value-key": _FieldName(_NOT_STREAM),
    "x-delayed-retry-type": _Word(_NOT_STREAM, RETRY_TYPES, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _Time(_NOT_STREAM),
    "x-delayed-retry-max": _Time(_NOT_STREAM),
    "x-delayed-retry-multiplier": _Number(_NOT_STREAM, least=1, most=_MULTIPLIER_MAX),
    "x-dedup-window": _Time(_NOT_STREAM, least=1),
    "x-dedup-size": _Number(_NOT_STREAM, least=1, most=DEDUP_MAX_ENTRIES),
    # Not compared because an administrator pauses a queue without changing its declarations.
    "x-paused": _Flag(_NOT_STREAM, compared=False),
    LIFETIME: _Word(_NOT_STREAM, LIFETIME_POLICIES, f"expected one of {', '.join(LIFETIME_POLICIES)}", compared=False),
    # `check_queue_arguments` checks its bounds. RabbitMQ compares neither it nor the following, which are about how
    # RabbitMQ stores a queue and have no effect here.
    "x-stream-filter-size-bytes": _Number(compared=False),
    "x-queue-leader-locator": _Word(QUEUE_KINDS, _LOCATORS, "invalid_queue_locator_arg", compared=False),
    "x-queue-mode": _Word(_CLASSIC, _QUEUE_MODES, "invalid_queue_mode", compared=False),
    "x-queue-version": _Argument(_CLASSIC, compared=False),
    "x-queue-master-locator": _Argument(_CLASSIC, compared=False),
}
# Arguments that a repeated declaration has to agree on.
QUEUE_COMPARED: Final = tuple([name for name, argument in _QUEUE_ARGUMENTS.items() if argument.compared])


def queue_kind(arguments: Table, name: str, vhost: str) -> str:
    """Return the queue type that x-queue-type asks for. Raises PreconditionFailed for an unknown type."""
    kind = arguments.get("x-queue-type", "classic")
    if isinstance(kind, str) and kind in QUEUE_KINDS:
        return kind
    why = f"\"unsupported queue type '{kind}'\"" if isinstance(kind, str) else _type_fault(kind)
    raise PreconditionFailed(f"invalid arg 'x-queue-type' for queue '{name}' in vhost '{vhost}': {why}")


def check_queue_arguments(arguments: Table, kind: str, name: str, vhost: str) -> None:
    """Raises PreconditionFailed, in RabbitMQ's words, for an argument with an invalid value."""
    for argument, value in arguments.items():
        known = _QUEUE_ARGUMENTS.get(argument)
        if known is None:
            continue
        if kind not in known.kinds:
            raise PreconditionFailed(
                f"invalid arg '{argument}' for queue '{name}' in vhost '{vhost}' of queue type {kind}"
            )
        if argument == "x-dead-letter-exchange" and not isinstance(value, str):
            raise PreconditionFailed(
                f"invalid type '{type_name(value)}' for arg '{argument}' in queue '{name}' in vhost '{vhost}'"
            )
        why = known.fault(value, arguments)
        if why:
            raise PreconditionFailed(f"invalid arg '{argument}' for queue '{name}' in vhost '{vhost}': {why}")
    if kind == "stream":
        _check_stream_sizes(arguments)


def _check_stream_sizes(arguments: Table) -> None:
    """Raises PreconditionFailed for invalid sizes of a stream, for which RabbitMQ has its own words."""
    segment = arguments.get("x-stream-max-segment-size-bytes", 0)
    if isinstance(segment, int) and segment > SEGMENT_MAX_BYTES:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")
    size = arguments.get("x-stream-filter-size-bytes", FILTER_MIN_BYTES)
    if isinstance(size, int) and not FILTER_MIN_BYTES <= size <= FILTER_MAX_BYTES:
        raise PreconditionFailed("Invalid value for  x-stream-filter-size-bytes")


def check_replicated(
    kind: str, name: str, vhost: str, durable: bool, exclusive: bool, auto_delete: bool, generated: bool
) -> None:
    """Raises PreconditionFailed, in RabbitMQ's words, for a property that a quorum queue or a stream cannot have."""
    if generated:
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {kind}")
    if auto_delete:
        raise PreconditionFailed(f"invalid property 'auto-delete' for queue '{name}' in vhost '{vhost}'")
    if exclusive:
        raise PreconditionFailed(f"invalid property 'exclusive-owner' for queue '{name}' in vhost '{vhost}'")
    if not durable:
        raise PreconditionFailed(f"invalid property 'non-durable' for queue '{name}' in vhost '{vhost}'")


def alternate_exchange(name: str, vhost: str, arguments: Table) -> str:
    """Return the alternate exchange that an exchange's arguments name, or ""."""
    found = arguments.get("alternate-exchange")
    if found is None:
        return ""
    if not isinstance(found, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(found)}' for arg 'alternate-exchange' in exchange '{name}' in vhost '{vhost}'"
        )
    return found


def is_age(value: str) -> bool:
    """Whether this is a number from 1 on, followed by a unit, as in x-max-age."""
    return age_ms(value) > 0


def age_ms(value: str) -> int:
    """Return an age in ms, or 0 if the text is not an age."""
    number = value[:-1]
    if not number.isascii() or not number.isdigit() or value[-1:] not in _AGE_UNITS:
        return 0
    number = number.lstrip("0")
    if len(number) > _AGE_MAX_DIGITS:
        return _AGE_MAX_MS
    return min(int(number or "0") * _AGE_UNITS[value[-1:]], _AGE_MAX_MS)


def is_routing_key(text: str) -> bool:
    """Whether a delivery can carry this routing key."""
    return len(text.encode(errors="surrogatepass")) <= SHORTSTR_MAX_BYTES


def _integer_fault(value: object) -> str:
    return f'"expected integer, got {type_name(value)}"'


def _type_fault(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def check_consumer_arguments(arguments: Table, queue: str, vhost: str) -> None:
    """Raises PreconditionFailed for an argument of basic.consume with an invalid value."""
    where = f"queue '{queue}' in vhost '{vhost}'"
    for name in ("x-priority", "x-consumer-timeout"):
        value = arguments.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise PreconditionFailed(f"invalid arg '{name}' for {where}: {_integer_fault(value)}")
        if not -(2**31) <= value <= EXPIRY_MAX_MS or (value < 0 and name != "x-priority"):
            raise PreconditionFailed(f"invalid arg '{name}' for {where}: {{value_out_of_range,{value}}}")
    for name in ("x-browse", "x-stream-match-unfiltered"):
        flag = arguments.get(name, False)
        if not isinstance(flag, bool):
            raise PreconditionFailed(f"invalid arg '{name}' for {where}: {_type_fault(flag)}")
    offset = arguments.get("x-stream-offset", "next")
    if not is_stream_offset(offset):
        shown = f'<<"{offset}">>' if isinstance(offset, str) else _plain(offset)
        why = f"{{invalid_stream_offset_arg,{{{type_name(offset)},{shown}}}}}"
        raise PreconditionFailed(f"invalid arg 'x-stream-offset' for {where}: {why}")
    reader = arguments.get(READER)
    if reader is not None and not (isinstance(reader, str) and is_reader(reader)):
        why = (
            f"expected a name of at most {SHORTSTR_MAX_BYTES} bytes" if isinstance(reader, str) else _type_fault(reader)
        )
        raise PreconditionFailed(f"invalid arg '{READER}' for {where}: {why}")
    wanted = arguments.get("x-stream-filter", "")
    for value in wanted if isinstance(wanted, list) else [wanted]:
        if not isinstance(value, str):
            raise PreconditionFailed(f"invalid arg 'x-stream-filter' for {where}: {_type_fault(value)}")


def is_reader(name: str) -> bool:
    """Whether a stream reader's offset can be stored under this name."""
    try:
        return 0 < len(name.encode()) <= SHORTSTR_MAX_BYTES
    except UnicodeEncodeError:
        return False


def is_stream_offset(wanted: object) -> bool:
    """Whether a stream's consumer can begin there: at a named offset, a number, a time, or an age."""
    if isinstance(wanted, str):
        return wanted in ("first", "last", "next") or is_age(wanted)
    return isinstance(wanted, (int, Timestamp)) and not isinstance(wanted, bool)


def check_same(what: str, name: str, vhost: str, attribute: str, received: object, current: object) -> None:
    """Raises RabbitMQ's 406 if a declaration differs from the existing object in one attribute."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{attribute}' for {what} '{name}' in vhost '{vhost}': "
            f"received '{_plain(received)}' but current is '{_plain(current)}'"
        )


def check_same_arguments(
    what: str, name: str, vhost: str, keys: tuple[str, ...], received: Table, current: Table
) -> None:
    """Raises RabbitMQ's 406 if a declaration differs in one of the arguments `keys`.

    The error names the type of a value that only one side has.
    """
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
    """Raises RabbitMQ's 406 if a declaration differs in any argument: the specification lets none be ignored."""
    check_same_arguments(what, name, vhost, tuple(sorted({*received, *current} - {"x-paused"})), received, current)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _typed(value: object) -> str:
    """Return how RabbitMQ's error texts describe an argument that only one side has. The other side's is "none"."""
    return "none" if value is None else f"the value '{_plain(value)}' of type '{type_name(value)}'"


def type_name(value: object) -> str:
    """Return the name of a value's type in RabbitMQ's error texts."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    kind = integer_type(value)
    if kind:
        return INTEGER_TYPES[kind].name_091
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
