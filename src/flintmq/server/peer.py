"""The peer: one socket, whose bytes go between its transport and its connection's engine, and its timers.

It has the methods of `asyncio.Protocol` and not the class: event loops call them by name, and a compiled class has no
interpreted base.
"""

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from flintmq.base.addresses import is_loopback
from flintmq.base.errors import ConnectionLost, FlintError, InternalError, ResourceError
from flintmq.base.limits import (
    CLOSE_WAIT_SECONDS,
    HANDSHAKE_SECONDS,
    OUTPUT_LOW_WATER_BYTES,
)
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp10.connection import ServerConnection as ServerConnection10
from flintmq.gateway.login import OPEN, Security
from flintmq.protocol.output import Output
from flintmq.protocol.sniff import TLS_HEADER, sniff
from flintmq.protocol.sniff import Protocol as Spoken
from flintmq.server import logs
from flintmq.server.back_pressure import (
    ALARM,
    BEFORE_CLOSE,
    DELEGATED,
    NOT_TAKEN_IN,
    OUTPUT,
    REASSEMBLY,
    TICK,
    UNAUTHENTICATED,
    WORK,
    ReadGate,
)
from flintmq.server.certificates import Certificate
from flintmq.server.relay.transport import Receiver, RelayedTransport
from flintmq.server.tls import TlsTransport
from flintmq.server.unauthenticated import HandshakeReads

if TYPE_CHECKING:
    from flintmq.server.connections import Connections

# A connection of either protocol. Both have the same methods for a socket.
Connection = ServerConnection | ServerConnection10

log = logs.get_logger()
# The bytes that a refused client may still send. A client that sends more is disconnected.
_UNHEARD_MAX_BYTES: Final = 1024 * 1024

# A connection is shown in the state "flow" for so long after it waited for credit (RabbitMQ).
_FLOW_SECONDS: Final = 5.0


