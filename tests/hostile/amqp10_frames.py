"""Frames of AMQP 1.0 as bytes, written and read here by the specification, and a client that sends them.

Values are written by functions named after their types, which return bytes; `decoded` reads them.
"""

import struct
from typing import Any, Final, NamedTuple

from tests.sockets import BrokerSocket

NULL: Final = b"\x40"
TRUE: Final = b"\x41"
FALSE: Final = b"\x42"
UINT_MAX: Final = 2**32 - 1
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
ERROR, ACCEPTED, RELEASED, SOURCE, TARGET = 0x1D, 0x24, 0x26, 0x28, 0x29
DATA, VALUE = 0x75, 0x77
# Roles, as fields have them.
SENDER: Final = FALSE
RECEIVER: Final = TRUE


def uint(value: int) -> bytes:
    return b"\x70" + struct.pack(">I", value)


def ulong(value: int) -> bytes:
    return b"\x80" + struct.pack(">Q", value)


def text(value: str) -> bytes:
    return b"\xa1" + bytes([len(value)]) + value.encode()


def symbol(value: str) -> bytes:
    return b"\xa3" + bytes([len(value)]) + value.encode()


def binary(value: bytes) -> bytes:
    return b"\xb0" + struct.pack(">I", len(value)) + value


def table(*keys_and_values: bytes) -> bytes:
    content = b"".join(keys_and_values)
    return b"\xd1" + struct.pack(">II", len(content) + 4, len(keys_and_values)) + content


