"""A client of AMQP 1.0 that does as a test says, frame by frame, and sorts what comes by session and link."""

import itertools
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, Self, TypeVar

from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.performatives import (
    Begin,
    Close,
    End,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from flintmq.wire.amqp10.states import Error
from tests.conformance.amqp10.encoding import decode_body, encode_body
from tests.conformance.amqp10.session import Session
from tests.sockets import BrokerSocket, Stream
from tests.waiting import WAIT_SECONDS

C = TypeVar("C", bound=Composite)
_HEAD: Final = struct.Struct(">IBBH")
_NUMBERS = itertools.count(1)
AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1


def fresh(what: str) -> str:
    """A name nobody else has."""
    return f"{what}-{next(_NUMBERS)}"


def frame(channel: int, body: Composite | None, payload: bytes = b"", kind: int = AMQP_FRAME) -> bytes:
    content = (b"" if body is None else encode_body(body)) + payload
    return _HEAD.pack(_HEAD.size + len(content), 2, kind, channel) + content


class Peer(BrokerSocket):
    """`answers` has what belongs to no session, `empty_frames` the channels of those, `closed` the server's close."""

    def __init__(self, to: int | Stream, container: str = "") -> None:
        super().__init__(to)
        self.container = container or fresh("container")
        self.answers: deque[Composite] = deque()
        self.opened = Open()
        self.sessions: list[Session] = []
        self.largest_frame = 0
        self.empty_frames: list[int] = []
        # All that the server used.
        self.channels: set[int] = set()
        self.closed: Close | None = None
        # By the channel that the server uses.
        self._by_channel: dict[int, Session] = {}

    # -- steps of the protocol ----------------------------------------------------------------------------------

    def start(self, vhost: str | None = None, user: str = "guest", password: str = "guest", **fields: object) -> Self:
        """Log in and open."""
        self.log_in(user, password)
        if vhost is not None:
            fields["hostname"] = f"vhost:{vhost}"
        self.open(**fields)
        return self

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        """SASL PLAIN, and the header that follows it."""
        assert self.mechanisms(), "the server offers nothing"
        outcome = self.sasl(SaslInit("PLAIN", f"\0{user}\0{password}".encode()), SaslOutcome)
        assert outcome.code == 0, outcome
        self.exchange_headers()

    def mechanisms(self) -> list[str]:
        self.exchange_headers(SASL_HEADER)
        return self._expect_sasl(SaslMechanisms).sasl_server_mechanisms

    def sasl(self, body: Composite, answer: type[C]) -> C:
        self.send(frame(0, body, kind=SASL_FRAME))
        return self._expect_sasl(answer)

    def _expect_sasl(self, answer: type[C]) -> C:
        kind, _, content = self.read_frame()
        body, end = decode_body(content)
        assert (kind, end) == (SASL_FRAME, len(content))
        assert isinstance(body, answer), f"{answer.__name__} was due, not {body}"
        return body

    def without_tls(self) -> socket.socket:
        """The socket, in which what follows is not encrypted; this peer has it no more."""
        plain = socket.socket(fileno=self._socket.detach())
        plain.settimeout(WAIT_SECONDS)
        return plain

    def exchange_headers(self, header: bytes = PROTOCOL_HEADER) -> None:
        self.send(header)
        assert self.read(8) == header

    def open(self, **fields: object) -> Open:
        fields.setdefault("container_id", self.container)
        self.write(0, Open(**fields))  # type: ignore[arg-type]
        self.opened = self.answer(Open)
        return self.opened

    def session(self, **fields: object) -> Session:
        """Begin a session, on the first channel that is free."""
        taken = {session.channel for session in self.sessions if session.is_open}
        channel = next(number for number in itertools.count() if number not in taken)
        session = Session(self, channel)
        self.sessions.append(session)
        session.begin(**fields)
        return session

    def shut(self, error: Error | None = None) -> None:
        """Close in order, and see the server do the same."""
        self.write(0, Close(error))
        self.wait(lambda: self.closed is not None)
        self.expect_end()

    def expect_close(self, condition: str | None = None) -> Error | None:
        """The server closes the connection with this error; agree, and see it hang up."""
        self.wait(lambda: self.closed is not None)
        assert self.closed is not None
        error = self.closed.error
        assert (error.condition if error else None) == condition, error
        self.write(0, Close())
        self.expect_end()
        return error

    # -- out ----------------------------------------------------------------------------------------------------

    def write(self, channel: int, body: Composite | None, payload: bytes = b"") -> None:
        self.send(frame(channel, body, payload))

    # -- in -----------------------------------------------------------------------------------------------------

    def read_frame(self) -> tuple[int, int, bytes]:
        """Kind, channel, and what follows the header."""
        size, offset, kind, channel = _HEAD.unpack(self.read(_HEAD.size))
        content = self.read(size - _HEAD.size)
        self.largest_frame = max(self.largest_frame, size)
        return kind, channel, content[offset * 4 - _HEAD.size :]

    def pump(self) -> None:
        """Read one frame, and give it to whom it concerns."""
        kind, channel, content = self.read_frame()
        assert kind == AMQP_FRAME, f"a frame of type {kind}"
        if not content:
            self.empty_frames.append(channel)
            return
        self.channels.add(channel)
        body, end = decode_body(content)
        assert self.closed is None, f"{body} after close"
        if isinstance(body, Begin):
            assert body.remote_channel is not None, "the server began a session of its own"
            session = next(each for each in self.sessions if each.is_open and each.channel == body.remote_channel)
            self._by_channel[channel] = session
        if isinstance(body, Close):
            assert channel == 0
            self.closed = body
        elif isinstance(body, Open):
            assert channel == 0
            self.answers.append(body)
        else:
            session = self._by_channel[channel]
            session.take(body, content[end:])
            if isinstance(body, End):
                del self._by_channel[channel]

    def answer(self, kind: type[C]) -> C:
        """The next frame that belongs to no session: it has to be of that kind."""
        self.wait(lambda: bool(self.answers))
        found = self.answers.popleft()
        assert isinstance(found, kind), f"{kind.__name__} was due, not {found}"
        return found

    def wait(self, done: Callable[[], bool], *healthy: Callable[[], object]) -> None:
        """Read until this is so. What says that it never will be, is raised: a close, or what is not `healthy`."""
        while not done():
            assert self.closed is None, f"closed by the server: {self.closed}"
            for why in healthy:
                assert not why(), why()
            self.pump()

    def sync(self) -> None:
        """Everything sent so far, on any session, has had its effect, and what the server says of it is here."""
        for session in self.sessions:
            if session.is_open:
                session.sync()
                return
        self.session().sync()