@final
class Peer(Receiver):
    """One socket and its connection. `begins_with_tls`: the socket belongs to a listener for TLS."""

    def __init__(self, connections: "Connections", begins_with_tls: bool = False) -> None:
        self.output = Output(connections.outbox)
        # Decides whether the socket is read.
        self.gate = ReadGate()
        # Whether the transport has more output than it should.
        self.is_full = False
        # The peer's address and, once the connection is open, ours: host:port, and [host]:port for IPv6.
        self.name = ""
        self.local = ""
        self.connected_ms = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self._connections = connections
        self._schedule = connections.schedule
        self._intake = connections.intake
        self._dispatch = connections.dispatch
        self._loop = connections.loop
        self._transport: asyncio.Transport | None = None
        self._address = ""
        # The first bytes, while they may belong to several protocols.
        self._first = b""
        self._connection: Connection | None = None
        self._begins_with_tls = begins_with_tls
        self._tls: TlsTransport | None = None
        # If an I/O worker owns the socket: its transport, whether the worker does TLS, and the client's certificate.
        self._relayed: RelayedTransport | None = None
        self._is_secured = False
        self._certificate: Certificate = None
        # Waits for the answer to a fetch by the client's node.
        self._answered: Callable[[int, int], None] | None = None
        self._handshake_reads = HandshakeReads()
        # The bytes that waited to be sent when a timer ran last.
        self._unsent_bytes = 0
        # How many bytes the engine was given since the last tick, and whether it was given any.
        self.tick_bytes: i64 = 0
        self._is_read_from = False
        # Whether it published something since the last tick that consumers may have waited for.
        self.is_awaited = False
        self._timer: asyncio.TimerHandle | None = None
        self._hangup: asyncio.TimerHandle | None = None
        # Whether our half of the stream is shut: input is discarded from then on, and its bytes are counted.
        self._has_said_all = False
        self._unheard_bytes: i64 = 0
        self._was_open = False
        # Whether the log has the reason why the connection ends.
        self._is_logged = False
        # When the peer had to wait for credit last (the loop's time).
        self.out_of_credit_at = float("-inf")

    @property
    def has_spoken(self) -> bool:
        """Whether the protocol is known."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None or self._is_secured

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's, and not the base class.
        stream = cast(asyncio.Transport, transport)
        if self._connections.is_full:
            log.warning(
                "connection refused: no more file descriptors", peer=_printable(stream.get_extra_info("peername"))
            )
            stream.abort()
            return
        self._transport = stream
        self.gate.attach(stream)
        if self._begins_with_tls:
            self._begin_tls(stream)
        stream.set_write_buffer_limits(high=OUTPUT_LOW_WATER_BYTES, low=OUTPUT_LOW_WATER_BYTES // 4)
        address = stream.get_extra_info("peername")
        self.name = _printable(address)
        self.connected_ms = self._schedule.clock_ms()
        self._address = str(address[0]) if isinstance(address, tuple) and address else ""
        self._connections.add(self)
        self._hangup = self._loop.call_later(HANDSHAKE_SECONDS, self._handshake_timed_out)
        log.debug("connection accepted", peer=self.name)

    # uvloop reads into this buffer, of the size that the intake allows. asyncio's own loop knows buffered protocols by
    # their class only, and calls `data_received`.

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._intake.buffer()

    def buffer_updated(self, size: int) -> None:
        self.data_received(self._intake.received(size))

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._has_said_all:
            self._unheard_bytes += len(data)
            if self._unheard_bytes > _UNHEARD_MAX_BYTES:
                self.abort()
            return
        if not self._was_open and self._handshake_reads.are_too_many(len(data)):
            self._rest()
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ConnectionLost as error:
                self.refused(error)
                return
            if not data:
                return
        if self._connection is None:
            self._find_protocol(self._first + data)
        else:
            self._take(data)

    def refused(self, error: ConnectionLost) -> None:
        """Hang up, because the client has violated TLS."""
        log.warning("connection refused", peer=self.name, reason=str(error))
        self._is_logged = True
        if self._connection is not None:
            self._lose(error)
            self._connections.closed(self)
        if self._transport is not None:
            self._hang_up(self._transport)

    # -- an I/O worker ------------------------------------------------------------------------------------------

    def relayed_by(self, transport: RelayedTransport) -> None:
        """Begin a connection whose socket an I/O worker owns."""
        self._relayed = transport
        self.connection_made(cast(asyncio.Transport, transport))

    def read_max(self) -> i64:
        return self._intake.share

    def secured(self, certificate: bytes) -> None:
        """The worker does TLS for the client, which has presented this certificate."""
        self._is_secured = True
        self._certificate = json.loads(certificate)

    def _delegate(self, asked: bytes, size: int, answered: Callable[[int, int], None]) -> bool:
        """Have the other node answer a fetch of its client, if it can. For `delegate` of the connection."""
        relayed = self._relayed
        if relayed is None or self._tls is not None or self._has_said_all:
            return False
        # The answer comes behind everything that the client was sent.
        self._write_out(relayed)
        if not relayed.fetch(asked, size):
            return False
        self._answered = answered
        self.gate.add(DELEGATED)
        # The end of the tick looks how much the client has to read.
        self.output.touch()
        return True

    def fetched(self, following: i64, count: i64) -> None:
        answered = self._answered
        self._answered = None
        if answered is not None:
            self._schedule.now()
            answered(int(following), int(count))
            self.go_on(DELEGATED)
            self._schedule.request()

    # -- the protocol -------------------------------------------------------------------------------------------

    def _find_protocol(self, data: bytes) -> None:
        spoken = sniff(data)
        if spoken is None:
            self._first = data
            return
        self._first = b""
        transport = self._transport
        tls = self._connections.tls
        if transport is not None and not self.is_encrypted and tls is not None:
            if spoken is Spoken.TLS_HEADER:
                if len(data) < len(TLS_HEADER):
                    self._first = data
                    return
                # amqp-1.0 §5.2.1: the answer is the same header, whichever version was requested.
                transport.write(TLS_HEADER)
                if data.startswith(TLS_HEADER):
                    self._begin_tls(transport)
                    if len(data) > len(TLS_HEADER):
                        self.data_received(data[len(TLS_HEADER) :])
                else:
                    self._hang_up(transport)
                return
            if spoken is Spoken.TLS:
                self._begin_tls(transport)
                self.data_received(data)
                return
            if tls.is_required and not is_loopback(self._address):
                log.warning("connection refused", peer=self.name, reason='no TLS, and tls.verify is "required"')
                self._is_logged = True
                # The header that the server accepts instead (amqp-1.0 §2.2).
                transport.write(TLS_HEADER)
                self._hang_up(transport)
                return
        self._connection = connection = self._connections.begin(spoken, self.output, self.name, self._security())
        relayed = self._relayed
        if (
            relayed is not None
            and relayed.link.answers_fetches is not None
            and isinstance(connection, ServerConnection)
        ):
            connection.delegate = self._delegate
        self._take(data)

    def _begin_tls(self, transport: asyncio.Transport) -> None:
        assert self._connections.tls is not None
        self._tls = TlsTransport(transport, self._connections.tls.context)
        self._transport = self._tls

    def _security(self) -> Security:
        is_local = is_loopback(self._address)
        tls = self._connections.tls
        if tls is None or not self.is_encrypted:
            return OPEN if is_local else Security()
        certificate = self._certificate if self._tls is None else self._tls.certificate
        return Security(True, tls.identity(certificate), is_local)

    def _take(self, data: bytes) -> None:
        """Give bytes to the engine; with no bytes, it continues with those that it has left."""
        try:
            now = self._schedule.now()
            engine = self.connection.engine
            if not self._is_read_from:
                self._is_read_from = True
                engine.refresh(self._intake.work)
                read_from = self._connections.read_from
                if not read_from:
                    self._intake.began = self._connections.stopwatch()
                read_from.append(self)
            dispatch = self._dispatch
            dispatch.overrun = 0
            dispatch.awaited = 0
            engine.receive(data, now)
            if dispatch.awaited != 0:
                self.is_awaited = True
            if dispatch.overrun != 0:
                self._connections.credit.charge(self, dispatch.overrun)
            self.tick_bytes += len(data)
            if self.tick_bytes >= self._intake.share:
                self.gate.add(TICK)
            self._schedule.request()
        except Exception as error:
            log.exception("internal error", peer=self.name)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the connection after an internal error, which must not stop the node."""
        self.connection.fail(InternalError(f"{type(error).__name__} while reading; see the broker log"))
        self._schedule.request()

    def end_tick(self) -> None:
        """Continue reading after a tick, unless there is a reason not to."""
        self._is_read_from = False
        self.is_awaited = False
        self.tick_bytes = 0
        self.gate.remove(TICK if self.connection.engine.is_paused else TICK | WORK)

    def go_on(self, reasons: i64) -> None:
        """Remove these reasons for back-pressure. If none remains, let the engine continue, or read on.

        If the engine had frames left, the tick decides about reading afterwards.
        """
        gate = self.gate
        engine = self.connection.engine
        if engine.is_holding:
            gate.add(ALARM)
            reasons &= ~ALARM
        if gate.reasons & ~reasons & NOT_TAKEN_IN:
            gate.remove(reasons)
        elif engine.is_paused and self._transport is not None:
            gate.add(WORK)
            gate.remove(reasons & ~WORK)
            self._take(b"")
        else:
            gate.remove(reasons | WORK)

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            # The connection was refused when it was accepted.
            return
        if self._connection is not None:
            self._lose(ConnectionLost(str(exc)) if exc else None)
            if not self._is_logged:
                self._log_end(self._connection)
        elif not self._is_logged:
            reason = str(exc) if exc else "the peer closed the socket before it sent a protocol header"
            log.warning("connection ended", peer=self.name, user="", reason=reason)
        self._connections.remove(self)
        for timer in (self._timer, self._hangup):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self.gate.detach()
        self._schedule.request()

    def _lose(self, reason: ConnectionLost | None) -> None:
        """End the connection, even if its socket stays open for a while."""
        self._schedule.now()
        try:
            self.connection.engine.lost(reason)
        except Exception as error:
            log.exception("internal error", peer=self.name)
            self._fail(error)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self.gate.reasons & OUTPUT:
            self.output.backlog = self.unsent_bytes()
            self.go_on(OUTPUT)
        self._schedule.request()

    # -- output -------------------------------------------------------------------------------------------------

    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_slowed(self) -> bool:
        """Whether the peer had to wait for credit within the last seconds, because it outruns consumers."""
        return self._loop.time() - self.out_of_credit_at < _FLOW_SECONDS

    @property
    def assembled_bytes(self) -> int:
        """The bytes of incomplete messages and of an incomplete frame."""
        return 0 if self._connection is None else self._connection.engine.assembled_bytes

    @property
    def is_waiting_for_us(self) -> bool:
        """Whether the connection cannot go on because of an alarm or because the client does not read."""
        return bool(self.gate.reasons & OUTPUT) or self.connection.engine.is_holding

    def resume_reassembly(self) -> None:
        """Read on, because it is this connection's turn to complete its messages."""
        self.go_on(REASSEMBLY)

    def end_assembly(self) -> None:
        """Close the connection, because its client does not complete a message, and others need the memory."""
        self.connection.fail(
            ResourceError("a message was not completed in time, and incomplete messages take too much memory")
        )
        self._schedule.request()

    @property
    def taken_bytes(self) -> int:
        """The bytes that the kernel has taken to send; -1 if no bytes wait to be taken."""
        unsent = self.unsent_bytes()
        return self.sent_bytes - unsent if unsent > 0 else -1

    def disconnect(self, seconds: float) -> None:
        """Close the connection, because its client has read nothing for `seconds`, so that others get its messages."""
        self._lose(ConnectionLost(f"send timeout: the client has read nothing for {seconds:g} s"))
        self.abort()
        self._schedule.request()

    def flush(self, now: float) -> None:
        """Write the output that was gathered. `now` is the loop's time."""
        transport = self._transport
        if transport is None or self._has_said_all:
            self.output.take()
            return
        unsent: i64 = 0
        relayed = self._relayed
        if relayed is not None and self._tls is None:
            if relayed.is_closing():
                self.output.take()
                return
            self._write_out(relayed)
            unsent = relayed.get_write_buffer_size()
        else:
            data = self.output.take_together()
            chunks = [] if data is not None else self.output.take()
            if transport.is_closing():
                return
            if data:
                self.sent_bytes += len(data)
                transport.write(data)
            elif chunks:
                for chunk in chunks:
                    self.sent_bytes += len(chunk)
                transport.writelines(chunks)
            unsent = transport.get_write_buffer_size()
        self.output.backlog = unsent
        if unsent > 0:
            self._connections.send_timeout.watch(self)
        engine = self.connection.engine
        engine.sent(now)
        if engine.is_closed:
            self._connections.closed(self)
            self._hang_up(transport)
        elif engine.is_closing:
            self._connections.closed(self)
            if self._was_open or self._hangup is None:
                self._hang_up_in(CLOSE_WAIT_SECONDS)
            if self.gate.reasons & BEFORE_CLOSE:
                # The answer to our close comes after everything else that the peer has sent.
                self._loop.call_soon(self.go_on, BEFORE_CLOSE)
        elif engine.is_open and not self._was_open:
            self._opened()

    def _write_out(self, relayed: RelayedTransport) -> None:
        # Compiled calls, as there are many in a tick.
        data = self.output.take_together()
        if data:
            self.sent_bytes += len(data)
            relayed.write(data)
        elif data is None:
            for chunk in self.output.take():
                self.sent_bytes += len(chunk)
                relayed.write(bytes(chunk))

    def _hang_up(self, transport: asyncio.Transport) -> None:
        """Close the socket after everything is sent. A peer that was refused, and each peer with TLS, gets time to read
        the reason and to close its side (amqp-1.0 part 2 §2.2, part 5 §5.1).

        Closing a socket that has unread input resets the connection, and the peer may lose our last bytes.
        """
        if (self._was_open and not self.is_encrypted) or not transport.can_write_eof():
            transport.close()
            if self.unsent_bytes() > 0:
                self._connections.send_timeout.watch(self)
            return
        self._has_said_all = True
        if self._timer is not None:
            self._timer.cancel()
        transport.write_eof()
        self._unsent_bytes = self.unsent_bytes()
        # Without a login, the timer of the handshake still runs.
        self._hang_up_in(CLOSE_WAIT_SECONDS)

    def _opened(self) -> None:
        self._was_open = True
        if self._transport is not None:
            self.local = _printable(self._transport.get_extra_info("sockname"))
        self._connections.opened(self)
        if self._relayed is not None:
            self._relayed.widen()
        connection = self.connection
        if self._hangup is not None:
            self._hangup.cancel()
            self._hangup = None
        access = connection.access
        vhost = access.vhost.name if access else ""
        log.info("connection opened", peer=connection.peer, user=connection.user, vhost=vhost, tls=self.is_encrypted)
        self._arm()

    # -- time ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.connection.engine.next_timer()
        if due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        """A heartbeat timer is due. Check the peer in a later turn of the event loop, which reads first, by the time of
        now: after a standstill of the process (stopped, suspended, moved), timers are due before input is read.
        """
        self._timer = self._loop.call_later(self._schedule.read_first_seconds, self._judge, self._schedule.now())

    def _judge(self, now: float) -> None:
        """Let the engine handle its timers as of `now`: all input until then has been read."""
        engine = self.connection.engine
        self._schedule.now()
        unsent = self.unsent_bytes()
        reasons = self.gate.reasons
        makes_progress = reasons & OUTPUT == 0 or unsent < self._unsent_bytes
        self._unsent_bytes = unsent
        if reasons and makes_progress:
            # The peer seems silent only because it is not read.
            engine.mark_alive(now)
        try:
            engine.handle_timer(now)
        except Exception as error:
            log.exception("internal error", peer=self.name)
            self._fail(error)
        if engine.is_closed:
            self.abort()
        else:
            self.flush(now)
            self._arm()

    def _handshake_timed_out(self) -> None:
        if not self._has_said_all and (self._connection is None or not self._connection.engine.is_closing):
            log.warning("handshake timed out", peer=self.name, seconds=HANDSHAKE_SECONDS)
            self._is_logged = True
        self.abort()

    def _hang_up_in(self, seconds: float) -> None:
        if self._hangup is None:
            self._hangup = self._loop.call_later(seconds, self._waited_for_the_peer)

    def _waited_for_the_peer(self) -> None:
        """Close the socket, since the peer had time to close its side. It gets more while it reads our last bytes."""
        self._hangup = None
        unsent = self.unsent_bytes()
        if self._has_said_all and 0 < unsent < self._unsent_bytes:
            self._unsent_bytes = unsent
            self._hang_up_in(CLOSE_WAIT_SECONDS)
        else:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _rest(self) -> None:
        if self.gate.reasons & UNAUTHENTICATED == 0:
            self.gate.add(UNAUTHENTICATED)
            self._connections.throttle.rest(self)

    def end_rest(self) -> None:
        """Read on, because the rest of this unauthenticated peer is over."""
        self.gate.remove(UNAUTHENTICATED)

    def _log_end(self, connection: Connection) -> None:
        reason = connection.closed
        if reason is None or is_clean(reason):
            log.info("connection closed", peer=connection.peer, user=connection.user)
        else:
            log.warning("connection ended", peer=connection.peer, user=connection.user, reason=str(reason))


def is_clean(reason: FlintError) -> bool:
    """Return whether the client closed the connection without an error."""
    return getattr(reason, "code", 0) == 200


def _printable(address: object) -> str:
    """Return an address as host:port, or [host]:port for IPv6."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return str(address)
