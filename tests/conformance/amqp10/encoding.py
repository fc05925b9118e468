"""Frame bodies and messages as bytes and back, for tests."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

from librt.strings import BytesWriter

from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.frames import write_body
from flintmq.wire.amqp10.spec import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    CODES,
    DATA,
    DEFAULT_PRIORITY,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from flintmq.wire.amqp10.types import skip_value
from flintmq.wire.amqp10.values import Described, MapKey, Symbol, TimestampMs, UByte, UInt, ULong, WrappedInt
from flintmq.wire.amqp10.writer import encode_value
from tests.amqp10_wire import decode_value

BARE: Final = (PROPERTIES, APPLICATION_PROPERTIES, DATA, AMQP_SEQUENCE, AMQP_VALUE)


def _as_it_is(value: object) -> object:
    return value


# The fields of the properties section, and how each is given the type it has.
_PROPERTY_TYPES: Final[dict[str, Callable[[Any], object]]] = {
    "message_id": _as_it_is,
    "user_id": bytes,
    "to": str,
    "subject": str,
    "reply_to": str,
    "correlation_id": _as_it_is,
    "content_type": Symbol,
    "content_encoding": Symbol,
    "absolute_expiry_time": TimestampMs,
    "creation_time": TimestampMs,
    "group_id": str,
    "group_sequence": UInt,
    "reply_to_group_id": str,
}


def encode_body(body: Composite) -> bytes:
    writer = BytesWriter()
    write_body(writer, body)
    return writer.getvalue()


def decode_body(content: bytes) -> tuple[Composite, int]:
    """A frame's body, and where its payload begins."""
    body, end = decode_composite(content, 0, len(content))
    return body, int(end)


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ULong(code), value))


def value_section(value: object) -> bytes:
    return section(AMQP_VALUE, value)


def value_body(value: Composite) -> bytes:
    """A message whose value is a composite: what a coordinator is sent."""
    return b"\x00\x53" + bytes([AMQP_VALUE]) + encode_body(value)


def data_section(data: bytes) -> bytes:
    return section(DATA, data)


def header(
    durable: bool | None = None,
    priority: int | None = None,
    ttl: int | None = None,
    first_acquirer: bool | None = None,
    delivery_count: int | None = None,
) -> bytes:
    fields = [
        durable,
        None if priority is None else UByte(priority),
        None if ttl is None else UInt(ttl),
        first_acquirer,
        None if delivery_count is None else UInt(delivery_count),
    ]
    return section(HEADER, fields)


def annotations(pairs: Mapping[str, object]) -> bytes:
    return section(MESSAGE_ANNOTATIONS, {Symbol(name): value for name, value in pairs.items()})


def delivery_annotations(pairs: Mapping[str, object]) -> bytes:
    return section(DELIVERY_ANNOTATIONS, {Symbol(name): value for name, value in pairs.items()})


def properties(**fields: object) -> bytes:
    """The properties section; symbols, times and numbers are given as str and int."""
    values = [fields.pop(name, None) for name in _PROPERTY_TYPES]
    assert not fields, f"no such properties: {fields}"
    kinds = _PROPERTY_TYPES.values()
    told = [None if value is None else kind(value) for kind, value in zip(kinds, values, strict=True)]
    return section(PROPERTIES, told)


def application_properties(pairs: Mapping[str, object]) -> bytes:
    return section(APPLICATION_PROPERTIES, dict(pairs))


def text(
    value: object = "m", durable: bool | None = None, priority: int | None = None, ttl: int | None = None
) -> bytes:
    """A small message: a value, behind a header when there is something to say in it."""
    said = (durable, priority, ttl) != (None, None, None)
    return (header(durable, priority, ttl) if said else b"") + value_section(value)


class Message:
    """What came, section by section."""

    def __init__(self, payload: bytes) -> None:
        self.sections: list[tuple[int, bytes]] = []
        at = 0
        while at < len(payload):
            end = int(skip_value(payload, at, len(payload)))
            whole = decode_value(payload[at:end])
            assert isinstance(whole, Described)
            descriptor = whole.descriptor
            code = CODES[descriptor.name] if isinstance(descriptor, Symbol) else None
            if isinstance(descriptor, ULong):
                code = descriptor.value
            assert code is not None, descriptor
            self.sections.append((code, payload[at:end]))
            at = end

    def has(self, code: int) -> bool:
        return any(found == code for found, _ in self.sections)

    def all(self, code: int) -> list[Any]:
        """The contents of all sections of that kind."""
        return [self._inside(raw) for found, raw in self.sections if found == code]

    def one(self, code: int) -> Any:  # noqa: ANN401 - whatever was sent
        """The content of the one section of that kind; None when there is none."""
        found = self.all(code)
        assert len(found) <= 1
        return found[0] if found else None

    def _inside(self, raw: bytes) -> object:
        whole = decode_value(raw)
        assert isinstance(whole, Described)
        return whole.value

    @cached_property
    def bare(self) -> bytes:
        """The bare message, as its bytes are."""
        return b"".join(raw for code, raw in self.sections if code in BARE)

    def _header_field(self, position: int) -> Any:  # noqa: ANN401 - each field is of another type
        fields = self.one(HEADER) or []
        value = fields[position] if position < len(fields) else None
        return value.value if isinstance(value, WrappedInt) else value

    @property
    def durable(self) -> bool:
        return bool(self._header_field(0))

    @property
    def priority(self) -> int:
        found: int | None = self._header_field(1)
        return DEFAULT_PRIORITY if found is None else found

    @property
    def ttl(self) -> int | None:
        found: int | None = self._header_field(2)
        return found

    @property
    def first_acquirer(self) -> bool:
        return bool(self._header_field(3))

    @property
    def delivery_count(self) -> int:
        return int(self._header_field(4) or 0)

    @property
    def annotations(self) -> dict[str, object]:
        return _named(self.one(MESSAGE_ANNOTATIONS))

    @property
    def own_annotations(self) -> dict[str, object]:
        """Message annotations but for those that the broker adds."""
        return {name: value for name, value in self.annotations.items() if name not in ADDED}

    @property
    def properties(self) -> dict[str, object]:
        fields = self.one(PROPERTIES) or []
        return {name: value for name, value in zip(_PROPERTY_TYPES, fields, strict=False) if value is not None}

    @property
    def application_properties(self) -> dict[object, object]:
        return dict(self.one(APPLICATION_PROPERTIES) or {})

    @property
    def value(self) -> object:
        """The value of an amqp-value body."""
        assert self.has(AMQP_VALUE), self.sections
        return self.one(AMQP_VALUE)

    @property
    def footer(self) -> dict[str, object]:
        return _named(self.one(FOOTER))


# What RabbitMQ's way of delivering adds to a message's annotations.
ADDED: Final = frozenset({"x-exchange", "x-routing-key"})


def _named(found: dict[object, object] | None) -> dict[str, object]:
    names = ((key.value if isinstance(key, MapKey) else key, value) for key, value in (found or {}).items())
    return {key.name if isinstance(key, Symbol) else str(key): value for key, value in names}
