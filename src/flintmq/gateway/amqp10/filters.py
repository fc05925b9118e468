"""Reads the filters that a source asks for, and says which of them are in place.

The descriptor of a filter says its type, not its name in the map (amqp-1.0 part 3 §3.5.8). A message has to pass all
filters. A filter of unknown type, or with a wrong value, is left out of the answer (RabbitMQ). A selector with a syntax
error, or a value that is not of a described type, refuses the attach.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, InvalidField, PreconditionFailed
from flintmq.base.limits import FILTERS_MAX_CHARACTERS
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.arguments import is_stream_offset
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.reader import StreamFilter, stream_filter
from flintmq.broker.selector.filter import Filter
from flintmq.broker.selector.selectors import parsed, parsed_sql
from flintmq.gateway.amqp10.property_filters import APPLICATION_PROPERTIES, PROPERTIES, property_filter
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.values import Array, Described, Symbol, TimestampMs, ULong, WrappedInt

SELECTOR: Final = "apache.org:selector-filter:string"
NO_LOCAL: Final = "apache.org:no-local-filter:list"
SQL: Final = "amqp:sql-filter"
STREAM_OFFSET: Final = "rabbitmq:stream-offset-spec"
STREAM_FILTER: Final = "rabbitmq:stream-filter"
STREAM_MATCH_UNFILTERED: Final = "rabbitmq:stream-match-unfiltered"

_CODES: Final = {
    0x0000468C00000004: SELECTOR,
    0x0000468C00000003: NO_LOCAL,
    0x120: SQL,
    0x173: PROPERTIES,
    0x174: APPLICATION_PROPERTIES,
}


@final
class _All(Filter):
    """Matches messages that pass all of several filters."""

    def __init__(self, filters: list[Filter]) -> None:
        cost: i64 = 0
        for each in filters:
            cost += each.cost
        self.cost: i64 = cost
        self._filters = filters

    def matches(self, message: Message) -> bool:
        return all(each.matches(message) for each in self._filters)


@final
class _OfStream(Filter):
    """The stream filter, applied to the messages of a queue that is not a stream."""

    cost: i64 = 4

    def __init__(self, wanted: StreamFilter) -> None:
        self._wanted = wanted

    def matches(self, message: Message) -> bool:
        WORK.spent += self.cost
        return self._wanted.matches(message)


@final
class SourceFilters:
    """The filters of a source. `in_place` are those to answer the attach with.

    `condition` is what each message must pass; None: all pass. `no_local` leaves out messages of the own connection.
    `arguments` are consumer arguments for a stream. `units` is the number of characters that were parsed.
    """

    def __init__(self) -> None:
        self.in_place: Fields = {}
        self.condition: Filter | None = None
        self.no_local = False
        self.arguments: Table = {}
        self.units: i64 = 0


def read_filters(wanted: Fields, is_stream: bool) -> SourceFilters:
    """Read the filter map of a source; `is_stream`: its node is a stream.

    Raises InvalidField for a selector with a syntax error, for selectors that are too long together, and for a filter
    that is not of a described type.
    """
    found = SourceFilters()
    conditions: list[Filter] = []
    for name, value in wanted.items():
        asked = _described(name, value)
        if asked is not None and _read(found, conditions, _kind(asked.descriptor), asked.value, is_stream):
            found.in_place[name] = asked
    if not is_stream:
        chosen = stream_filter(found.arguments)
        if chosen is not None:
            conditions.append(_OfStream(chosen))
        found.arguments = {}
    if conditions:
        found.condition = conditions[0] if len(conditions) == 1 else _All(conditions)
    return found


def _described(name: str, value: object) -> Described | None:
    """A filter as a described value; None for null, which means no filter (§3.5.8). Raises InvalidField."""
    if value is None or isinstance(value, Described):
        return value
    # Some clients of RabbitMQ leave the descriptor of stream filters out.
    if name.startswith("rabbitmq:stream-"):
        return Described(Symbol(name), value)
    raise InvalidField(f"the filter '{name}' is not of a described type", SCOPE_LINK)


def _kind(descriptor: object) -> str:
    if isinstance(descriptor, Symbol):
        return descriptor.name
    return _CODES.get(descriptor.value, "") if isinstance(descriptor, ULong) else ""


def _read(found: SourceFilters, conditions: list[Filter], kind: str, value: object, is_stream: bool) -> bool:
    """Read one filter of type `kind` into `found` and `conditions`. Returns whether it is in place."""
    if kind == SELECTOR:
        return isinstance(value, str) and _read_selector(found, conditions, value)
    if kind == NO_LOCAL:
        # A stream does not store from which connection a message came.
        found.no_local = found.no_local or not is_stream
        return not is_stream
    if kind == SQL:
        return isinstance(value, str) and _read_sql(found, conditions, value)
    if kind == PROPERTIES or kind == APPLICATION_PROPERTIES:
        made = property_filter(kind, value)
        if made is not None:
            conditions.append(made)
        return made is not None
    return _read_of_stream(found, kind, value, is_stream)


def _count(found: SourceFilters, text: str) -> None:
    """Count the characters of an expression. Raises InvalidField above FILTERS_MAX_CHARACTERS.

    The limit is for all expressions of a source, because they are parsed without a pause.
    """
    found.units += len(text)
    if found.units > FILTERS_MAX_CHARACTERS:
        raise InvalidField(
            f"the selectors and SQL expressions of one source have {FILTERS_MAX_CHARACTERS} characters at most",
            SCOPE_LINK,
        )


def _read_selector(found: SourceFilters, conditions: list[Filter], text: str) -> bool:
    _count(found, text)
    if text.strip():
        try:
            conditions.append(parsed(text))
        except PreconditionFailed as error:
            raise InvalidField(f"the selector cannot be read: {error.text}", SCOPE_LINK) from None
    return True


def _read_sql(found: SourceFilters, conditions: list[Filter], text: str) -> bool:
    _count(found, text)
    try:
        conditions.append(parsed_sql(text))
    except PreconditionFailed:
        return False
    return True


def _read_of_stream(found: SourceFilters, kind: str, value: object, is_stream: bool) -> bool:
    if kind == STREAM_OFFSET:
        offset = _offset(value)
        if not is_stream or offset is None or not is_stream_offset(offset):
            return False
        found.arguments["x-stream-offset"] = offset
        return True
    if kind == STREAM_FILTER:
        items = value.items if isinstance(value, Array) else value if isinstance(value, list) else [value]
        texts: list[object] = [item for item in items if isinstance(item, str)]
        if not texts:
            return False
        found.arguments["x-stream-filter"] = texts
        return True
    if kind == STREAM_MATCH_UNFILTERED and isinstance(value, bool):
        found.arguments["x-stream-match-unfiltered"] = value
        return True
    return False


def _offset(value: object) -> object:
    """The value of the consumer argument x-stream-offset for an offset of AMQP 1.0; None for a wrong type."""
    if isinstance(value, TimestampMs):
        return Timestamp(value.value // 1000) if value.value >= 0 else None
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, WrappedInt):
        return value.value
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None
