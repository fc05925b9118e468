"""An AMQP 0-9-1 connection without its socket, for either role: bytes in, calls to an owner out.

This file reads frames and keeps the connection's own state; each channel keeps its own. It knows no clock: time comes
in with the bytes, and `next_timer` says when it wants to be asked again.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final, final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import (
    AmqpError,
    ChannelFault,
    ClosedByPeer,
    CommandInvalid,
    ConnectionLost,
    FlintError,
    FrameFault,
    LocalProtocolError,
    NotAllowed,
    NotImplementedHere,
    UnexpectedFrame,
)
from flintmq.base.limits import (
    CHANNEL_MAX,
    FRAME_MAX_BYTES,
    FRAME_MIN_BYTES,
    FRAME_OVERHEAD_BYTES,
    HANDSHAKE_FRAME_MAX_BYTES,
    HEADER_RESERVE_DIVISOR,
    HEARTBEAT_SECONDS,
    LOGIN_FRAME_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    METHOD_WORK_UNITS,
    OUTPUT_BACK_PRESSURE_BYTES,
    TICK_WORK_UNITS,
)
from flintmq.base.work import WORK
from flintmq.protocol.amqp091 import channel as channels
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.reassembly import ReassemblyBudget
from flintmq.protocol.amqp091.states import CONNECTION, State
from flintmq.protocol.output import Output
from flintmq.protocol.reassembly import NodeReassembly
from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.frames import (
    CONTENT_HEADER_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    write_method,
)
from flintmq.wire.amqp091.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    decode_method,
    encode_method,
)
from flintmq.wire.amqp091.tables import Table, decode_table

# Pieces of one frame, above which they are put together: each costs 40 bytes more than it holds, and a peer decides how
# small they are.
_PIECES_MAX: Final = 32
# Bytes of a body frame that are passed on before the rest has come, to save a copy of the whole frame.
_PART_MIN_BYTES: Final = 16 * 1024


@dataclass(frozen=True)
class Tuning:
    """The limits that a side offers; after tuning, the agreed ones. Sizes in bytes, heartbeat in seconds."""

    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX_BYTES
    heartbeat: int = HEARTBEAT_SECONDS
    message_max: int = MESSAGE_MAX_BYTES

    @property
    def properties_max(self) -> int:
        """Bytes of properties that a server takes: with what it adds, they fit one content header."""
        whole = self.frame_max - FRAME_OVERHEAD_BYTES
        return whole - whole // HEADER_RESERVE_DIVISOR - CONTENT_HEADER_BYTES


@dataclass(frozen=True)
class Login:
    """The client's half of the handshake, to be sent as start-ok and open."""

    mechanism: str
    response: bytes
    virtual_host: str = "/"
    properties: Table = field(default_factory=dict)
    locale: str = "en_US"


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionOwner:
    """Receives the events of a connection as a whole. A server's owner answers logins and opens."""

    @abstractmethod
    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        """Server: start-ok came. Call `accept_login`, `refuse_login` or `challenge`, now or later."""

    def on_response(self, response: bytes) -> None:
        """Server: the answer to a `challenge` came, to be answered like a login."""
        raise LocalProtocolError("this side does not challenge")

    def on_challenge(self, challenge: bytes) -> None:
        """Client: the server asks for more. Call `respond`."""
        raise NotImplementedHere("this client knows no answer to connection.secure")

    @abstractmethod
    def on_open(self, virtual_host: str) -> None:
        """Server: open came. Call `accept_open`, or raise the AmqpError that refuses it. Client: open-ok came."""

    def on_secret(self, secret: bytes) -> None:
        """Server: the client has a new password or token. Call `accept_secret`, or close the connection."""
        raise LocalProtocolError("this side does not take secrets")

    def on_secret_accepted(self) -> None:
        """Client: the server knows the password that `update_secret` gave."""

    @abstractmethod
    def on_channel(self, channel: Channel) -> ChannelOwner:
        """Server: a channel was opened; its owner is returned."""

    def on_publish_held(self, channel: i64) -> None:
        """Server: a publish came while `holds_publishes`. Nothing behind it is heard until publishes are taken."""

    @abstractmethod
    def on_blocked(self, reason: str | None) -> None:
        """Client: the server stopped (a reason) or resumed (None) taking publishes."""

    @abstractmethod
    def on_closed(self, error: FlintError | None) -> None:
        """The connection takes no more; told once, after its channels were. What is in the output still goes out."""


