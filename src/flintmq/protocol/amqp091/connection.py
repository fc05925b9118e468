"""An AMQP 0-9-1 connection without a socket, for either role: it receives bytes and calls its owner.

The connection reads frames and keeps its own state; each channel keeps its own. It reads no clock: the caller passes
the time with the bytes, and `next_timer` says when to call `handle_timer`.
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
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.reassembly import ReassemblyBudget
from flintmq.protocol.amqp091.states import CONNECTION, OPEN, OPENING, UNUSED, State
from flintmq.protocol.output import Output
from flintmq.protocol.reassembly import NodeReassembly
from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import methods
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
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
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
)
from flintmq.wire.amqp091.tables import Table, decode_table

# The number of pieces of one frame at which they are joined. Each piece costs 40 bytes beside its content, and the peer
# decides how small the pieces are.
_PIECES_MAX: Final = 32
# The units of work that are spent while methods are held: more than the peer ever gets back.
_HELD_UNITS: Final = 1 << 60
# A part of a body frame of at least this size is passed on before the rest arrives, which saves a copy of the frame.
_PART_MIN_BYTES: Final = 16 * 1024


@dataclass(frozen=True)
class Tuning:
    """The limits that this side offers; after tuning, those agreed upon. Sizes in bytes, heartbeat in seconds."""

    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX_BYTES
    heartbeat: int = HEARTBEAT_SECONDS
    message_max: int = MESSAGE_MAX_BYTES

    @property
    def properties_max(self) -> int:
        """The bytes of properties that a server accepts: with the headers that it adds, they fit one content header."""
        whole = self.frame_max - FRAME_OVERHEAD_BYTES
        return whole - whole // HEADER_RESERVE_DIVISOR - CONTENT_HEADER_BYTES


@dataclass(frozen=True)
class Login:
    """The client's part of the handshake, which it sends in start-ok and open."""

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
        """Server: handle start-ok. The owner calls `accept_login`, `refuse_login` or `challenge`, now or later."""

    def on_response(self, response: bytes) -> None:
        """Server: handle the client's answer to a `challenge`. The owner answers it as it answers `on_login`."""
        raise LocalProtocolError("this side does not challenge")

    def on_challenge(self, challenge: bytes) -> None:
        """Client: handle a challenge of the server. The owner calls `respond`."""
        raise NotImplementedHere("this client knows no answer to connection.secure")

    @abstractmethod
    def on_open(self, virtual_host: str) -> None:
        """Server: handle open; the owner calls `accept_open`, or raises an AmqpError to refuse.

        Client: handle open-ok.
        """

    def on_secret(self, secret: bytes) -> None:
        """Server: handle a new password or token. The owner calls `accept_secret`, or closes the connection."""
        raise LocalProtocolError("this side does not take secrets")

    def on_secret_accepted(self) -> None:
        """Client: the server accepted the password of `update_secret`."""

    @abstractmethod
    def on_channel(self, channel: Channel) -> ChannelOwner:
        """Server: the client opened a channel. Returns the owner of the channel."""

    def on_publish_held(self, channel: i64) -> None:
        """Server: a publish arrived while `holds_publishes` is set. It and all after it wait for `take_publishes`."""

    @abstractmethod
    def on_blocked(self, reason: str | None) -> None:
        """Client: the server stopped accepting publishes, for this reason; or, with None, it accepts them again."""

    @abstractmethod
    def on_closed(self, error: FlintError | None) -> None:
        """Handle the end of the connection. Called once, after the channels ended. The output is still to be sent."""


