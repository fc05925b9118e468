"""An AMQP 1.0 connection without its socket, for either role: bytes in, calls to owners out.

This file reads protocol headers and frames and keeps the connection's own state; each session keeps its own. It knows
no clock: time comes in with the bytes, and `next_timer` says when it wants to be asked again.
"""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr

from flintmq.base.errors import (
    SCOPE_CONNECTION,
    SCOPE_LINK,
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    AuthenticationFailed,
    ConnectionLost,
    FlintError,
    FrameSizeTooSmall,
    FramingError,
    IllegalState,
    InvalidField,
    LocalProtocolError,
    NotAllowed,
    NotImplementedHere,
    ResourceLimitExceeded,
)
from flintmq.base.limits import (
    FRAME_MAX_BYTES,
    HANDSHAKE_FRAME_MAX_BYTES,
    HEARTBEAT_SECONDS,
    IDLE_TIMEOUT_MIN_MS,
    LINK_HANDLE_MAX,
    LOGIN_FRAME_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    METHOD_WORK_UNITS,
    OUTPUT_BACK_PRESSURE_BYTES,
    PIPELINED_MAX_BYTES,
    SESSION_CHANNEL_MAX,
    TICK_WORK_UNITS,
)
from flintmq.base.rotation import behind
from flintmq.base.work import WORK
from flintmq.protocol.amqp10.channels import Channels
from flintmq.protocol.amqp10.fast_path import FastTransfer
from flintmq.protocol.amqp10.faults import from_wire, scope_of, to_wire
from flintmq.protocol.amqp10.idle_timeout import IdleTimeout
from flintmq.protocol.amqp10.reassembly import ReassemblyBudget
from flintmq.protocol.amqp10.sasl import SaslExchange
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.amqp10.states import CONNECTION, SESSION, Endpoint, Layer
from flintmq.protocol.output import Output
from flintmq.protocol.reassembly import NodeReassembly
from flintmq.protocol.role import Role
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.frames import (
    EMPTY_FRAME,
    FRAME_AMQP,
    FRAME_HEAD_BYTES,
    FRAME_SASL,
    begin_frame,
    decode_body,
    decode_sasl_body,
    end_frame,
    frame_body,
    frame_channel,
    frame_size,
    write_body,
)
from flintmq.wire.amqp10.performatives import (
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    Performative,
    SaslInit,
    SaslPerformative,
    SaslResponse,
    Transfer,
)

# Pieces of one frame, above which they are put together: each costs 40 bytes more than it holds, and a peer decides how
# small they are.
_PIECES_MAX: Final = 32
_HEADER_BYTES: Final = 8
# While the owner is thinking, no number of bytes makes reading on worth while.
_NEVER: Final = 1 << 62
_DESCRIBED: Final = 0x00
_SMALLULONG: Final = 0x53


@dataclass(frozen=True)
class Tuning:
    """What this side takes: sizes in bytes, numbers of channels and handles from 0 on; silence in milliseconds, after
    which the peer is taken for dead (0 for ever).
    """

    frame_max: int = FRAME_MAX_BYTES
    channel_max: int = SESSION_CHANNEL_MAX
    handle_max: int = LINK_HANDLE_MAX
    idle_timeout_ms: int = HEARTBEAT_SECONDS * 1000
    message_max: int = MESSAGE_MAX_BYTES


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionOwner:
    """Who is told what happens on a connection as a whole. A server's owner answers logins and opens."""

    def on_sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        """Server: call `sasl_challenge`, `sasl_accept` or `sasl_refuse`, now or later."""
        raise LocalProtocolError("this side offers no mechanisms")

    def on_sasl_response(self, response: bytes) -> None:
        """Server: the answer to a challenge; the same."""
        raise LocalProtocolError("this side sends no challenges")

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        """Client: call `sasl_init`, or `lost` where there is none that will do."""
        raise LocalProtocolError("this side does not log in")

    def on_sasl_challenge(self, challenge: bytes) -> None:
        """Client: call `sasl_respond`."""
        raise LocalProtocolError("this side does not answer challenges")

    def on_sasl_outcome(self, additional: bytes | None) -> None:
        """Client: the login was accepted; some mechanisms have a last word of the server here."""
        return

    @abstractmethod
    def on_open(self, opening: Open) -> None:
        """Server: open came. Call `accept_open`, now or later, or raise what refuses it. Client: open was answered."""

    @abstractmethod
    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        """The peer began a session, which is answered when this returns. Raise what refuses it."""

    def on_transfer_held(self) -> None:
        """A transfer came while `holds_publishes`. Nothing behind it is heard until publishes are taken."""
        return

    @abstractmethod
    def on_closed(self, error: FlintError | None) -> None:
        """The connection takes no more; told once, after its sessions were. What is in the output still goes out."""


