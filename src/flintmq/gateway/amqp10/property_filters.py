"""Filters that compare properties or application-properties with values (OASIS filtex 1.0 §4)."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import PROPERTY_FILTER_MAX_FIELDS
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.fields import SECTION_FIELDS, Field, SectionField
from flintmq.broker.message import Message
from flintmq.broker.selector.filter import Filter
from flintmq.gateway.conversion.plain import plain
from flintmq.wire.amqp10.values import MapKey, Symbol, TimestampMs, UInt, ULong, Uuid

PROPERTIES: Final = "amqp:properties-filter"
APPLICATION_PROPERTIES: Final = "amqp:application-properties-filter"

# Characters that are compared in one unit of work.
_COMPARED_PER_UNIT: Final = 4_096
# Ways to compare a value (§4.1.1).
_ANYTHING: Final = 0
_EQUAL: Final = 1
_PREFIX: Final = 2
_SUFFIX: Final = 3

# Fields of the properties whose values are not, or not only, strings.
_IDS: Final = ("message_id", "correlation_id")
_TIMES: Final = ("absolute_expiry_time", "creation_time")
_SYMBOLS: Final = ("content_type", "content_encoding")


@final
class _Wanted:
    def __init__(self, way: int, value: object) -> None:
        self.way = way
        self.value = value

    def holds(self, found: object) -> bool:
        if self.way == _ANYTHING:
            return True
        wanted = self.value
        if self.way != _EQUAL:
            assert isinstance(wanted, str)
            if not isinstance(found, str):
                return False
            return found.startswith(wanted) if self.way == _PREFIX else found.endswith(wanted)
        if isinstance(wanted, bool) or isinstance(found, bool):
            return wanted is found
        if isinstance(wanted, (int, float)) and isinstance(found, (int, float)):
            return wanted == found
        return type(wanted) is type(found) and wanted == found


def _cost(wanted: list[_Wanted]) -> int:
    """The units of work for comparing a message with all these values; long values cost more."""
    return 4 + len(wanted) + sum([_length(each.value) for each in wanted]) // _COMPARED_PER_UNIT


def _length(value: object) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 0


@final
class _OfProperties(Filter):
    def __init__(self, fields: list[tuple[SectionField, _Wanted]]) -> None:
        self._fields = fields
        self.cost: i64 = _cost([wanted for _, wanted in fields])

    def matches(self, message: Message) -> bool:
        WORK.spent += self.cost
        return all(wanted.holds(field.read(message)) for field, wanted in self._fields)


@final
class _OfApplicationProperties(Filter):
    def __init__(self, fields: list[tuple[Field, _Wanted]]) -> None:
        self._fields = fields
        self.cost: i64 = _cost([wanted for _, wanted in fields])

    def matches(self, message: Message) -> bool:
        WORK.spent += self.cost
        # A missing property equals no value, not even null.
        return all(field.is_there(message) and wanted.holds(field.read(message)) for field, wanted in self._fields)


def property_filter(kind: str, value: object) -> Filter | None:
    """Make the filter of type `kind` with this value; None for a value that is not valid for the type."""
    if not isinstance(value, dict) or not 0 < len(value) <= PROPERTY_FILTER_MAX_FIELDS:
        return None
    if kind == APPLICATION_PROPERTIES:
        return _of_application_properties(value)
    fields: list[tuple[SectionField, _Wanted]] = []
    for key, reference in value.items():
        name = key.name.replace("-", "_") if isinstance(key, Symbol) else ""
        wanted = _wanted_of_field(name, reference) if name in SECTION_FIELDS else None
        if wanted is None:
            return None
        fields.append((SectionField(name), wanted))
    return _OfProperties(fields)


def _of_application_properties(value: dict[object, object]) -> Filter | None:
    fields: list[tuple[Field, _Wanted]] = []
    for key, reference in value.items():
        name = key.value if isinstance(key, MapKey) else key
        if not isinstance(name, str):
            return None
        if isinstance(reference, str):
            wanted = _wanted_text(reference)
        elif isinstance(reference, TimestampMs):
            wanted = _Wanted(_EQUAL, Timestamp(max(reference.value, 0) // 1000))
        else:
            wanted = _Wanted(_ANYTHING if reference is None else _EQUAL, plain(reference))
        if wanted is None:
            return None
        fields.append((Field(name, True), wanted))
    return _OfApplicationProperties(fields)


def _wanted_of_field(name: str, reference: object) -> _Wanted | None:
    if reference is None:
        return _Wanted(_ANYTHING, None)
    if name in _IDS:
        if isinstance(reference, str):
            return _wanted_text(reference)
        if isinstance(reference, ULong):
            return _Wanted(_EQUAL, reference.value)
        if isinstance(reference, Uuid):
            return _Wanted(_EQUAL, reference.raw)
        return _Wanted(_EQUAL, reference) if isinstance(reference, bytes) else None
    if name == "user_id":
        return _Wanted(_EQUAL, reference) if isinstance(reference, bytes) else None
    if name in _TIMES:
        return _Wanted(_EQUAL, reference.value) if isinstance(reference, TimestampMs) else None
    if name == "group_sequence":
        return _Wanted(_EQUAL, reference.value) if isinstance(reference, UInt) else None
    if name in _SYMBOLS:
        return _Wanted(_EQUAL, reference.name) if isinstance(reference, Symbol) else None
    return _wanted_text(reference) if isinstance(reference, str) else None


def _wanted_text(text: str) -> _Wanted | None:
    if not text.startswith("&"):
        return _Wanted(_EQUAL, text)
    if text.startswith("&p:"):
        return _Wanted(_PREFIX, text[3:])
    if text.startswith("&s:"):
        return _Wanted(_SUFFIX, text[3:])
    return _Wanted(_EQUAL, text[1:]) if text.startswith("&&") else None
