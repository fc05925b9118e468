"""One socket: bytes between its transport and its connection's engine, timers, and when it is read from."""

import asyncio
from typing import TYPE_CHECKING, Final, cast, final

from flintmq.base.addresses import is_loopback
from flintmq.base.errors import ConnectionLost, FlintError, InternalError, ResourceError
from flintmq.base.limits import (
    CLOSE_WAIT_SECONDS,
    HANDSHAKE_SECONDS,
    OUTPUT_LOW_WATER_BYTES,
    READ_FIRST_SECONDS,
    TICK_READ_BYTES,
)
from flintmq.gateway.login import OPEN, Security
from flintmq.protocol.output import Output
from flintmq.protocol.sniff import TLS_HEADER, sniff
from flintmq.protocol.sniff import Protocol as Spoken
from flintmq.server import logs
from flintmq.server.connection import Connection
from flintmq.server.tls import TlsTransport
from flintmq.server.trickling import Reads

if TYPE_CHECKING:
    from flintmq.server.amqp import AmqpServer

log = logs.get_logger()
# What somebody who was not let in may still send; more is no slip of a client but a flood.
_UNHEARD_MAX_BYTES: Final = 1024 * 1024


@final
class Peer(asyncio.Protocol):
    """One socket and its connection."""

    def __init__(self, server: "AmqpServer", loop: asyncio.AbstractEventLoop, begins_with_tls: bool = False) -> None:
        self.output = Output(server.outbox)
        self.is_full = False
        # The other end of `name`, once the connection is open: host:port, and [host]:port for IPv6.
        self.local = ""
        self.connected_ms = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._name = ""
        self._address = ""
        # What came while it could be one protocol or another.
        self._first = b""
        self._connection: Connection | None = None
        self._begins_with_tls = begins_with_tls
        self._tls: TlsTransport | None = None
        self._is_held = False
        self._is_choked = False
        self._reads = Reads()
        self._is_resting = False
        # What waited to be sent when the timer was asked last.
        self._unsent_bytes = 0
        self._tick_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._hangup: asyncio.TimerHandle | None = None
        # All was said, and our half of the stream is shut: what still comes is not looked at.
        self._has_said_all = False
        self._unheard_bytes = 0
        self._was_open = False
        # Whether the log says why it ends.
        self._is_told = False

    @property
    def has_spoken(self) -> bool:
        """Whether enough came to know the protocol by."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but their base class.
        stream = cast(asyncio.Transport, transport)
        if self._server.is_full:
            log.warning(
                "connection refused: no more file descriptors", peer=_printable(stream.get_extra_info("peername"))
            )
            stream.abort()
            return
        self._transport = stream
        if self._begins_with_tls:
            self._begin_tls(stream)
        stream.set_write_buffer_limits(high=OUTPUT_LOW_WATER_BYTES, low=OUTPUT_LOW_WATER_BYTES // 4)
        address = stream.get_extra_info("peername")
        self._name = _printable(address)
        self.connected_ms = self._server.clock_ms()
        self._address = str(address[0]) if isinstance(address, tuple) and address else ""
        self._server.add(self)
        self._hangup = self._loop.call_later(HANDSHAKE_SECONDS, self._handshake_timed_out)
        log.debug("connection accepted", peer=self._name)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._has_said_all:
            self._unheard_bytes += len(data)
            if self._unheard_bytes > _UNHEARD_MAX_BYTES:
                self.abort()
            return
        if not self._was_open and self._reads.trickle(len(data)):
            self._rest()
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ConnectionLost as error:
                log.warning("connection refused", peer=self._name, reason=str(error))
                self._is_told = True
                if self._connection is not None:
                    self._lose(error)
                    self._server.closed(self)
                self._hang_up(self._tls)
                return
            if not data:
                return
        if self._connection is None:
            self._find_protocol(self._first + data)
        else:
            self._take(data)

    def _find_protocol(self, data: bytes) -> None:
        spoken = sniff(data)
        if spoken is None:
            self._first = data
            return
        self._first = b""
        transport = self._transport
        if transport is not None and self._tls is None and self._server.tls is not None:
            if spoken is Spoken.TLS_HEADER:
                if len(data) < len(TLS_HEADER):
                    self._first = data
                    return
                # amqp-1.0 §5.2.1: the same header back, whichever version was asked for.
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
            if self._server.tls.is_required and not is_loopback(self._address):
                log.warning("connection refused", peer=self._name, reason='no TLS, and tls.verify is "required"')
                self._is_told = True
                # What would be taken instead (amqp-1.0 §2.2).
                transport.write(TLS_HEADER)
                self._hang_up(transport)
                return
        self._connection = self._server.connection(spoken, self.output, self._name, self._security())
        self._take(data)

    def _begin_tls(self, transport: asyncio.Transport) -> None:
        assert self._server.tls is not None
        self._tls = TlsTransport(transport, self._server.tls.context)
        self._transport = self._tls

    def _security(self) -> Security:
        is_local = is_loopback(self._address)
        if self._tls is None or self._server.tls is None:
            return OPEN if is_local else Security()
        return Security(True, self._server.tls.identity(self._tls.certificate), is_local)

    def _take(self, data: bytes) -> None:
        try:
            self._server.received(self, data)
        except Exception as error:
            log.exception("internal error", peer=self._name)
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """A fault of ours must cost one connection, not the node."""
        self.connection.fail(InternalError(f"{type(error).__name__} while reading; see the broker log"))
        self._server.want_tick()

    def go_on(self) -> None:
        """Take in what the engine left, which could not be taken before, and let the tick decide; else read on."""
        if self.connection.engine.is_holding:
            return
        if self._transport is not None and self.connection.engine.is_paused:
            self._tick_bytes = 0
            self._take(b"")
        else:
            self.read_on()

    def go_on_soon(self) -> None:
        """The same, behind the other connections."""
        if self.connection.engine.is_paused:
            # What came meanwhile would only be gathered.
            self.hold()
            self._loop.call_soon(self.go_on)
        else:
            self.read_on()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            # It was refused.
            return
        if self._connection is not None:
            self._lose(ConnectionLost(str(exc)) if exc else None)
            if not self._is_told:
                self._log_end(self._connection)
        elif not self._is_told:
            reason = str(exc) if exc else "the peer closed the socket before it said what it speaks"
            log.warning("connection ended", peer=self._name, user="", reason=reason)
        self._server.remove(self)
        for timer in (self._timer, self._hangup):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self._server.want_tick()

    def _lose(self, reason: ConnectionLost | None) -> None:
        """The connection is over, whatever becomes of its socket."""
        self._server.now()
        try:
            self.connection.engine.lost(reason)
        except Exception as error:
            log.exception("internal error", peer=self._name)
            self._fail(error)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self._is_choked:
            self._is_choked = False
            self.output.backlog = self.unsent_bytes()
            self.go_on()
        self._server.want_tick()

    # -- output -------------------------------------------------------------------------------------------------

    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def assembled_bytes(self) -> int:
        """What is held of messages that have begun to come and have not ended."""
        return 0 if self._connection is None else self._connection.engine.assembled_bytes

    @property
    def is_waiting_for_us(self) -> bool:
        """Whether what the peer sends next cannot be taken in, for an alarm or for what it has not read."""
        return self._is_choked or self.connection.engine.is_holding

    def end_assembly(self) -> None:
        """The client could have gone on with messages that it has begun, and others wait for their memory."""
        self.connection.fail(
            ResourceError("a message was begun and not ended in time, while all that were begun take too much memory")
        )
        self._server.want_tick()

    @property
    def taken_bytes(self) -> int:
        """How much the kernel has taken to send; -1 where nothing waits for that."""
        unsent = self.unsent_bytes()
        return self.sent_bytes - unsent if unsent > 0 else -1

    def cut_off(self, seconds: float) -> None:
        """The client reads nothing: what it holds is for others."""
        self._lose(ConnectionLost(f"send timeout: the client has read nothing for {seconds:g} s"))
        self.abort()
        self._server.want_tick()

    def flush(self) -> None:
        chunks = self.output.take()
        transport = self._transport
        if transport is None or transport.is_closing() or self._has_said_all:
            return
        if len(chunks) == 1:
            self.sent_bytes += len(chunks[0])
            transport.write(chunks[0])
        elif chunks:
            self.sent_bytes += sum(map(len, chunks))
            transport.writelines(chunks)
        self.output.backlog = transport.get_write_buffer_size()
        if self.output.backlog > 0:
            self._server.send_timeout.watch(self)
        engine = self.connection.engine
        now = self._loop.time()
        engine.sent(now)
        if engine.is_closed:
            self._server.closed(self)
            self._hang_up(transport)
        elif engine.is_closing:
            self._server.closed(self)
            if self._was_open or self._hangup is None:
                self._hang_up_in(CLOSE_WAIT_SECONDS)
            if self._is_held:
                # What the peer says to it stands behind what it sent before.
                self._loop.call_soon(self.go_on)
        elif engine.is_open and not self._was_open:
            self._opened()

    def _hang_up(self, transport: asyncio.Transport) -> None:
        """Nothing more is to be said. Who was never let in reads why, and ends its side (amqp-1.0 part 2 §2.2); so
        does every peer with TLS (part 5 §5.1).

        To close a socket with something unread in it resets the connection, and what we said last may be lost with it.
        """
        if (self._was_open and self._tls is None) or not transport.can_write_eof():
            transport.close()
            return
        self._has_said_all = True
        if self._timer is not None:
            self._timer.cancel()
        transport.write_eof()
        self._unsent_bytes = self.unsent_bytes()
        # There is a timer already for who was not let in.
        self._hang_up_in(CLOSE_WAIT_SECONDS)

    def _opened(self) -> None:
        self._was_open = True
        if self._transport is not None:
            self.local = _printable(self._transport.get_extra_info("sockname"))
        self._server.opened(self)
        connection = self.connection
        if self._hangup is not None:
            self._hangup.cancel()
            self._hangup = None
        access = connection.access
        vhost = access.vhost.name if access else ""
        log.info(
            "connection opened", peer=connection.peer, user=connection.user, vhost=vhost, tls=self._tls is not None
        )
        self._arm()

    # -- time ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.connection.engine.next_timer()
        if due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        """A process that stood still (stopped, suspended, moved) finds its timers due before it has read what came
        meanwhile. So the peer is judged in another turn of the loop, which reads first, and by the time it is now.
        """
        self._timer = self._loop.call_later(READ_FIRST_SECONDS, self._judge, self._server.now())

    def _judge(self, now: float) -> None:
        """Let the engine do what was due at that time: all that came until then has been read."""
        engine = self.connection.engine
        self._server.now()
        unsent = self.unsent_bytes()
        makes_progress = not self._is_choked or unsent < self._unsent_bytes
        self._unsent_bytes = unsent
        if self._is_held and makes_progress:
            # Silent because we do not read, not because the peer is gone.
            engine.heard(now)
        try:
            engine.handle_timer(now)
        except Exception as error:
            log.exception("internal error", peer=self._name)
            self._fail(error)
        if engine.is_closed:
            self.abort()
        else:
            self.flush()
            self._arm()

    def _handshake_timed_out(self) -> None:
        if not self._has_said_all and (self._connection is None or not self._connection.engine.is_closing):
            log.warning("handshake timed out", peer=self._name, seconds=HANDSHAKE_SECONDS)
            self._is_told = True
        self.abort()

    def _hang_up_in(self, seconds: float) -> None:
        if self._hangup is None:
            self._hangup = self._loop.call_later(seconds, self._waited_for_the_peer)

    def _waited_for_the_peer(self) -> None:
        """It has had its time; while it reads what we said, that is not cut off."""
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

    # -- flow ---------------------------------------------------------------------------------------------------

    @property
    def is_new_in_tick(self) -> bool:
        """Whether nothing came since the tick ran."""
        return self._tick_bytes == 0

    def count(self, size: int) -> None:
        """Bytes came in; once they are enough for a tick, the rest stays in the socket until it has run."""
        if self._tick_bytes == 0:
            self._server.heard(self)
        self._tick_bytes += size
        if self._tick_bytes >= TICK_READ_BYTES:
            self.hold()

    def hold(self) -> None:
        """Stop reading until `read_on`."""
        if not self._is_held and self._transport is not None and not self._transport.is_closing():
            self._is_held = True
            self._transport.pause_reading()

    def _rest(self) -> None:
        if not self._is_resting and self._transport is not None and not self._transport.is_closing():
            self._is_resting = True
            self._transport.pause_reading()
            self._server.tricklers.rest(self)

    def read_again(self) -> None:
        """It trickled, and has rested."""
        self._is_resting = False
        if not self._is_held:
            self._resume()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def choke(self) -> None:
        """Stop reading until the peer has read most of what waits for it."""
        self._is_choked = True
        self._tick_bytes = 0
        self.hold()

    def read_on(self) -> None:
        self._tick_bytes = 0
        if self._is_held:
            self._is_held = False
            if not self._is_resting:
                self._resume()

    def _log_end(self, connection: Connection) -> None:
        reason = connection.closed
        if reason is None or is_clean(reason):
            log.info("connection closed", peer=connection.peer, user=connection.user)
        else:
            log.warning("connection ended", peer=connection.peer, user=connection.user, reason=str(reason))


def is_clean(reason: FlintError) -> bool:
    """Whether a connection ended as its client meant it to."""
    return getattr(reason, "code", 0) == 200


def _printable(address: object) -> str:
    """host:port, and [host]:port for IPv6."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return str(address)