@final
class Connection:
    """One end of a connection. Feed it bytes by `receive`; send what `output` gathers.

    `opening` is what this side says of itself in open; sizes and times are filled in from `tuning`. A server that has
    `mechanisms` insists on SASL; a client that `logs_in` begins with it.
    """

    def __init__(
        self,
        role: Role,
        owner: ConnectionOwner,
        output: Output,
        tuning: Tuning,
        opening: Open,
        mechanisms: list[str] | None = None,
        logs_in: bool = False,
        node_reassembly: NodeReassembly | None = None,
    ) -> None:
        self.role = role
        self.output = output
        self.tuning = tuning
        self.reassembly: ReassemblyBudget = ReassemblyBudget(tuning.message_max, node_reassembly)
        self.layer: Layer = Layer.HEADER
        self.local: Endpoint = Endpoint.UNSENT
        self.remote: Endpoint = Endpoint.UNSENT
        # What the peer said of itself.
        self.peer: Open | None = None
        # Bytes that a frame to the peer may have (part 2 §2.4.1: until open it is this).
        self.peer_frame_max: i64 = spec.MIN_MAX_FRAME_SIZE
        # Whether what the specification forbids and RabbitMQ lets pass is let pass here: an error without a condition,
        # a frame for a session or a detach for a link that there is none of, a flow without a handle that speaks of a
        # link, a delivery without a tag.
        self.is_lenient: bool = False
        # Whether the next transfer, and what is behind it, has to wait; and whether one waits.
        self.holds_publishes: bool = False
        self.is_holding: bool = False
        self._owner = owner
        self._is_server = role is Role.SERVER
        self._opening = opening
        self._sasl = SaslExchange(role, output)
        self._mechanisms = mechanisms or []
        self._logs_in = logs_in
        self._work: i64 = TICK_WORK_UNITS
        # Where the meter of work stood when this connection paid last.
        self._metered: i64 = 0
        self._frame_work: i64 = METHOD_WORK_UNITS if role is Role.SERVER else 0
        self._channels = Channels(self, tuning.channel_max)
        self._dirty: list[Session] = []
        # The session that sent something last.
        self.last: Session | None = None
        self._fast = FastTransfer()
        # The session that the frame in hand is for: whose fault an error would be.
        self._at: Session | None = None
        self._is_open = False
        self._frame_max: i64 = spec.MIN_MAX_FRAME_SIZE
        # Bytes of an incomplete frame, and how many it takes before reading on makes sense.
        self._held: list[bytes] = []
        self._held_bytes: i64 = 0
        self._needed: i64 = 1
        self._next: i64 = 0
        # The owner is thinking, and what comes meanwhile waits.
        self._is_waiting = False
        self._is_reading = False
        self._idle_timeout = IdleTimeout(tuning.idle_timeout_ms / 1000)
        self._told_closed = False
        if not self._is_server:
            # A server's open comes behind ours, which says what we take.
            self._frame_max = tuning.frame_max
            if logs_in:
                self._raw(spec.SASL_HEADER)
            else:
                self._begin_frames()

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_closing(self) -> bool:
        """Our close waits for its answer."""
        return self.layer is Layer.FRAMES and self.local is Endpoint.CLOSED

    @property
    def is_closed(self) -> bool:
        return self.layer is Layer.DONE

    @property
    def is_paused(self) -> bool:
        """Whole frames may wait in here because too much waits in the output, because enough was done before the last
        `refresh`, or because transfers were held until now: `receive(b"")` goes on with them.
        """
        return self._needed == 0 and self._held_bytes > 0 and not self.is_holding

    @property
    def sessions(self) -> list[Session]:
        return self._channels.sessions

    @property
    def assembled_bytes(self) -> int:
        """What is held of messages, and of a frame, that have begun to come and have not ended."""
        return int(self.reassembly.all_held)

    # -- bytes in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Take in bytes; calls the owners for what they say. Faults of the peer become closes, never exceptions."""
        self._idle_timeout.received_at = now
        if self._held_bytes > 0:
            if data:
                self._held.append(data)
                self._held_bytes += len(data)
            if self._held_bytes < self._needed:
                if len(self._held) >= _PIECES_MAX:
                    self._held = [b"".join(self._held)]
                self.reassembly.hold_frame(self._held_bytes, self._needed)
                if self._is_waiting and not self._is_open and self._held_bytes > PIPELINED_MAX_BYTES:
                    self._finish(FramingError(f"more than {PIPELINED_MAX_BYTES} bytes before the login is decided"))
                return
            data = b"".join(self._held)
            self._held = []
            self._held_bytes = 0
            self.reassembly.hold_frame(0, 0)
        pos: i64 = 0
        end: i64 = len(data)
        self._is_reading = True
        self._metered = WORK.spent
        try:
            while self.layer is not Layer.DONE:
                self._next = pos
                try:
                    pos = self._read(data, pos, end)
                    break
                except (AmqpError, Amqp10Error) as error:
                    self._pay()
                    self._refuse(error)
                    if self._next <= pos:
                        # The frame itself cannot be trusted, so nothing behind it can.
                        return
                    pos = self._next
        finally:
            self._is_reading = False
            self._pay()
        if self.layer is Layer.DONE:
            return
        if pos < end:
            self._held.append(data[pos:])
            self._held_bytes = end - pos
            self.reassembly.hold_frame(self._held_bytes, self._needed)
        if self._dirty:
            self.flush()

    def _read(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read whole frames from `pos`; returns where the first incomplete one starts."""
        fast = self._fast
        channels = self._channels
        while True:
            if self._is_waiting:
                self._needed = _NEVER
                return pos
            if self.layer is not Layer.FRAMES:
                if self.layer is Layer.DONE:
                    return end
                if self.layer is not Layer.SASL:
                    if not self._read_header(data, pos, end):
                        return pos
                    pos += _HEADER_BYTES
                    self._next = pos
                    continue
            if end - pos < FRAME_HEAD_BYTES:
                self._needed = FRAME_HEAD_BYTES
                return pos
            size = frame_size(data, pos)
            if size > self._frame_max:
                raise FramingError(f"a frame of {size} bytes, {self._frame_max} are allowed")
            if size > end - pos:
                self._needed = size
                return pos
            stop: i64 = pos + size
            if not self._is_open:
                self._next = stop
                self._receive_unopened(data, pos, size)
                pos = stop
                continue
            body = frame_body(data, pos, size, FRAME_AMQP)
            if body == stop:
                # Without a body, a frame only says that the peer is alive (part 2 §2.4.5).
                self._next = stop
                pos = stop
                continue
            number = frame_channel(data, pos)
            session = channels.find(number)
            self._at = session
            if WORK.spent != self._metered:
                self._pay()
            if (
                stop - body > 3
                and data[body + 2] == spec.TRANSFER
                and data[body] == _DESCRIBED
                and data[body + 1] == _SMALLULONG
            ):
                if self._work <= 0:
                    # A few bytes can ask for milliseconds: others want their turn.
                    self._needed = 0
                    return pos
                if self.holds_publishes:
                    self._needed = 0
                    self._hold()
                    return pos
                self._next = stop
                pos = stop
                if session is not None and session.is_listening:
                    start = fast.scan(data, body + 3, stop)
                    if start != 0:
                        if fast.settled:
                            # Who takes it could not tell another format without its delivery.
                            if fast.message_format == 0 and session.receive_settled(fast.handle, data, start, stop):
                                continue
                        elif session.receive_unsettled(
                            fast.handle,
                            fast.delivery_id,
                            data[fast.tag_start : fast.tag_stop],
                            data,
                            start,
                            stop,
                            fast.message_format,
                        ):
                            continue
                self._receive_frame(session, number, data, body, stop)
            else:
                if self._work <= 0:
                    self._needed = 0
                    return pos
                self._next = stop
                pos = stop
                self._receive_frame(session, number, data, body, stop)
                if self.output.backlog > OUTPUT_BACK_PRESSURE_BYTES and self._is_server:
                    # A few bytes can ask for megabytes: the peer has to read some before it is heard again.
                    self._needed = 0
                    return pos

    def _receive_frame(self, session: Session | None, number: i64, data: bytes, body: i64, stop: i64) -> None:
        """Any frame on an open connection."""
        performative, start = decode_body(data, body, stop, self.is_lenient)
        code = performative.descriptor
        if code not in CONNECTION[self.remote]:
            raise IllegalState(f"{performative.type_name} on a connection that is {self.remote.value} already")
        if isinstance(performative, Close):
            self._receive_close(performative)
            return
        if isinstance(performative, Begin):
            self._work -= self._frame_work
            self._receive_begin(performative, number)
            return
        if session is None:
            if self.is_lenient:
                return
            self._channels.check(number)
            raise IllegalState(f"{performative.type_name} on channel {number}, on which no session has begun")
        if not session.is_listening:
            # What was on its way when we ended the session; with an error, it has to be dropped (part 2 §2.5.4).
            if code == spec.END:
                session.receive(performative)
            return
        if code not in SESSION[session.remote]:
            raise IllegalState(f"{performative.type_name} on a session that is {session.remote.value}")
        session.at = None
        if isinstance(performative, Transfer):
            session.receive_transfer(performative, data, start, stop)
        elif isinstance(performative, Disposition):
            session.receive_disposition(performative)
        elif isinstance(performative, Flow):
            self._work -= self._frame_work >> 2
            session.receive_flow(performative)
        else:
            self._work -= self._frame_work
            session.receive(performative)

    def _receive_unopened(self, data: bytes, pos: i64, size: i64) -> None:
        """A frame of the security layer, or one that comes before both sides have sent open, or behind our close."""
        stop = pos + size
        if self.layer is Layer.SASL:
            start = frame_body(data, pos, size, FRAME_SASL)
            self._receive_sasl(decode_sasl_body(data, start, stop))
            return
        start = frame_body(data, pos, size, FRAME_AMQP)
        if start == stop:
            return
        performative, _ = decode_body(data, start, stop, self.is_lenient)
        if self.local is Endpoint.CLOSED:
            # After our close all that counts is the peer's (part 2 §2.4.6).
            if isinstance(performative, Close):
                self._finish(from_wire(performative.error))
            return
        if performative.descriptor not in CONNECTION[self.remote]:
            raise IllegalState(f"{performative.type_name} on a connection that is {self.remote.value}")
        if isinstance(performative, Close):
            self._receive_close(performative)
            return
        if not isinstance(performative, Open):
            raise IllegalState(f"{performative.type_name} on a connection that is {self.local.value}")
        if frame_channel(data, pos) != 0:
            raise FramingError(f"open on channel {frame_channel(data, pos)}, channel 0 was due")
        self._receive_open(performative)

    # -- headers and logins -------------------------------------------------------------------------------------

    def _read_header(self, data: bytes, pos: i64, end: i64) -> bool:
        """False if it is not all there, or not what was due."""
        got = data[pos : pos + _HEADER_BYTES]
        if len(got) < _HEADER_BYTES:
            self._needed = _HEADER_BYTES
            if not any(header.startswith(got) for header in (spec.PROTOCOL_HEADER, spec.SASL_HEADER)):
                self._wrong_header(got)
            return False
        is_first = self.layer is Layer.HEADER
        wants_login = is_first and (bool(self._mechanisms) if self._is_server else self._logs_in)
        if wants_login and got == spec.SASL_HEADER:
            self.layer = Layer.SASL
            if self._is_server:
                # Beyond what part 5 §5.3.1 allows, which no token fits.
                self._frame_max = HANDSHAKE_FRAME_MAX_BYTES
                self._raw(spec.SASL_HEADER)
                self._sasl.offer(list(self._mechanisms))
            return True
        if not wants_login and got == spec.PROTOCOL_HEADER:
            self.layer = Layer.FRAMES
            if self._is_server:
                self._raw(spec.PROTOCOL_HEADER)
            return True
        self._wrong_header(got)
        return False

    def _wrong_header(self, got: bytes) -> None:
        """amqp-1.0 part 2 §2.2: a server answers with the header it would take, then hangs up."""
        if self._is_server:
            wants_login = self.layer is Layer.HEADER and bool(self._mechanisms)
            self._raw(spec.SASL_HEADER if wants_login else spec.PROTOCOL_HEADER)
        self._finish(NotImplementedHere(f"the peer sent protocol header {got.hex()}, which cannot be spoken here"))

    def _begin_frames(self) -> None:
        """Client: send header and open in one go (part 2 §2.4.2)."""
        self._raw(spec.PROTOCOL_HEADER)
        self._send_open()

    def _receive_sasl(self, performative: SaslPerformative) -> None:
        # A server's answer may come later, and nothing else may come before it.
        self._is_waiting = self._is_server
        if self._is_server and _has_response(performative):
            # What is long has come; a stranger may send ahead no more than that.
            self._frame_max = LOGIN_FRAME_MAX_BYTES
        outcome = self._sasl.receive(performative, self._owner)
        if outcome is None:
            return
        if outcome.code != spec.SASL_OK:
            self._finish(AuthenticationFailed(f"the login was refused, SASL code {outcome.code}"))
            return
        self._owner.on_sasl_outcome(outcome.additional_data)
        self.layer = Layer.AMQP_HEADER
        self._begin_frames()

    def sasl_challenge(self, challenge: bytes) -> None:
        """Server: ask for more."""
        if self._sasl.challenge(challenge):
            self._go_on()

    def sasl_accept(self, additional: bytes | None = None) -> None:
        """Server: who is there may come in."""
        if self._sasl.accept(additional):
            self.layer = Layer.AMQP_HEADER
            self._frame_max = spec.MIN_MAX_FRAME_SIZE
            self._go_on()

    def sasl_refuse(self, error: AmqpError | Amqp10Error, code: int = spec.SASL_AUTH) -> None:
        """Server: who is there may not come in; what was wrong is for our log only."""
        if self._sasl.refuse(code):
            self._finish(error)

    def sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None = None) -> None:
        """Client: log in."""
        self._sasl.init(mechanism, response, hostname)

    def sasl_respond(self, response: bytes) -> None:
        """Client: answer a challenge."""
        self._sasl.respond(response)

    def _go_on(self) -> None:
        """The owner has decided: what came meanwhile is read."""
        if not self._is_waiting:
            return
        self._is_waiting = False
        self._needed = 0
        if not self._is_reading and self._held_bytes > 0:
            self.receive(b"", self._idle_timeout.received_at)

    # -- open and close -----------------------------------------------------------------------------------------

    def _receive_open(self, opening: Open) -> None:
        self.remote = Endpoint.ACTIVE
        self.peer = opening
        if opening.max_frame_size < spec.MIN_MAX_FRAME_SIZE:
            raise InvalidField(
                f"max-frame-size {opening.max_frame_size} is below {spec.MIN_MAX_FRAME_SIZE}", SCOPE_CONNECTION
            )
        idle_ms = opening.idle_time_out or 0
        if 0 < idle_ms < IDLE_TIMEOUT_MIN_MS:
            raise NotAllowed(f"an idle-time-out of {idle_ms} ms: {IDLE_TIMEOUT_MIN_MS} ms can be kept to, and not less")
        self.peer_frame_max = min(opening.max_frame_size, FRAME_MAX_BYTES)
        self._idle_timeout.keep(idle_ms)
        if self._is_server:
            self._is_waiting = True
        else:
            self._is_open = True
        self._owner.on_open(opening)

    def accept_open(self, opening: Open | None = None) -> None:
        """Server: answer open; `opening` is what is said instead of what the connection was made with."""
        if not self._is_server or self.local is not Endpoint.UNSENT or self.remote is not Endpoint.ACTIVE:
            return
        if opening is not None:
            self._opening = opening
        self._send_open()
        self._is_open = True
        self._go_on()

    def _send_open(self) -> None:
        tuning = self.tuning
        opening = self._opening
        opening.max_frame_size = tuning.frame_max
        opening.channel_max = tuning.channel_max
        # Half of what we wait (part 2 §2.4.5): one that is late is no dead peer yet.
        opening.idle_time_out = tuning.idle_timeout_ms // 2 or None
        self._frame_max = tuning.frame_max
        self.local = Endpoint.ACTIVE
        if len(self.encode(opening)) + FRAME_HEAD_BYTES > self.peer_frame_max:
            # A peer that takes little has to do without what we say of ourselves.
            opening = dataclasses.replace(opening, properties={}, offered_capabilities=[], desired_capabilities=[])
        self.send(0, opening)

    def close(self, error: AmqpError | Amqp10Error | None = None) -> None:
        """Send close; all sessions end now. Harmless when the connection is closing already."""
        if self.local is Endpoint.CLOSED or self.layer is Layer.DONE:
            return
        if self.layer is not Layer.FRAMES:
            self._finish(error)
            return
        if self.local is Endpoint.UNSENT:
            # Nothing may be sent before it (part 2 §2.4.1).
            self._send_open()
        self.flush()
        self.send(0, Close(error=to_wire(error)))
        self.local = Endpoint.CLOSED
        self._is_waiting = False
        self._end(error)

    def _receive_close(self, close: Close) -> None:
        error = from_wire(close.error)
        self.remote = Endpoint.CLOSED
        if self.local is Endpoint.UNSENT:
            self._send_open()
        self.flush()
        self.send(0, Close())
        self.local = Endpoint.CLOSED
        self._finish(error)

    def lost(self, error: FlintError | None) -> None:
        """The transport is gone."""
        self._finish(error or ConnectionLost("the peer closed the socket"))

    # -- sessions -----------------------------------------------------------------------------------------------

    def begin(self, owner: SessionOwner, properties: Fields | None = None) -> Session:
        """Begin a session on the lowest free channel; it may be used before the peer's answer comes."""
        if not self._is_open:
            raise LocalProtocolError("the connection is not open")
        session = self._channels.new()
        session.owner = owner
        session.begin(Begin(properties=properties or {}))
        return session

    def _receive_begin(self, begin: Begin, number: i64) -> None:
        is_answer = begin.remote_channel is not None
        session = self._channels.begun(begin, number)
        self._at = session
        session.at = None
        session.begun(begin, number)
        if is_answer:
            owner = session.owner
            if owner is not None and session.is_open:
                owner.on_begun(begin)
            return
        try:
            session.owner = self._owner.on_session(session, begin)
        except (AmqpError, Amqp10Error) as error:
            session.begin(Begin())
            session.end(error)
            return
        session.begin(Begin())

    def release(self, session: Session) -> None:
        """Both sides have ended a session: its channels are free."""
        self._channels.release(session)

    # -- bytes out ----------------------------------------------------------------------------------------------

    def send(self, channel: i64, performative: Performative) -> None:
        w = self.output.writer
        start = begin_frame(w, channel)
        write_body(w, performative)
        size = i64(len(w)) - start
        if size > self.peer_frame_max:
            w.truncate(start)
            raise FrameSizeTooSmall(
                f"{performative.type_name} needs {size} bytes, the peer takes {self.peer_frame_max}", SCOPE_SESSION
            )
        end_frame(w, start)
        self.output.touch()

    def encode(self, performative: Performative) -> bytes:
        w = BytesWriter()
        write_body(w, performative)
        return w.getvalue()

    def begin_frame(self, channel: i64, performative: bytes, payload_size: i64) -> None:
        """A frame up to its payload, which is to follow."""
        w = self.output.writer
        write_i32_be(w, i32(FRAME_HEAD_BYTES + len(performative) + payload_size))
        w.append(2)
        w.append(FRAME_AMQP)
        w.append(channel >> 8)
        w.append(channel & 0xFF)
        w.write(performative)

    def _raw(self, data: bytes) -> None:
        self.output.writer.write(data)
        self.output.touch()

    def soil(self, session: Session) -> None:
        """A session has gathered something for the next `flush`."""
        self._dirty.append(session)

    def flush(self) -> None:
        """Write what sessions gathered. Who settles outside of `receive` calls this at the end of its turn."""
        dirty = self._dirty
        if dirty:
            self._dirty = []
            for session in dirty:
                session.flush()

    def resume(self) -> None:
        """The output has room again."""
        for session in behind(self.sessions, self.last):
            session.pump()

    # -- work ---------------------------------------------------------------------------------------------------

    def spend(self, units: i64) -> None:
        """The owner did so much for the peer: when all of TICK_WORK_UNITS is spent, its next frame waits."""
        self._work -= units

    def refresh(self) -> None:
        """A tick has begun. What was spent beyond the last one's share is paid out of this one's."""
        self._work = min(self._work + TICK_WORK_UNITS, TICK_WORK_UNITS)

    def _pay(self) -> None:
        """What was done since the last call was done for the peer, and is on the meter."""
        spent: i64 = WORK.spent
        if self._is_server:
            self._work -= spent - self._metered
        self._metered = spent

    def _hold(self) -> None:
        if not self.is_holding:
            self.is_holding = True
            self._owner.on_transfer_held()

    def take_publishes(self) -> None:
        """Transfers need not wait any more; `receive(b"")` goes on with one that did."""
        self.holds_publishes = False
        self.is_holding = False

    # -- time ---------------------------------------------------------------------------------------------------

    def mark_alive(self, now: float) -> None:
        """The peer is taken for alive, although nothing it sends is read at present."""
        self._idle_timeout.received_at = now

    def sent(self, now: float) -> None:
        """The transport wrote something: no empty frame is due for a while."""
        self._idle_timeout.sent_at = now

    def next_timer(self) -> float | None:
        """When `handle_timer` wants to be called, in the clock of `receive`; None while nothing is due."""
        if not self._is_open or self.local is Endpoint.CLOSED:
            return None
        return self._idle_timeout.next_timer()

    def handle_timer(self, now: float) -> None:
        """Send an empty frame when nothing was sent for half of what the peer allows; close after too much silence of
        either side (part 2 §2.4.5).
        """
        if not self._is_open or self.local is Endpoint.CLOSED:
            return
        idle = self._idle_timeout
        if idle.is_peer_late(now):
            self.close(ResourceLimitExceeded(f"nothing came in {idle.timeout:g} s: local-idle-timeout expired"))
        elif idle.has_peer_given_up(now):
            self.close(ResourceLimitExceeded(f"nothing was sent in {idle.threshold:g} s: remote idle timeout exceeded"))
        elif idle.is_frame_due(now):
            self._raw(EMPTY_FRAME)
            idle.sent_at = now

    # -- ends ---------------------------------------------------------------------------------------------------

    def _refuse(self, error: AmqpError | Amqp10Error) -> None:
        """A fault of the peer, or a refusal, turned into the end of what cannot go on."""
        if self.local is Endpoint.CLOSED:
            return
        session = self._at if self._is_open else None
        link = session.at if session is not None else None
        scope = SCOPE_CONNECTION if session is None else SCOPE_SESSION if link is None else SCOPE_LINK
        scope = scope_of(error, scope)
        if scope == SCOPE_LINK and link is not None:
            link.fail(error)
        elif scope == SCOPE_SESSION and session is not None:
            session.end(error)
        else:
            self.close(error)

    def _end(self, error: FlintError | None) -> None:
        self._is_open = False
        self.reassembly.hold_frame(0, 0)
        self.take_publishes()
        for session in self.sessions:
            session.abandon(error)
        if not self._told_closed:
            self._told_closed = True
            self._owner.on_closed(error)

    def _finish(self, error: FlintError | None) -> None:
        self.layer = Layer.DONE
        self._is_waiting = False
        # The transport has to hang up, even where there is nothing more to say.
        self.output.touch()
        self._end(error)


def _has_response(performative: SaslPerformative) -> bool:
    """Whether a client answered its mechanism, which may ask for more."""
    if isinstance(performative, SaslInit):
        return bool(performative.initial_response)
    return isinstance(performative, SaslResponse)
