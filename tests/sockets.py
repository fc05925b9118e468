"""Connections of clients that may break the rules: they write what they are given, and read frame by frame."""

import itertools
import select
import socket
import ssl
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import FRAME_MAX_BYTES, FRAME_OVERHEAD_BYTES
from flintmq.wire.amqp091.frames import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from tests.waiting import WAIT_SECONDS

_HEAD: Final = struct.Struct(">BHI")
_CONTENT_HEAD: Final = struct.Struct(">HHQ")
# A content without any property.
NO_PROPERTIES: Final = b"\x00\x00"
# delivery-mode 2, and nothing else.
PERSISTENT: Final = b"\x10\x00\x02"

M = TypeVar("M", bound=Method)


@dataclass(frozen=True)
class Frame:
    kind: int
    channel: int
    payload: bytes

    @property
    def method(self) -> Method:
        assert self.kind == FRAME_METHOD, f"a method was due, not {self}"
        return decode_method(self.payload)

    @property
    def body_size(self) -> int:
        assert self.kind == FRAME_HEADER, f"a content header was due, not {self}"
        size: int = _CONTENT_HEAD.unpack_from(self.payload)[2]
        return size


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(payload)) + payload + bytes([FRAME_END])


def method_frame(channel: int, method: Method) -> bytes:
    return frame(FRAME_METHOD, channel, encode_method(method))


def header_frame(channel: int, size: int, properties: bytes = NO_PROPERTIES, class_id: int = 60) -> bytes:
    return frame(FRAME_HEADER, channel, _CONTENT_HEAD.pack(class_id, 0, size) + properties)


def publish_frames(
    channel: int, exchange: str, routing_key: str, body: bytes, properties: bytes = NO_PROPERTIES
) -> bytes:
    """A whole message, for a connection that agreed to the broker's own frame_max."""
    method = method_frame(channel, BasicPublish(exchange=exchange, routing_key=routing_key))
    header = header_frame(channel, len(body), properties)
    room = FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
    bodies = [frame(FRAME_BODY, channel, body[start : start + room]) for start in range(0, len(body), room)]
    return b"".join([method, header, *bodies])


def raise_if_closed(method: Method) -> None:
    if isinstance(method, ChannelClose | ConnectionClose):
        raise ClosedByPeer(method.reply_code, method.reply_text, isinstance(method, ConnectionClose))


_NUMBERS = itertools.count(1)


