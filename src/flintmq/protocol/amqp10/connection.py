"""An AMQP 1.0 connection without a socket, for either role: it receives bytes and calls its owners.

The connection reads protocol headers and frames, and keeps its own state; each session keeps its own. It reads no
clock: the caller passes the time with the bytes, and `next_timer` says when to call `handle_timer`.
"""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import (
    SCOPE_CONNECTION,
    SCOPE_LINK,
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    AuthenticationFailed,
    ConnectionLost,
    FlintError,
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
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.idle_timeout import IdleTimeout
from flintmq.protocol.amqp10.reassembly import ReassemblyBudget
from flintmq.protocol.amqp10.sasl import SaslExchange, SaslOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.amqp10.states import CONNECTION, HEADERS, SESSION, Endpoint, Layer
from flintmq.protocol.amqp10.transfers import SessionConnection, SessionTransfers
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
    decode_body,
    decode_sasl_body,
    frame_body,
    frame_channel,
    frame_size,
)
from flintmq.wire.amqp10.performatives import (
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslPerformative,
    SaslResponse,
    Transfer,
)

# The number of pieces of one frame at which they are joined. Each piece costs 40 bytes beside its content, and the peer
# decides how small the pieces are.
_PIECES_MAX: Final = 32
_HEADER_BYTES: Final = 8
# A number of bytes that never arrives: nothing is read while the owner decides.
_NEVER: Final = 1 << 62
_DESCRIBED: Final = 0x00
_SMALLULONG: Final = 0x53


@dataclass(frozen=True)
class Tuning:
    """The limits of this side. Sizes are in bytes; channels and handles are numbered from 0 to the maximum.

    After `idle_timeout_ms` milliseconds without input the peer counts as dead; 0 means never.
    """

    frame_max: int = FRAME_MAX_BYTES
    channel_max: int = SESSION_CHANNEL_MAX
    handle_max: int = LINK_HANDLE_MAX
    idle_timeout_ms: int = HEARTBEAT_SECONDS * 1000
    message_max: int = MESSAGE_MAX_BYTES


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionOwner(SaslOwner):
    """Receives the events of a connection as a whole. A server's owner answers logins and opens."""

    @abstractmethod
    def on_open(self, opening: Open) -> None:
        """Server: handle open; the owner calls `accept_open`, now or later, or raises an error to refuse.

        Client: handle the server's open.
        """

    @abstractmethod
    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        """Handle a session that the peer began, and return its owner. Then begin is sent. Raise an error to refuse."""

    def on_transfer_held(self) -> None:
        """A transfer arrived while `holds_publishes` is set. It and all after it wait for `take_publishes`."""
        return

    @abstractmethod
    def on_closed(self, error: FlintError | None) -> None:
        """Handle the end of the connection. Called once, after its sessions ended. The output is still to be sent."""