def described(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack(">II", len(content) + 4, len(fields)) + content


def section(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + value


def amqp_frame(body: bytes, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body


class Described(NamedTuple):
    descriptor: Any
    value: Any


# Formats of values of fixed width, by their constructors.
_FIXED: Final = {
    0x50: "B", 0x51: "b", 0x52: "B", 0x53: "B", 0x54: "b", 0x55: "b", 0x56: "?", 0x60: "H", 0x61: "h", 0x70: "I",
    0x71: "i", 0x72: "f", 0x80: "Q", 0x81: "q", 0x82: "d", 0x83: "q",
}  # fmt: skip
_EMPTY: Final[dict[int, object]] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}


def decoded(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    code = data[at]
    if code == 0:
        descriptor, at = decoded(data, at + 1)
        value, at = decoded(data, at)
        return Described(descriptor, value), at
    return _decoded(code, data, at + 1)


def _decoded(code: int, data: bytes, at: int) -> tuple[Any, int]:
    """The same for a value whose constructor was read."""
    if code in _EMPTY:
        return _EMPTY[code], at
    if code in _FIXED:
        kind = ">" + _FIXED[code]
        return struct.unpack_from(kind, data, at)[0], at + struct.calcsize(kind)
    if code == 0x98:
        return data[at : at + 16], at + 16
    width = ">B" if code & 0xF0 in (0xA0, 0xC0, 0xE0) else ">I"
    size = struct.unpack_from(width, data, at)[0]
    at += struct.calcsize(width)
    end = at + size
    if code & 0x0F in (0, 1, 3) and code < 0xC0:
        content = data[at:end]
        return content if code & 0x0F == 0 else content.decode(), end
    count = struct.unpack_from(width, data, at)[0]
    at += struct.calcsize(width)
    found: list[Any] = []
    # An array has one constructor for all.
    element = data[at] if code >= 0xE0 else None
    at += element is not None
    for _ in range(count):
        item, at = decoded(data, at) if element is None else _decoded(element, data, at)
        found.append(item)
    assert at == end, f"a value of {size} bytes ends at {at}, not {end}"
    return dict(zip(found[::2], found[1::2], strict=True)) if code in (0xC1, 0xD1) else found, end


class Frame(NamedTuple):
    """`fields` that a performative left out at its end are None."""

    code: int
    fields: list[Any]
    payload: bytes


class Peer(BrokerSocket):
    """A connection with one session, on channel 0."""

    def next(self) -> Frame:
        """The next frame that is no empty one."""
        while True:
            size, offset, _, _ = struct.unpack(">IBBH", self.read(8))
            self.read(offset * 4 - 8)
            body = self.read(size - offset * 4)
            if body:
                (code, fields), end = decoded(body)
                return Frame(code, fields + [None] * (14 - len(fields)), body[end:])

    def expect(self, code: int) -> Frame:
        """The next frame but flows that nobody waits for; it has this performative."""
        while True:
            frame = self.next()
            if frame.code != FLOW or code == FLOW:
                assert frame.code == code, frame
                return frame

    def start(self, container: str = "", vhost: str = "/", user: str = "guest") -> None:
        """The password is the user's name."""
        self.send(b"AMQP\x03\x01\x00\x00")
        assert self.read(8) == b"AMQP\x03\x01\x00\x00"
        self.expect(SASL_MECHANISMS)
        self.send(amqp_frame(described(SASL_INIT, symbol("PLAIN"), binary(f"\0{user}\0{user}".encode())), 1))
        assert self.expect(SASL_OUTCOME).fields[0] == 0
        self.send(b"AMQP\x00\x01\x00\x00")
        assert self.read(8) == b"AMQP\x00\x01\x00\x00"
        self.send(amqp_frame(described(OPEN, text(container or self.name), text(f"vhost:{vhost}"))))
        self.expect(OPEN)
        self.send(amqp_frame(described(BEGIN, NULL, uint(0), uint(1000), uint(1000))))
        self.expect(BEGIN)

    def leave(self) -> None:
        """Close the connection in order, whatever the broker has to say before it does."""
        self.send(amqp_frame(described(CLOSE)))
        while self.next().code != CLOSE:
            pass

    # -- links ------------------------------------------------------------------------------------------------------

    def say(self, code: int, *fields: bytes, payload: bytes = b"") -> None:
        self.send(amqp_frame(described(code, *fields) + payload))

    def receiver(
        self, name: str, source: bytes, handle: int = 0, unsettled: bytes = NULL, properties: bytes = NULL
    ) -> Frame:
        """Attach a link that messages come by; returns the answer."""
        modes = (NULL, NULL)
        target = described(TARGET, text("here"))
        rest = (unsettled, NULL, NULL, NULL, NULL, NULL, properties)
        self.say(ATTACH, text(name), uint(handle), RECEIVER, *modes, source, target, *rest)
        return self.expect(ATTACH)

    def sender(
        self, name: str, target: bytes, handle: int = 0, unsettled: bytes = NULL, properties: bytes = NULL
    ) -> Frame:
        """Attach a link to send by; returns the answer."""
        modes = (NULL, NULL)
        source = described(SOURCE, text("here"))
        rest = (unsettled, NULL, uint(0), NULL, NULL, NULL, properties)
        self.say(ATTACH, text(name), uint(handle), SENDER, *modes, source, target, *rest)
        return self.expect(ATTACH)

    def flow(self, credit: int, handle: int = 0, count: int = 0, drain: bytes = FALSE, echo: bytes = FALSE) -> None:
        """Give so much credit from this delivery-count on."""
        session = (uint(0), uint(1000), uint(0), uint(1000))
        self.say(FLOW, *session, uint(handle), uint(count), uint(credit), NULL, drain, echo)

    def transfer(
        self, number: int, payload: bytes, handle: int = 0, more: bytes = FALSE, resumed_at: bytes = NULL
    ) -> None:
        """Send a delivery, or a part of one; its number is its tag as well. One that is resumed says where."""
        resume = FALSE if resumed_at == NULL else TRUE
        fields = (uint(handle), uint(number), binary(b"%d" % number), uint(0), FALSE, more, NULL, resumed_at, resume)
        self.say(TRANSFER, *fields, payload=payload)

    def settle(self, first: int, last: int, state: bytes) -> None:
        """Settle what came, by delivery-ids."""
        self.say(DISPOSITION, RECEIVER, uint(first), uint(last), TRUE, state)

    def detach(self, closed: bytes, handle: int = 0, error: bytes = NULL) -> Frame:
        self.say(DETACH, uint(handle), closed, error)
        return self.expect(DETACH)