class Stream(Protocol):
    """The client's end of a connection: a socket, or as much of one as a client needs."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def getsockname(self) -> tuple[str, int]: ...

    def close(self) -> None: ...


def connected(port: int) -> socket.socket:
    """A socket that is connected to a broker on this machine.

    Each has a loopback address of its own: ports are used again, and a log would speak of two by one name.
    """
    number = next(_NUMBERS)
    source = (f"127.1.{number >> 8 & 0xFF}.{number & 0xFF}", 0)
    found = socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS, source_address=source)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


class BrokerSocket:
    """A connection to a broker: to a port of this machine, or by a stream.

    Reading raises EOFError once the broker has hung up.
    """

    def __init__(self, to: int | Stream) -> None:
        self._stream: Stream = connected(to) if isinstance(to, int) else to
        self._received = bytearray()
        host, number = self._stream.getsockname()
        # How the broker's log calls us.
        self.name = f"{host}:{number}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _socket(self) -> socket.socket:
        """What only a socket can do is done with it."""
        assert isinstance(self._stream, socket.socket)
        return self._stream

    def secure(self, context: ssl.SSLContext, name: str) -> None:
        """From here on by TLS; the broker's certificate has to be for that name."""
        self._stream = context.wrap_socket(self._socket, server_hostname=name)

    def close(self) -> None:
        """Hang up, without a word of AMQP."""
        self._stream.close()

    # -- out ----------------------------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        self._stream.sendall(b"".join(parts))

    # -- in -----------------------------------------------------------------------------------------------------

    def read(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> None:
        try:
            data = self._stream.recv(262_144)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError
        self._received += data

    def rest(self) -> bytes:
        """Everything the broker still says before it ends its side."""
        with suppress(EOFError):
            while True:
                self._receive()
        return bytes(self._received)

    def expect_end(self, last: bytes = b"") -> None:
        """The broker says this at last and ends its side. Hang up: it waits for that with a peer it never let in."""
        assert self.rest() == last
        self.close()


class AmqpSocket(BrokerSocket):
    """An AMQP 0-9-1 client, frame by frame."""

    def send_method(self, channel: int, *methods: Method) -> None:
        self.send(*(method_frame(channel, method) for method in methods))

    def call(self, channel: int, method: Method, answer: type[M]) -> M:
        self.send_method(channel, method)
        return self.expect(answer, channel)

    def read_frame(self) -> Frame:
        kind, channel, size = _HEAD.unpack(self.read(_HEAD.size))
        payload = self.read(size)
        end = self.read(1)
        assert end[0] == FRAME_END, f"frame type {kind} ends with {end.hex()}"
        return Frame(kind, channel, payload)

    def frames(self, timeout: float) -> Iterator[Frame]:
        """The frames that are there, or come in one go within the timeout; an incomplete one waits for next time."""
        if select.select([self._socket], [], [], timeout)[0]:
            self._receive()
        data = bytes(self._received)
        position = 0
        try:
            while len(data) - position >= _HEAD.size:
                kind, channel, size = _HEAD.unpack_from(data, position)
                start = position + _HEAD.size
                if len(data) <= start + size:
                    break
                position = start + size + 1
                yield Frame(kind, channel, data[start : start + size])
        finally:
            del self._received[:position]

    def expect(self, kind: type[M], channel: int = 0) -> M:
        """The next method, which has to be this one; heartbeats are passed over. Raises ClosedByPeer for a close."""
        found = self.read_frame()
        while found.kind == FRAME_HEARTBEAT:
            found = self.read_frame()
        method = found.method
        if not isinstance(method, kind):
            raise_if_closed(method)
        assert isinstance(method, kind), f"{kind.__name__} was due, not {method}"
        assert found.channel == channel, f"{method} came on channel {found.channel}"
        return method

    def read_content(self) -> tuple[bytes, bytes]:
        """The properties bytes and the body that follow a method."""
        header = self.read_frame()
        size = header.body_size
        body = b""
        while len(body) < size:
            part = self.read_frame()
            assert part.kind == FRAME_BODY, f"a body frame was due, not {part}"
            body += part.payload
        return header.payload[_CONTENT_HEAD.size :], body

    # -- steps of the protocol ----------------------------------------------------------------------------------

    def begin(self) -> ConnectionStart:
        self.send(PROTOCOL_HEADER)
        return self.expect(ConnectionStart)

    def log_in(self, user: str = "guest", password: str = "guest", **client_properties: object) -> ConnectionTune:
        """From connection.start to connection.tune."""
        self.begin()
        start_ok = ConnectionStartOk(
            client_properties=client_properties, response=f"\0{user}\0{password}".encode(), mechanism="PLAIN"
        )
        return self.call(0, start_ok, ConnectionTune)

    def open(
        self,
        heartbeat: int = 0,
        frame_max: int | None = None,
        channel_max: int | None = None,
        capabilities: Iterable[str] = (),
    ) -> Self:
        """The whole handshake, agreeing to what the broker proposes unless told otherwise."""
        tune = self.log_in(capabilities=dict.fromkeys(capabilities, True))
        self.send_method(
            0,
            ConnectionTuneOk(
                channel_max=tune.channel_max if channel_max is None else channel_max,
                frame_max=tune.frame_max if frame_max is None else frame_max,
                heartbeat=heartbeat,
            ),
        )
        self.call(0, ConnectionOpen(), ConnectionOpenOk)
        return self

    def open_channel(self, number: int = 1) -> None:
        self.call(number, ChannelOpen(), ChannelOpenOk)

    def expect_close(self, code: int) -> ConnectionClose:
        """The broker closes the connection with this code; agree, and see it hang up."""
        close = self.expect(ConnectionClose)
        assert close.reply_code == code, close
        self.send_method(0, ConnectionCloseOk())
        self.expect_end()
        return close