@final
class Connection(SessionConnection):
    """One end of a connection. Its owner passes received bytes to `receive` and sends the bytes of `output`.

    `opening` is the open of this side; its sizes and times are set from `tuning`. A server with `mechanisms` requires
    SASL; a client with `logs_in` begins with it.
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
        reassembly = ReassemblyBudget(tuning.message_max, node_reassembly)
        super().__init__(output, reassembly, tuning.handle_max, tuning.message_max)
        self.role = role
        self.tuning = tuning
        self.layer: Layer = Layer.HEADER
        self.local: Endpoint = Endpoint.UNSENT
        self.remote: Endpoint = Endpoint.UNSENT
        # `holds_publishes`: the next transfer, and all frames after it, have to wait. `is_holding`: one is waiting.
        self.holds_publishes: bool = False
        self.is_holding: bool = False
        self._owner = owner
        self._is_server = role is Role.SERVER
        self._opening = opening
        self._sasl = SaslExchange(role, output)
        self._mechanisms = mechanisms or []
        # Whether the connection begins with the exchange of SASL frames.
        self._logs_in = logs_in or bool(mechanisms)
        # The reading of the work meter at the last `_pay`.
        self._metered: i64 = 0
        self._frame_work: i64 = METHOD_WORK_UNITS if role is Role.SERVER else 0
        self._channels = Channels(self, tuning.channel_max)
        self._fast = FastTransfer()
        # The session of the current frame, to which an error belongs.
        self._at: Session | None = None
        self._is_open = False
        self._frame_max: i64 = spec.MIN_MAX_FRAME_SIZE
        # The bytes of an incomplete frame, and how many bytes are needed before it is worth reading again.
        self._held: list[bytes] = []
        self._held_bytes: i64 = 0
        self._needed: i64 = 1
        self._next: i64 = 0
        # Whether the owner has a decision to make; input waits until then.
        self._is_waiting = False
        self._is_reading = False
        self._idle_timeout = IdleTimeout(tuning.idle_timeout_ms / 1000)
        self._is_end_reported = False
        if not self._is_server:
            # The server's open answers ours, which says how large its frames may be.
            self._frame_max = tuning.frame_max
            if logs_in:
                self.frames.send_raw(spec.SASL_HEADER)
            else:
                self._begin_frames()

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_closing(self) -> bool:
        """Whether this side has sent close and waits for the peer's."""
        return self.layer is Layer.FRAMES and self.local is Endpoint.CLOSED

    @property
    def is_closed(self) -> bool:
        return self.layer is Layer.DONE

    @property
    def is_paused(self) -> bool:
        """Whether complete frames may wait in the connection; `receive(b"")` continues with them.

        They wait because the output holds too much, because the work of the tick was used up before the last
        `refresh`, or because transfers were held until now.
        """
        return self._needed == 0 and self._held_bytes > 0 and not self.is_holding

    @property
    def sessions(self) -> list[Session]:
        return self._channels.sessions

    @property
    def assembled_bytes(self) -> int:
        """The bytes held of incomplete messages and of the incomplete frame."""
        return int(self.reassembly.all_held)

    # -- bytes in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Read received bytes, and call the owners for their frames. `now` is in seconds.

        A fault of the peer ends the link, the session or the connection and never raises.
        """
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
                        # The end of a malformed frame is unknown, so what follows cannot be read as frames.
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
        """Read complete frames from `pos` on, and return where the first incomplete one starts."""
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
                # A frame without a body only shows that the peer is alive (part 2 §2.4.5).
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
                    # A few bytes can cause milliseconds of work, so the other connections get their turn first.
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
                            # Another message format needs a delivery object, which tells the owner the format.
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
                    # A few bytes can request megabytes, so the peer must read some before more is handled.
                    self._needed = 0
                    return pos

    def _receive_frame(self, session: Session | None, number: i64, data: bytes, body: i64, stop: i64) -> None:
        """Handle any frame on an open connection. Raises an error if the frame is not legal now."""
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
            # Frames that were under way when we ended the session. After an end with an error, they must be dropped
            # (part 2 §2.5.4).
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
        """Handle a frame of the security layer, or one before both sides have sent open, or one after our close."""
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
            # After our close, only the peer's close counts (part 2 §2.4.6).
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
        """Read a protocol header. Returns False if it is not complete, or not the expected one."""
        got = data[pos : pos + _HEADER_BYTES]
        if len(got) < _HEADER_BYTES:
            self._needed = _HEADER_BYTES
            if not any(header.startswith(got) for header in (spec.PROTOCOL_HEADER, spec.SASL_HEADER)):
                self._wrong_header(got)
            return False
        due, layer = HEADERS[self._logs_in][self.layer]
        if got != due:
            self._wrong_header(got)
            return False
        self.layer = layer
        if self._is_server:
            self.frames.send_raw(due)
            if layer is Layer.SASL:
                # Larger than part 5 §5.3.1 allows: a token does not fit in the frames that it allows.
                self._frame_max = HANDSHAKE_FRAME_MAX_BYTES
                self._sasl.offer(self._mechanisms)
        return True

    def _wrong_header(self, got: bytes) -> None:
        """Refuse a protocol header: a server sends the header that it accepts, and closes (amqp-1.0 part 2 §2.2)."""
        if self._is_server:
            self.frames.send_raw(HEADERS[self._logs_in][self.layer][0])
        self._finish(NotImplementedHere(f"the peer sent protocol header {got.hex()}, which cannot be spoken here"))

    def _begin_frames(self) -> None:
        """Client: send the protocol header and open together (part 2 §2.4.2)."""
        self.frames.send_raw(spec.PROTOCOL_HEADER)
        self._send_open()

    def _receive_sasl(self, performative: SaslPerformative) -> None:
        # A server's owner may decide later, and no input is handled before its answer.
        self._is_waiting = self._is_server
        if self._is_server and _has_response(performative):
            # The long frame of a login has arrived. From now on a client that is not logged in may send less.
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
        """Server: send a challenge of the mechanism."""
        if self._sasl.challenge(challenge):
            self._go_on()

    def sasl_accept(self, additional: bytes | None = None) -> None:
        """Server: accept the login. `additional` is the last message of the mechanism, if it has one."""
        if self._sasl.accept(additional):
            self.layer = Layer.AMQP_HEADER
            self._frame_max = spec.MIN_MAX_FRAME_SIZE
            self._go_on()

    def sasl_refuse(self, error: AmqpError | Amqp10Error, code: int = spec.SASL_AUTH) -> None:
        """Server: refuse the login, and end the connection. The client gets only `code`; `error` is for the log."""
        if self._sasl.refuse(code):
            self._finish(error)

    def sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None = None) -> None:
        """Client: choose a mechanism, and send its first response, if it has one."""
        self._sasl.init(mechanism, response, hostname)

    def sasl_respond(self, response: bytes) -> None:
        """Client: send the answer to a challenge."""
        self._sasl.respond(response)

    def _go_on(self) -> None:
        """Read the input that waited for a decision of the owner."""
        if not self._is_waiting:
            return
        self._is_waiting = False
        self._needed = 0
        if not self._is_reading and self._held_bytes > 0:
            self.receive(b"", self._idle_timeout.received_at)

    # -- open and close -----------------------------------------------------------------------------------------

    def _receive_open(self, opening: Open) -> None:
        self.remote = CONNECTION[self.remote][spec.OPEN]
        self.peer = opening
        if opening.max_frame_size < spec.MIN_MAX_FRAME_SIZE:
            raise InvalidField(
                f"max-frame-size {opening.max_frame_size} is below {spec.MIN_MAX_FRAME_SIZE}", SCOPE_CONNECTION
            )
        idle_ms = opening.idle_time_out or 0
        if 0 < idle_ms < IDLE_TIMEOUT_MIN_MS:
            raise NotAllowed(f"an idle-time-out of {idle_ms} ms: {IDLE_TIMEOUT_MIN_MS} ms can be kept to, and not less")
        self.frames.frame_max = min(opening.max_frame_size, FRAME_MAX_BYTES)
        self._idle_timeout.keep(idle_ms)
        if self._is_server:
            self._is_waiting = True
        else:
            self._is_open = True
        self._owner.on_open(opening)

    def accept_open(self, opening: Open | None = None) -> None:
        """Server: send open, `opening` in place of the one that the connection was created with."""
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
        # Half of our timeout (part 2 §2.4.5), so that one late frame does not make the peer count as dead.
        opening.idle_time_out = tuning.idle_timeout_ms // 2 or None
        self._frame_max = tuning.frame_max
        self.local = Endpoint.ACTIVE
        if len(encode(opening)) + FRAME_HEAD_BYTES > self.frames.frame_max:
            # A peer that accepts only small frames gets no properties and capabilities.
            opening = dataclasses.replace(opening, properties={}, offered_capabilities=[], desired_capabilities=[])
        self.frames.send(0, opening)

    def close(self, error: AmqpError | Amqp10Error | None = None) -> None:
        """Send close, and end all sessions now. Does nothing if the connection is closing or closed."""
        if self.local is Endpoint.CLOSED or self.layer is Layer.DONE:
            return
        if self.layer is not Layer.FRAMES:
            self._finish(error)
            return
        if self.local is Endpoint.UNSENT:
            # Open is the first frame that may be sent (part 2 §2.4.1).
            self._send_open()
        self.flush()
        self.frames.send(0, Close(error=to_wire(error)))
        self.local = Endpoint.CLOSED
        self._is_waiting = False
        self._end(error)

    def _receive_close(self, close: Close) -> None:
        error = from_wire(close.error)
        self.remote = CONNECTION[self.remote][spec.CLOSE]
        if self.local is Endpoint.UNSENT:
            self._send_open()
        self.flush()
        self.frames.send(0, Close())
        self.local = Endpoint.CLOSED
        self._finish(error)

    def lost(self, error: FlintError | None) -> None:
        """End the connection because the transport has ended."""
        self._finish(error or ConnectionLost("the peer closed the socket"))

    # -- sessions -----------------------------------------------------------------------------------------------

    def begin(self, owner: SessionOwner, properties: Fields | None = None) -> Session:
        """Begin a session on the lowest free channel. It can be used before the peer's begin arrives.

        Raises LocalProtocolError if the connection is not open, ResourceLimitExceeded if all channels are in use.
        """
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

    def release(self, session: SessionTransfers) -> None:
        self._channels.release(session)

    # -- bytes out ----------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Let the sessions send again, since the output has room."""
        sessions: list[SessionTransfers] = [*self.sessions]
        for session in behind(sessions, self.last):
            session.pump()

    # -- work ---------------------------------------------------------------------------------------------------

    def refresh(self, units: i64 = TICK_WORK_UNITS) -> None:
        """Begin a tick with so many units of work. Units spent beyond the last tick's are taken from this tick's."""
        self._work = min(self._work + units, units)

    def _pay(self) -> None:
        """Charge the peer for the work that the meter shows since the last call."""
        spent: i64 = WORK.spent
        if self._is_server:
            self._work -= spent - self._metered
        self._metered = spent

    def _hold(self) -> None:
        if not self.is_holding:
            self.is_holding = True
            self._owner.on_transfer_held()

    def take_publishes(self) -> None:
        """Stop holding transfers. `receive(b"")` continues with one that waits."""
        self.holds_publishes = False
        self.is_holding = False

    # -- time ---------------------------------------------------------------------------------------------------

    def mark_alive(self, now: float) -> None:
        """Count the peer as alive at `now`, although its bytes are not read at present."""
        self._idle_timeout.received_at = now

    def sent(self, now: float) -> None:
        """Note that the transport wrote bytes at `now`, which delays the next empty frame."""
        self._idle_timeout.sent_at = now

    def next_timer(self) -> float | None:
        """Return when to call `handle_timer`, in seconds of the clock of `receive`; None for no time."""
        if not self._is_open or self.local is Endpoint.CLOSED:
            return None
        return self._idle_timeout.next_timer()

    def handle_timer(self, now: float) -> None:
        """Send an empty frame after half of the peer's idle timeout without output; close if either side was silent
        for too long (part 2 §2.4.5).
        """
        if not self._is_open or self.local is Endpoint.CLOSED:
            return
        idle = self._idle_timeout
        if idle.is_peer_late(now):
            self.close(ResourceLimitExceeded(f"nothing came in {idle.timeout:g} s: local-idle-timeout expired"))
        elif idle.has_peer_given_up(now):
            self.close(ResourceLimitExceeded(f"nothing was sent in {idle.threshold:g} s: remote idle timeout exceeded"))
        elif idle.is_frame_due(now):
            self.frames.send_raw(EMPTY_FRAME)
            idle.sent_at = now

    # -- end of the connection ----------------------------------------------------------------------------------

    def _refuse(self, error: AmqpError | Amqp10Error) -> None:
        """End the link, the session or the connection for a fault of the peer or a refusal, by the error's scope."""
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
        if not self._is_end_reported:
            self._is_end_reported = True
            self._owner.on_closed(error)

    def _finish(self, error: FlintError | None) -> None:
        self.layer = Layer.DONE
        self._is_waiting = False
        # The transport has to visit this output to end the connection, even if there are no bytes to send.
        self.output.touch()
        self._end(error)


def _has_response(performative: SaslPerformative) -> bool:
    """Return whether the frame has a response of the client; after it, the mechanism may ask for another one."""
    if isinstance(performative, SaslInit):
        return bool(performative.initial_response)
    return isinstance(performative, SaslResponse)