@final
class Connection:
    """One end of a connection. Feed it bytes by `receive`; send what `output` gathers."""

    def __init__(
        self,
        role: Role,
        owner: ConnectionOwner,
        output: Output,
        tuning: Tuning,
        server_properties: Table | None = None,
        mechanisms: str = "PLAIN AMQPLAIN",
        login: Login | None = None,
        node_reassembly: NodeReassembly | None = None,
    ) -> None:
        self.role = role
        self.state = State.HEADER if role is Role.SERVER else State.START
        self.output = output
        self.tuning: Tuning = tuning
        # A server has them once the login is accepted: a table takes ten times its encoding, and strangers send it.
        self.peer_properties: Table = {}
        self._peer_table = b""
        # Whether the next publish, and what is behind it, has to wait; and whether one waits.
        self.holds_publishes: bool = False
        self.is_holding: bool = False
        # Units of work left for the peer until `refresh`; a client has no such limit.
        self._work: i64 = TICK_WORK_UNITS
        # The reading of the meter of work when this connection paid last.
        self._metered: i64 = 0
        self._method_work: i64 = METHOD_WORK_UNITS if role is Role.SERVER else 0
        self._owner = owner
        self._is_server = role is Role.SERVER
        self._properties: Table = server_properties or {}
        self._mechanisms = mechanisms
        self._login = login
        self._channels: dict[int, Channel] = {}
        self._last: Channel | None = None
        self._is_open = False
        self._reassembly = ReassemblyBudget(tuning.message_max, self._header_max(), node_reassembly)
        self._payload_max: i64 = HANDSHAKE_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
        # Bytes of an incomplete frame, and how many it takes before reading on makes sense.
        self._held: list[bytes] = []
        self._held_bytes: i64 = 0
        self._needed: i64 = 1
        # Nothing tells any more where a frame begins: what comes is searched for the end of the connection.
        self._is_adrift = False
        # Bytes that are still to come of a body frame whose beginning was passed on, and its channel.
        self._rest: i64 = 0
        self._rest_channel: i64 = 0
        # The frame in hand: where the next one starts, and whose fault an error would be.
        self._next: i64 = 0
        self._frame_channel: i64 = 0
        self._frame_method: i64 = 0
        self._heartbeat = 0.0
        self._received_at = 0.0
        self._sent_at = 0.0
        self._told_closed = False
        if role is Role.CLIENT:
            if login is None:
                raise LocalProtocolError("a client connection needs a login")
            output.writer.write(PROTOCOL_HEADER)
            output.touch()

    def _header_max(self) -> i64:
        """A server leaves room in a content header for what it adds to it."""
        if self._is_server:
            return self.tuning.properties_max + CONTENT_HEADER_BYTES
        return self.tuning.frame_max - FRAME_OVERHEAD_BYTES

    # -- bytes in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Take in bytes; calls the owner for what they say. Faults of the peer become closes, never exceptions."""
        self._received_at = now
        if self._is_adrift:
            self._seek_close_ok(data)
            return
        if self._held_bytes > 0:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed:
                if len(self._held) >= _PIECES_MAX:
                    self._held = [b"".join(self._held)]
                self._reassembly.hold_frame(self._held_bytes, self._needed)
                return
            data = b"".join(self._held)
            self._held = []
            self._held_bytes = 0
            self._reassembly.hold_frame(0, 0)
        pos: i64 = 0
        end: i64 = len(data)
        self._metered = WORK.spent
        while True:
            self._next = pos
            try:
                pos = self._read(data, pos, end)
                self._pay()
                break
            except AmqpError as error:
                self._pay()
                self._refuse(error)
                if self.state is State.CLOSED:
                    return
                if self._next <= pos:
                    # The frame itself cannot be trusted, so nothing behind it can.
                    self._is_adrift = True
                    self._seek_close_ok(data[pos:])
                    return
                pos = self._next
        if pos < end:
            self._held.append(data[pos:])
            self._held_bytes = end - pos
            self._reassembly.hold_frame(self._held_bytes, self._needed)

    def _seek_close_ok(self, data: bytes) -> None:
        """The peer's answer to our close, wherever it stands: read as frames, it could pass for a part of one."""
        data = b"".join([*self._held, data])
        if _CLOSE_OK_FRAME in data:
            self._held = []
            self._finish(None)
        else:
            self._held = [data[1 - len(_CLOSE_OK_FRAME) :]]

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    @property
    def is_closing(self) -> bool:
        return self.state is State.CLOSING

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def is_paused(self) -> bool:
        """Whole frames may wait in here because too much waits in the output, because enough was done before the last
        `refresh`, or because publishes were held until now: `receive(b"")` goes on with them.
        """
        return self._needed == 0 and self._held_bytes > 0 and not self.is_holding

    @property
    def assembled_bytes(self) -> int:
        """Bytes held of messages and of a frame that are received in part."""
        return int(self._reassembly.all_held)

    def _read(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read whole frames from `pos`; returns where the first incomplete one starts."""
        if self.state is State.HEADER:
            if end - pos < 8:
                self._needed = 8
                if not PROTOCOL_HEADER.startswith(data[pos:end]):
                    self._wrong_protocol()
                    return end
                return pos
            if data[pos : pos + 8] != PROTOCOL_HEADER:
                self._wrong_protocol()
                return end
            pos += 8
            self._next = pos
            self._start()
        elif self.state is State.START and data[pos : pos + 4] == b"AMQP":
            raise NotImplementedHere(f"the server answered with protocol header {data[pos : pos + 8].hex()}")
        if self._rest > 0:
            pos = self._read_rest(data, pos, end)
            if self._rest > 0:
                return pos
        while end - pos >= 7:
            kind: i64 = data[pos]
            number: i64 = i64(read_i16_be(data, pos + 1)) & 0xFFFF
            size: i64 = i64(read_i32_be(data, pos + 3)) & 0xFFFFFFFF
            self._frame_channel = number
            self._frame_method = 0
            if size > self._payload_max:
                self._frame_channel = 0
                raise FrameFault(
                    f"type {kind}, {size + FRAME_OVERHEAD_BYTES} bytes: a frame may have "
                    f"{self._payload_max + FRAME_OVERHEAD_BYTES}"
                )
            start: i64 = pos + 7
            stop: i64 = start + size
            if stop >= end:
                if kind == FRAME_BODY and end - start >= _PART_MIN_BYTES and self._takes_parts(number):
                    self._rest = size
                    self._rest_channel = number
                    return self._read_rest(data, start, end)
                self._needed = size + FRAME_OVERHEAD_BYTES
                return pos
            if data[stop] != FRAME_END:
                self._frame_channel = 0
                raise FrameFault(f"type {kind}: end octet {data[stop]:#04x}, 0xce was due")
            pos = stop + 1
            self._next = pos
            if number == 0:
                self._receive_on_zero(kind, data, start, stop)
                if self.state is State.CLOSED:
                    return end
                continue
            if not self._is_open:
                if self.state is State.CLOSING:
                    continue
                raise ChannelFault(f"a frame on channel {number} while {self.state.value}")
            channel = self._last
            if channel is None or channel.number != number:
                channel = self._channel(number)
            if kind == FRAME_METHOD:
                if size < 4:
                    raise FrameFault("a method frame needs 4 bytes at least")
                method: i64 = i64(read_i32_be(data, start)) & 0xFFFFFFFF
                self._frame_method = method
                if WORK.spent != self._metered:
                    self._pay()
                if self._work <= 0:
                    # A few bytes can ask for milliseconds: others want their turn.
                    self._needed = 0
                    return start - 7
                if self.holds_publishes and method == spec.BASIC_PUBLISH and channel.state == channels.OPEN:
                    self._needed = 0
                    self._hold(number)
                    return start - 7
                if method != spec.BASIC_PUBLISH and method != spec.BASIC_ACK:
                    self._work -= self._method_work
                if method == spec.CHANNEL_OPEN and self._is_server and channel.state == channels.UNUSED:
                    self._open_channel(channel)
                else:
                    channel.receive_method(method, data, start, stop)
                    if self.output.backlog > OUTPUT_BACK_PRESSURE_BYTES and self._is_server:
                        # A few bytes can ask for megabytes: the peer has to read some before it is heard again.
                        self._needed = 0
                        return pos
            elif kind == FRAME_HEADER:
                channel.receive_header(data, start, stop)
            elif kind == FRAME_BODY:
                channel.receive_body(data, start, stop)
            else:
                self._frame_channel = 0
                if kind == FRAME_HEARTBEAT:
                    raise FrameFault(f"a heartbeat on channel {number}, channel 0 was due")
                raise FrameFault(f"frame type {kind} is unknown")
        self._needed = 7
        return pos

    def _takes_parts(self, channel: i64) -> bool:
        """A client trusts its server to end a frame that it has begun."""
        return not self._is_server and self._is_open and channel > 0

    def _read_rest(self, data: bytes, pos: i64, end: i64) -> i64:
        """Hand on what came of a body's frame; its last octets only together with the one that ends it."""
        stop: i64 = pos + self._rest
        self._frame_channel = self._rest_channel
        self._frame_method = 0
        if stop >= end:
            part: i64 = min(end, stop - 1)
            if part - pos < _PART_MIN_BYTES:
                self._needed = min(self._rest + 1, _PART_MIN_BYTES + 1)
                return pos
            self._needed = 1
            self._rest -= part - pos
            self._next = part
        else:
            self._rest = 0
            if data[stop] != FRAME_END:
                self._frame_channel = 0
                raise FrameFault(f"type {FRAME_BODY}: end octet {data[stop]:#04x}, 0xce was due")
            part = stop
            self._next = stop + 1
        if self._is_open:
            self._channel(self._rest_channel).receive_body(data, pos, part)
        return self._next

    def _channel(self, number: i64) -> Channel:
        channel = self._channels.get(number)
        if channel is None:
            if number > self.tuning.channel_max:
                raise NotAllowed(f"channel {number} is above the negotiated channel_max ({self.tuning.channel_max})")
            channel = Channel(number, self.role, self.output, self._reassembly)
            self._channels[number] = channel
        self._last = channel
        return channel

    def spend(self, units: i64) -> None:
        """The owner did so much for the peer: when all of TICK_WORK_UNITS is spent, its next method waits."""
        self._work -= units

    def refresh(self) -> None:
        """A tick has begun. What was spent beyond the last one's share is paid out of this one's."""
        self._work = min(self._work + TICK_WORK_UNITS, TICK_WORK_UNITS)

    def _pay(self) -> None:
        """Charge the peer for the work that the meter shows since the last call."""
        spent: i64 = WORK.spent
        if self._is_server:
            self._work -= spent - self._metered
        self._metered = spent

    def _hold(self, channel: i64) -> None:
        if not self.is_holding:
            self.is_holding = True
            self._owner.on_publish_held(channel)

    def _open_channel(self, channel: Channel) -> None:
        owner = self._owner.on_channel(channel)
        channel.attach(owner)
        channel.send_payload(_CHANNEL_OPEN_OK)

    def _wrong_protocol(self) -> None:
        # amqp-0-9-1 §4.2.2: answer with the header of a supported protocol, then close the socket.
        self.output.writer.write(PROTOCOL_HEADER)
        self.output.touch()
        self._finish(FrameFault("the peer does not speak AMQP 0-9-1"))

    # -- channel 0 ----------------------------------------------------------------------------------------------

    def _receive_on_zero(self, kind: i64, data: bytes, start: i64, stop: i64) -> None:
        if kind == FRAME_HEARTBEAT:
            return
        if kind != FRAME_METHOD:
            if self.state is State.CLOSING:
                return
            if kind != FRAME_HEADER and kind != FRAME_BODY:
                raise FrameFault(f"frame type {kind} is unknown")
            raise UnexpectedFrame(f"frame type {kind} on channel 0")
        if stop - start < 4:
            raise FrameFault("a method frame needs 4 bytes at least")
        method_id: i64 = i64(read_i32_be(data, start)) & 0xFFFFFFFF
        self._frame_method = method_id
        target = CONNECTION[self.role].get(self.state, {}).get(method_id)
        if target is None:
            if self.state is State.CLOSING:
                return
            method = decode_method(data[start:stop])
            raise CommandInvalid(f"{method.name} on channel 0 while {self.state.value}")
        method = decode_method(data[start:stop])
        if method_id == spec.CONNECTION_START_OK:
            # Its first argument, which was decoded, so the length is one.
            self._peer_table = data[start + 4 : start + 8 + i64(read_i32_be(data, start + 4))]
        self._move(target, method)

    def _move(self, target: State, method: Method) -> None:
        if isinstance(method, ConnectionClose):
            self._send(ConnectionCloseOk())
            self._finish(ClosedByPeer(method.reply_code, method.reply_text, True))
        elif isinstance(method, ConnectionCloseOk):
            self._finish(None)
        elif isinstance(method, ConnectionStartOk):
            self.state = target
            self._payload_max = LOGIN_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
            self._owner.on_login(method.mechanism, method.response, method.client_properties)
        elif isinstance(method, ConnectionSecureOk):
            self.state = target
            self._owner.on_response(method.response)
        elif isinstance(method, ConnectionSecure):
            self._owner.on_challenge(method.challenge)
        elif isinstance(method, ConnectionTuneOk):
            excess = self._excess(method)
            if excess:
                # amqp-0-9-1 connection.tune-ok: hang up, and leave out the close. Who looks for the reason has our log.
                self._finish(NotAllowed(excess))
                return
            self._agree(method.channel_max, method.frame_max, method.heartbeat)
            self.state = target
        elif isinstance(method, ConnectionOpen):
            self.state = target
            self._owner.on_open(method.virtual_host)
        elif isinstance(method, ConnectionStart):
            self.state = target
            self._answer_start(method)
        elif isinstance(method, ConnectionTune):
            self.state = target
            self._answer_tune(method)
        elif isinstance(method, ConnectionOpenOk):
            self.state = target
            self._is_open = True
            self._owner.on_open("")
        elif isinstance(method, ConnectionUpdateSecret):
            self._owner.on_secret(method.new_secret)
        elif isinstance(method, ConnectionUpdateSecretOk):
            self._owner.on_secret_accepted()
        elif isinstance(method, ConnectionBlocked):
            self._owner.on_blocked(method.reason)
        else:
            assert isinstance(method, ConnectionUnblocked)
            self._owner.on_blocked(None)

    def _start(self) -> None:
        self.state = State.START_OK
        self._send(
            ConnectionStart(
                version_major=0,
                version_minor=9,
                server_properties=self._properties,
                mechanisms=self._mechanisms.encode(),
                locales=b"en_US",
            )
        )

    def _answer_start(self, start: ConnectionStart) -> None:
        login = self._login
        assert login is not None
        self.peer_properties = start.server_properties
        offered = start.mechanisms.decode(errors="replace").split()
        if login.mechanism not in offered:
            raise NotAllowed(f"the server offers {' '.join(offered) or 'no mechanism'}, not {login.mechanism}")
        self._send(
            ConnectionStartOk(
                client_properties=login.properties,
                mechanism=login.mechanism,
                response=login.response,
                locale=login.locale,
            )
        )

    def _answer_tune(self, offer: ConnectionTune) -> None:
        login = self._login
        assert login is not None
        mine = self.tuning
        if 0 < offer.frame_max < FRAME_MIN_BYTES:
            raise NotAllowed(f"the server's frame_max of {offer.frame_max} is below the minimum of {FRAME_MIN_BYTES}")
        self._set_tuning(
            _smaller(mine.channel_max, offer.channel_max),
            _smaller(mine.frame_max, offer.frame_max),
            # amqp-0-9-1 connection.tune-ok: the client decides, and zero is a client that wants none.
            0 if mine.heartbeat == 0 else _smaller(mine.heartbeat, offer.heartbeat),
        )
        agreed = self.tuning
        self._send(
            ConnectionTuneOk(channel_max=agreed.channel_max, frame_max=agreed.frame_max, heartbeat=agreed.heartbeat)
        )
        self._send(ConnectionOpen(virtual_host=login.virtual_host))

    def _excess(self, wanted: ConnectionTuneOk) -> str:
        """The error for a limit that the client wants higher than the offer; empty if there is none."""
        offer = self.tuning
        if wanted.channel_max > offer.channel_max:
            return f"negotiated channel_max = {wanted.channel_max} is higher than the maximum of {offer.channel_max}"
        if wanted.frame_max > offer.frame_max:
            return f"negotiated frame_max = {wanted.frame_max} is higher than the maximum of {offer.frame_max}"
        return ""

    def _agree(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        offer = self.tuning
        if frame_max != 0 and frame_max < FRAME_MIN_BYTES:
            raise NotAllowed(f"negotiated frame_max = {frame_max} is lower than the minimum of {FRAME_MIN_BYTES}")
        self._set_tuning(channel_max or offer.channel_max, frame_max or offer.frame_max, heartbeat)

    def _set_tuning(self, channel_max: int, frame_max: int, heartbeat: int) -> None:
        self.tuning = Tuning(channel_max, frame_max, heartbeat, self.tuning.message_max)
        self.output.frame_max = frame_max
        self._payload_max = frame_max - FRAME_OVERHEAD_BYTES
        self._heartbeat = float(heartbeat)

    # -- what the owner says ------------------------------------------------------------------------------------

    def accept_login(self) -> None:
        if self.state is not State.LOGIN:
            return
        self.state = State.TUNE_OK
        self._payload_max = HANDSHAKE_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
        self.peer_properties = self._take_peer_table()
        offer = self.tuning
        self._send(ConnectionTune(channel_max=offer.channel_max, frame_max=offer.frame_max, heartbeat=offer.heartbeat))

    def challenge(self, data: bytes) -> None:
        """Server: a login takes one more response of the client."""
        if self.state is State.LOGIN:
            self.state = State.SECURE_OK
            self._send(ConnectionSecure(challenge=data))

    def respond(self, response: bytes) -> None:
        """Client: the answer to a challenge."""
        if self.state is State.TUNE:
            self._send(ConnectionSecureOk(response=response))

    def refuse_login(self, error: AmqpError) -> None:
        """Clients that declare `authentication_failure_close` are told; the specification just hangs up."""
        if self.state is not State.LOGIN:
            return
        # Not kept: decoded, what a stranger says takes ten times its bytes, until cycles are collected.
        capabilities = self._take_peer_table().get("capabilities")
        if isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True:
            self._frame_method = spec.CONNECTION_START_OK
            self._close_with(error)
        else:
            self._finish(error)

    def _take_peer_table(self) -> Table:
        table = decode_table(self._peer_table, 0)[0]
        self._peer_table = b""
        return table

    def accept_open(self, takes_overhang: bool = False) -> None:
        """Server: the client may use the virtual host. `takes_overhang`: a frame's payload alone may have as many bytes
        as was agreed for all of the frame, which many clients take frame-max to mean.
        """
        if self.state is not State.OPENING:
            return
        if takes_overhang:
            self._payload_max = self.tuning.frame_max
        self.state = State.OPEN
        self._is_open = True
        self._send(ConnectionOpenOk())

    def accept_secret(self) -> None:
        if self.state is State.OPEN:
            self._send(ConnectionUpdateSecretOk())

    def update_secret(self, secret: bytes, reason: str) -> None:
        """Client: tell the server the password to know us by from now on."""
        if self.state is not State.OPEN:
            raise LocalProtocolError(f"the connection is {self.state.value}")
        self._send(ConnectionUpdateSecret(new_secret=secret, reason=reason))

    def open_channel(self, owner: ChannelOwner) -> Channel:
        """Client: ask for a channel under the lowest free number; it may be used before open-ok comes."""
        if not self._is_open:
            raise LocalProtocolError(f"the connection is {self.state.value}")
        number = 1
        while number in self._channels and self._channels[number].state != channels.UNUSED:
            number += 1
        if number > self.tuning.channel_max:
            raise LocalProtocolError(f"all {self.tuning.channel_max} channels are in use; close one")
        channel = self._channel(number)
        channel.open(owner)
        return channel

    def close(self, code: int = 200, text: str = "", error: FlintError | None = None, method_id: int = 0) -> None:
        """Send connection.close; all channels end now. Harmless when the connection is closing already."""
        if self.state in (State.CLOSING, State.CLOSED):
            return
        if self.state in (State.HEADER, State.START):
            self._finish(error)
            return
        self._send(
            ConnectionClose(
                reply_code=code,
                reply_text=text,
                class_id=method_id >> 16,
                method_id=method_id & 0xFFFF,
            )
        )
        self._end(error)
        self.state = State.CLOSING

    def lost(self, error: FlintError | None) -> None:
        """The transport is gone."""
        self._finish(error or ConnectionLost("the peer closed the socket"))

    def take_publishes(self) -> None:
        """Server: publishes need not wait any more; `receive(b"")` goes on with one that did."""
        self.holds_publishes = False
        self.is_holding = False

    def blocked(self, reason: str | None) -> None:
        """Server: tell the client that publishes are not taken for now, or again."""
        self._send(ConnectionUnblocked() if reason is None else ConnectionBlocked(reason=reason))

    def mark_alive(self, now: float) -> None:
        """The peer is taken for alive, although nothing it sends is read at present."""
        self._received_at = now

    # -- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """When `handle_timer` wants to be called, in the clock of `receive`; None while there is no heartbeat."""
        if self._heartbeat <= 0.0 or self.state is State.CLOSED:
            return None
        return min(self._sent_at + self._heartbeat / 2, self._received_at + 2 * self._heartbeat)

    def handle_timer(self, now: float) -> None:
        """Send a heartbeat when nothing was sent for half an interval; give up after two intervals of silence."""
        if self._heartbeat <= 0.0 or self.state is State.CLOSED:
            return
        if now >= self._received_at + 2 * self._heartbeat:
            self._finish(ConnectionLost(f"missed heartbeats: nothing came in {2 * self._heartbeat:g} s"))
        elif now >= self._sent_at + self._heartbeat / 2:
            self.output.writer.write(HEARTBEAT_FRAME)
            self.output.touch()
            self._sent_at = now

    def sent(self, now: float) -> None:
        """The transport wrote something: no heartbeat is due for a while."""
        self._sent_at = now

    # -- ends ---------------------------------------------------------------------------------------------------

    def _refuse(self, error: AmqpError) -> None:
        """A fault of the peer, turned into the close its type asks for."""
        if self.state is State.CLOSING:
            return
        channel = self._channels.get(self._frame_channel)
        if channel is not None and (self._frame_method == 0 or isinstance(error, UnexpectedFrame)):
            # Found at a frame of content, or for want of one: it is the method before it that fails.
            self._frame_method = channel.content_method()
        if error.closes_connection or channel is None or channel.state not in (channels.OPEN, channels.OPENING):
            self._close_with(error)
        else:
            channel.close(error.code, error.reply_text, int(self._frame_method), error)

    def _close_with(self, error: AmqpError) -> None:
        self.close(error.code, error.reply_text, error, int(self._frame_method))

    def _send(self, method: Method) -> None:
        write_method(self.output.writer, 0, encode_method(method))
        self.output.touch()

    def _end(self, error: FlintError | None) -> None:
        self._is_open = False
        self._reassembly.hold_frame(0, 0)
        self.take_publishes()
        for channel in list(self._channels.values()):
            channel.abandon(error)
        if not self._told_closed:
            self._told_closed = True
            self._owner.on_closed(error)

    def _finish(self, error: FlintError | None) -> None:
        self.state = State.CLOSED
        self._peer_table = b""
        # The transport has to hang up, even where there is nothing more to say.
        self.output.touch()
        self._end(error)


_CHANNEL_OPEN_OK = bytes.fromhex("0014000b00000000")
_CLOSE_OK_FRAME = bytes.fromhex("010000 00000004 000a0033 ce")


def _smaller(mine: int, offered: int) -> int:
    """Zero means no limit (amqp-0-9-1 connection.tune)."""
    if mine == 0 or offered == 0:
        return mine or offered
    return min(mine, offered)