@final
class Connection:
    """One end of a connection. Its owner passes received bytes to `receive` and sends the bytes of `output`."""

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
        # A server decodes them only after the login: anybody can send a table, and decoded it takes ten times its size.
        self.peer_properties: Table = {}
        self._peer_table = b""
        # `holds_publishes`: the next publish, and all frames after it, have to wait. `is_holding`: one is waiting.
        self.holds_publishes: bool = False
        self.is_holding: bool = False
        # The units of work that the peer may still cause until `refresh`. A client has no such limit.
        self._work: i64 = TICK_WORK_UNITS
        # The reading of the work meter at the last `_pay`.
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
        # The bytes of an incomplete frame, and how many bytes are needed before it is worth reading again.
        self._held: list[bytes] = []
        self._held_bytes: i64 = 0
        self._needed: i64 = 1
        # After a framing error the beginnings of frames are unknown: input is only searched for the peer's close-ok.
        self._is_adrift = False
        # The bytes still missing from a body frame whose beginning was passed on, and its channel.
        self._rest: i64 = 0
        self._rest_channel: i64 = 0
        # The current frame: where the next one starts, and the channel and method to which an error belongs.
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
        """The largest content header to accept, in bytes. A server leaves room for the headers that it adds."""
        if self._is_server:
            return self.tuning.properties_max + CONTENT_HEADER_BYTES
        return self.tuning.frame_max - FRAME_OVERHEAD_BYTES

    # -- bytes in -----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """Read received bytes, and call the owner for their frames. `now` is in seconds.

        A fault of the peer closes the channel or the connection and never raises.
        """
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
                    # The end of a malformed frame is unknown, so what follows cannot be read as frames.
                    self._is_adrift = True
                    self._seek_close_ok(data[pos:])
                    return
                pos = self._next
        if pos < end:
            self._held.append(data[pos:])
            self._held_bytes = end - pos
            self._reassembly.hold_frame(self._held_bytes, self._needed)

    def _seek_close_ok(self, data: bytes) -> None:
        """Search the input for the peer's close-ok at any position, since the beginnings of frames are unknown."""
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
        """Whether complete frames may wait in the connection; `receive(b"")` continues with them.

        They wait because the output holds too much, because the work of the tick was used up before the last
        `refresh`, or because publishes were held until now.
        """
        return self._needed == 0 and self._held_bytes > 0 and not self.is_holding

    @property
    def assembled_bytes(self) -> int:
        """The bytes held of incomplete messages and of the incomplete frame."""
        return int(self._reassembly.all_held)

    def _read(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read complete frames from `pos` on, and return where the first incomplete one starts."""
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
                    # A few bytes can cause milliseconds of work, so the other connections get their turn first.
                    self._needed = 0
                    return start - 7
                if self.holds_publishes and method == methods.BASIC_PUBLISH and channel.state == OPEN:
                    self._needed = 0
                    self._hold(number)
                    return start - 7
                if method != methods.BASIC_PUBLISH and method != methods.BASIC_ACK:
                    self._work -= self._method_work
                if method == methods.CHANNEL_OPEN and self._is_server and channel.state == UNUSED:
                    self._open_channel(channel)
                else:
                    channel.receive_method(method, data, start, stop)
                    if self.output.backlog > OUTPUT_BACK_PRESSURE_BYTES and self._is_server:
                        # A few bytes can request megabytes, so the peer must read some before more is handled.
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
        """Return whether a part of a body frame may be passed on. Only a client does so: it trusts its server."""
        return not self._is_server and self._is_open and channel > 0

    def _read_rest(self, data: bytes, pos: i64, end: i64) -> i64:
        """Pass on the received part of a body frame; its last bytes only together with the end octet."""
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
        """Charge the peer for work of the owner. After TICK_WORK_UNITS in a tick, its next method waits."""
        self._work -= units

    def hold_methods(self) -> None:
        """Have the peer's next method wait until `take_methods`, because the last one is not finished."""
        self._work -= _HELD_UNITS

    def take_methods(self) -> None:
        """Stop holding methods. `receive(b"")` continues with one that waits."""
        # The ticks that have begun meanwhile give the peer no more work than one.
        self._work = min(self._work + _HELD_UNITS, TICK_WORK_UNITS)

    def refresh(self, units: i64 = TICK_WORK_UNITS) -> None:
        """Begin a tick with so many units of work. Units spent beyond the last tick's are taken from this tick's."""
        self._work = min(self._work + units, units)

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
        if method_id == methods.CONNECTION_START_OK:
            # The client properties are the first argument. The length is valid, since the method was decoded.
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
                # amqp-0-9-1 connection.tune-ok: end the connection without connection.close. The log has the reason.
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
            # amqp-0-9-1 connection.tune-ok: the client decides, and 0 turns heartbeats off.
            0 if mine.heartbeat == 0 else _smaller(mine.heartbeat, offer.heartbeat),
        )
        agreed = self.tuning
        self._send(
            ConnectionTuneOk(channel_max=agreed.channel_max, frame_max=agreed.frame_max, heartbeat=agreed.heartbeat)
        )
        self._send(ConnectionOpen(virtual_host=login.virtual_host))

    def _excess(self, wanted: ConnectionTuneOk) -> str:
        """Return the error text for a limit above the offered one; empty if all limits are within the offer."""
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

    # -- calls by the owner -------------------------------------------------------------------------------------

    def accept_login(self) -> None:
        """Server: accept the login, and send tune."""
        if self.state is not State.LOGIN:
            return
        self.state = State.TUNE_OK
        self._payload_max = HANDSHAKE_FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
        self.peer_properties = self._take_peer_table()
        offer = self.tuning
        self._send(ConnectionTune(channel_max=offer.channel_max, frame_max=offer.frame_max, heartbeat=offer.heartbeat))

    def challenge(self, data: bytes) -> None:
        """Server: send a challenge, since the login needs one more response of the client."""
        if self.state is State.LOGIN:
            self.state = State.SECURE_OK
            self._send(ConnectionSecure(challenge=data))

    def respond(self, response: bytes) -> None:
        """Client: send the answer to a challenge."""
        if self.state is State.TUNE:
            self._send(ConnectionSecureOk(response=response))

    def refuse_login(self, error: AmqpError) -> None:
        """Server: refuse the login, and end the connection.

        Clients with the capability `authentication_failure_close` get connection.close with the error. For others the
        connection ends without it, as the specification says.
        """
        if self.state is not State.LOGIN:
            return
        # The decoded table is not kept: before login anybody can send one, and decoded it takes ten times its size.
        capabilities = self._take_peer_table().get("capabilities")
        if isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True:
            self._frame_method = methods.CONNECTION_START_OK
            self._close_with(error)
        else:
            self._finish(error)

    def _take_peer_table(self) -> Table:
        table = decode_table(self._peer_table, 0)[0]
        self._peer_table = b""
        return table

    def accept_open(self, takes_overhang: bool = False) -> None:
        """Server: send open-ok, since the client may use the virtual host.

        With `takes_overhang` the payload of a frame may have frame-max bytes: many clients understand frame-max as the
        limit of the payload, not of the whole frame.
        """
        if self.state is not State.OPENING:
            return
        if takes_overhang:
            self._payload_max = self.tuning.frame_max
        self.state = State.OPEN
        self._is_open = True
        self._send(ConnectionOpenOk())

    def accept_secret(self) -> None:
        """Server: accept the secret of `on_secret`, and tell the client."""
        if self.state is State.OPEN:
            self._send(ConnectionUpdateSecretOk())

    def update_secret(self, secret: bytes, reason: str) -> None:
        """Client: send a new password or token for this connection. Raises LocalProtocolError if it is not open."""
        if self.state is not State.OPEN:
            raise LocalProtocolError(f"the connection is {self.state.value}")
        self._send(ConnectionUpdateSecret(new_secret=secret, reason=reason))

    def open_channel(self, owner: ChannelOwner) -> Channel:
        """Client: open a channel with the lowest free number. It can be used before open-ok arrives.

        Raises LocalProtocolError if the connection is not open, or all channels are in use.
        """
        if not self._is_open:
            raise LocalProtocolError(f"the connection is {self.state.value}")
        number = 1
        while number in self._channels and self._channels[number].state != UNUSED:
            number += 1
        if number > self.tuning.channel_max:
            raise LocalProtocolError(f"all {self.tuning.channel_max} channels are in use; close one")
        channel = self._channel(number)
        channel.open(owner)
        return channel

    def close(self, code: int = 200, text: str = "", error: FlintError | None = None, method_id: int = 0) -> None:
        """Send connection.close, and end all channels now. Does nothing if the connection is closing or closed.

        `method_id` is the method that failed, or 0.
        """
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
        """End the connection because the transport has ended."""
        self._finish(error or ConnectionLost("the peer closed the socket"))

    def take_publishes(self) -> None:
        """Server: stop holding publishes. `receive(b"")` continues with one that waits."""
        self.holds_publishes = False
        self.is_holding = False

    def blocked(self, reason: str | None) -> None:
        """Server: send connection.blocked with the reason; with None, connection.unblocked."""
        self._send(ConnectionUnblocked() if reason is None else ConnectionBlocked(reason=reason))

    def mark_alive(self, now: float) -> None:
        """Count the peer as alive at `now`, although its bytes are not read at present."""
        self._received_at = now

    # -- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Return when to call `handle_timer`, in seconds of the clock of `receive`; None without heartbeats."""
        if self._heartbeat <= 0.0 or self.state is State.CLOSED:
            return None
        return min(self._sent_at + self._heartbeat / 2, self._received_at + 2 * self._heartbeat)

    def handle_timer(self, now: float) -> None:
        """Send a heartbeat after half an interval without output; end the connection after two without input."""
        if self._heartbeat <= 0.0 or self.state is State.CLOSED:
            return
        if now >= self._received_at + 2 * self._heartbeat:
            self._finish(ConnectionLost(f"missed heartbeats: nothing came in {2 * self._heartbeat:g} s"))
        elif now >= self._sent_at + self._heartbeat / 2:
            self.output.writer.write(HEARTBEAT_FRAME)
            self.output.touch()
            self._sent_at = now

    def sent(self, now: float) -> None:
        """Note that the transport wrote bytes at `now`, which delays the next heartbeat."""
        self._sent_at = now

    # -- end of the connection ----------------------------------------------------------------------------------

    def _refuse(self, error: AmqpError) -> None:
        """Close the channel or the connection for a fault of the peer, as the type of the error requires."""
        if self.state is State.CLOSING:
            return
        channel = self._channels.get(self._frame_channel)
        if channel is not None and (self._frame_method == 0 or isinstance(error, UnexpectedFrame)):
            # The fault is in a content frame, or one is missing: the method before it is the one that fails.
            self._frame_method = channel.content_method()
        if error.closes_connection or channel is None or channel.state not in (OPEN, OPENING):
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
        # The transport has to visit this output to end the connection, even if there are no bytes to send.
        self.output.touch()
        self._end(error)


_CHANNEL_OPEN_OK = bytes.fromhex("0014000b00000000")
_CLOSE_OK_FRAME = bytes.fromhex("010000 00000004 000a0033 ce")


def _smaller(mine: int, offered: int) -> int:
    """Return the smaller of two limits, where 0 means no limit (amqp-0-9-1 connection.tune)."""
    if mine == 0 or offered == 0:
        return mine or offered
    return min(mine, offered)
