"""AMQP over TCP: sockets on one side, engines on the other, and the tick between them. This file decides nothing."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast, final

import structlog

from flintmq.base.errors import AmqpError, ConnectionForced, ConnectionLost, FlintError, InternalError
from flintmq.base.limits import (
    CLOSE_WAIT_SECONDS,
    HANDSHAKE_SECONDS,
    JOURNAL_BACKLOG_HIGH_BYTES,
    JOURNAL_BACKLOG_LOW_BYTES,
    OUTPUT_CHOKE_BYTES,
    OUTPUT_LOW_WATER_BYTES,
    TICK_READ_BYTES,
)
from flintmq.broker.broker import Broker
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp091.service import Offer, Service
from flintmq.gateway.gateway import Gateway, Host, LoginPolicy
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.sasl.scram import Keys
from flintmq.protocol.sniff import Protocol as Spoken
from flintmq.protocol.sniff import sniff
from flintmq.server.alarms import CHECK_SECONDS
from flintmq.server.connection import Connection

log = structlog.get_logger()


class Logins(Protocol):
    """Who checks passwords: server/auth.py, which says what `check` does."""

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None: ...

    def refusal(self, user: str, address: str) -> str: ...

    def scram_keys(self, user: str, mechanism: str) -> Keys: ...

    def close(self) -> None: ...


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@final
class AmqpServer(Host):
    """All AMQP connections of a node, and its tick.

    What the sockets brought in one turn of the event loop is taken in first; then, once, queues are dispatched, the
    storage gets its batch, and every connection with output writes it. `clock_ms` tells Unix time.
    """

    def __init__(
        self,
        broker: Broker,
        offer: Offer,
        logins: Logins,
        random_bytes: Callable[[int], bytes],
        connection_max: int,
        clock_ms: Callable[[], int] = wall_clock_ms,
        policy: LoginPolicy | None = None,
    ) -> None:
        self.outbox = Outbox()
        self.gateway = Gateway(broker, self, random_bytes, policy)
        self.amqp091 = Service(self.gateway, offer)
        self._storage = broker.storage
        self._logins = logins
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._peers: dict[Output, Peer] = {}
        self._deserted = asyncio.Event()
        self._connection_max = connection_max
        self._is_tick_due = False
        # When the broker wants a tick, whatever comes.
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        # Who sent something in this tick, and who is not read from until the storage has caught up.
        self._heard: list[Peer] = []
        self._held_back: list[Peer] = []
        self._was_fenced = False
        self._check: Callable[[], str] | None = None
        self._looking: asyncio.TimerHandle | None = None

    # -- connections --------------------------------------------------------------------------------------------

    def protocol(self) -> "Peer":
        return Peer(self, self._loop)

    @property
    def is_full(self) -> bool:
        """Whether one more socket would take from what the storage needs."""
        return len(self._peers) >= self._connection_max

    def connection(self, spoken: Spoken, output: Output, name: str) -> Connection:
        """The connection of a peer that has begun to speak."""
        return ServerConnection(self.amqp091, output, name)

    def add(self, peer: "Peer") -> None:
        self._peers[peer.output] = peer
        self._deserted.clear()

    def remove(self, peer: "Peer") -> None:
        self._peers.pop(peer.output, None)
        if not self._peers:
            self._deserted.set()

    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        def answer_here(why: str) -> None:
            self._loop.call_soon_threadsafe(self._authenticated, peer, why, answer)

        self._logins.check(user, password, _address(peer), is_wanted, answer_here)

    def _authenticated(self, peer: str, why: str, answer: Callable[[str], None]) -> None:
        if why:
            self.login_refused(peer, why)
        answer(why)
        self.want_tick()

    def refusal(self, peer: str, user: str) -> str:
        return self._logins.refusal(user, _address(peer))

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        return self._logins.scram_keys(user, mechanism)

    def login_refused(self, peer: str, why: str) -> None:
        log.warning("login refused", peer=peer, reason=why)

    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        log.warning("channel closed", peer=peer, user=user, channel=channel, reason=error.reply_text)

    # -- the tick -----------------------------------------------------------------------------------------------

    def received(self, peer: "Peer", data: bytes) -> None:
        now = self.now()
        engine = peer.connection.engine
        if peer.is_new_in_tick:
            engine.refresh()
        engine.receive(data, now)
        peer.count(len(data))
        self.want_tick()

    def now(self) -> float:
        """The loop's time, and the broker's set: whatever calls into an engine begins with this."""
        self.gateway.broker.now_ms = self._clock_ms()
        return self._loop.time()

    def heard(self, peer: "Peer") -> None:
        """The first bytes of a peer in this tick came."""
        self._heard.append(peer)

    def want_tick(self) -> None:
        if not self._is_tick_due:
            self._is_tick_due = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._is_tick_due = False
        self.now()
        self._feed_starved()
        try:
            more = self.gateway.end_tick()
        except Exception:
            # A fault of ours in one queue or channel: the others go on.
            log.exception("internal error in a tick")
            more = self.gateway.broker.has_ready
        self._flush()
        heard = self._heard
        self._heard = []
        is_behind = self._storage.backlog_bytes > JOURNAL_BACKLOG_HIGH_BYTES and not self._storage.failure
        for peer in heard:
            if is_behind:
                # The disk is: who sent something is not read from until it has caught up.
                peer.hold()
                self._held_back.append(peer)
            elif peer.unsent_bytes() > OUTPUT_CHOKE_BYTES:
                peer.choke()
            elif peer.connection.engine.is_holding:
                # A publisher, and an alarm is on.
                peer.hold()
            else:
                peer.go_on_soon()
        if more or any(not self._peers[output].is_full for output in self.outbox.starved if output in self._peers):
            self.want_tick()

        self._wake_when_due()

    def _wake_when_due(self) -> None:
        """Queues have something to do at a time, even if nothing comes: messages expire, delays end."""
        due_ms = self.gateway.broker.next_due_ms
        if due_ms and (self._alarm is None or due_ms < self._alarm_ms):
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_ms = due_ms
            self._alarm = self._loop.call_later(max(due_ms - self._clock_ms(), 0) / 1000, self._is_due)

    def _is_due(self) -> None:
        self._alarm = None
        self.want_tick()

    def _flush(self) -> None:
        waiting = self.outbox.waiting
        self.outbox.waiting = []
        for output in waiting:
            peer = self._peers.get(output)
            if peer is None:
                output.take()
            else:
                peer.flush()

    def _feed_starved(self) -> None:
        """Consumers that were refused for want of room in their output get another chance where there is room now."""
        starved = self.outbox.starved
        if not starved:
            return
        self.outbox.starved = [output for output in starved if not self._has_room(output)]

    def _has_room(self, output: Output) -> bool:
        peer = self._peers.get(output)
        if peer is None:
            return True
        if not output.backlog_is(peer.unsent_bytes()):
            return False
        peer.connection.resume()
        return True

    def on_durable(self) -> None:
        """The storage made progress, or failed."""
        if self._storage.failure and not self._was_fenced:
            self._was_fenced = True
            log.error("storage fenced", reason=self._storage.failure)
        self.now()
        self.gateway.on_durable()
        if self._held_back and (self._storage.backlog_bytes < JOURNAL_BACKLOG_LOW_BYTES or self._storage.failure):
            held = self._held_back
            self._held_back = []
            for peer in held:
                peer.go_on()
        self._flush()
        self.want_tick()

    # -- alarms -------------------------------------------------------------------------------------------------

    def watch(self, check: Callable[[], str]) -> None:
        """From now on, publishers wait whenever `check` has a reason."""
        self._check = check
        self.look()

    def look(self) -> None:
        """Check now, and again from then on."""
        check = self._check
        if check is None:
            return
        if self._looking is not None:
            self._looking.cancel()
        self._looking = self._loop.call_later(CHECK_SECONDS, self.look)
        self._alarm_is(check())

    def _alarm_is(self, reason: str) -> None:
        was = self.gateway.alarm
        self.gateway.alarm = reason
        if bool(reason) == bool(was):
            return
        self.now()
        for peer in list(self._peers.values()):
            if not peer.has_spoken:
                continue
            connection = peer.connection
            if reason:
                connection.block()
                continue
            waited = connection.engine.is_holding
            connection.unblock()
            if waited:
                peer.go_on()
        self.want_tick()

    # -- the end ------------------------------------------------------------------------------------------------

    async def close(self, seconds: float) -> None:
        """Close every connection with 320, and wait that long at most for the peers to agree."""
        if self._looking is not None:
            self._looking.cancel()
        for peer in list(self._peers.values()):
            if peer.has_spoken:
                peer.connection.fail(ConnectionForced("broker forced connection closure with reason 'shutdown'"))
            else:
                peer.abort()
        self._flush()
        if self._peers:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._deserted.wait(), seconds)
        for peer in list(self._peers.values()):
            peer.abort()
        self._logins.close()


@final
class Peer(asyncio.Protocol):
    """One socket and its connection."""

    def __init__(self, server: AmqpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.output = Output(server.outbox)
        self.is_full = False
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._name = ""
        # What came while it could be one protocol or another.
        self._first = b""
        self._connection: Connection | None = None
        self._is_held = False
        self._is_choked = False
        # What waited to be sent when the timer was asked last.
        self._unsent_bytes = 0
        self._tick_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._hangup: asyncio.TimerHandle | None = None
        self._was_open = False

    @property
    def has_spoken(self) -> bool:
        """Whether enough came to know the protocol by."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

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
        stream.set_write_buffer_limits(high=OUTPUT_LOW_WATER_BYTES, low=OUTPUT_LOW_WATER_BYTES // 4)
        address = stream.get_extra_info("peername")
        self._name = _printable(address)
        self._server.add(self)
        self._hangup = self._loop.call_later(HANDSHAKE_SECONDS, self._handshake_timed_out)
        log.debug("connection accepted", peer=self._name)

    def data_received(self, data: bytes) -> None:
        if self._connection is None:
            data = self._first + data
            self._first = data
            spoken = sniff(data)
            if spoken is None:
                return
            self._first = b""
            self._connection = self._server.connection(spoken, self.output, self._name)
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
            self.data_received(b"")
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
            self._server.now()
            try:
                self._connection.engine.lost(ConnectionLost(str(exc)) if exc else None)
            except Exception as error:
                log.exception("internal error", peer=self._name)
                self._fail(error)
            self._log_end(self._connection)
        else:
            reason = str(exc) if exc else "the peer closed the socket before it said what it speaks"
            log.warning("connection ended", peer=self._name, user="", reason=reason)
        self._server.remove(self)
        for timer in (self._timer, self._hangup):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self._server.want_tick()

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

    def flush(self) -> None:
        chunks = self.output.take()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif chunks:
            transport.writelines(chunks)
        self.output.backlog = transport.get_write_buffer_size()
        engine = self.connection.engine
        now = self._loop.time()
        engine.sent(now)
        if engine.is_closed:
            transport.close()
        elif engine.is_closing:
            if self._was_open or self._hangup is None:
                self._hang_up_in(CLOSE_WAIT_SECONDS)
            if self._is_held:
                # What the peer says to it stands behind what it sent before.
                self._loop.call_soon(self.go_on)
        elif engine.is_open and not self._was_open:
            self._opened()

    def _opened(self) -> None:
        self._was_open = True
        connection = self.connection
        if self._hangup is not None:
            self._hangup.cancel()
            self._hangup = None
        access = connection.access
        vhost = access.vhost.name if access else ""
        log.info("connection opened", peer=connection.peer, user=connection.user, vhost=vhost)
        self._arm()

    # -- time ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.connection.engine.next_timer()
        if due is not None:
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        engine = self.connection.engine
        now = self._server.now()
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
        log.warning("handshake timed out", peer=self._name, seconds=HANDSHAKE_SECONDS)
        self.abort()

    def _hang_up_in(self, seconds: float) -> None:
        if self._hangup is None:
            self._hangup = self._loop.call_later(seconds, self.abort)

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

    def choke(self) -> None:
        """Stop reading until the peer has read most of what waits for it."""
        self._is_choked = True
        self._tick_bytes = 0
        self.hold()

    def read_on(self) -> None:
        self._tick_bytes = 0
        if self._is_held:
            self._is_held = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _log_end(self, connection: Connection) -> None:
        reason = connection.closed
        if reason is None or is_clean(reason):
            log.info("connection closed", peer=connection.peer, user=connection.user)
        else:
            log.warning("connection ended", peer=connection.peer, user=connection.user, reason=str(reason))


def is_clean(reason: FlintError) -> bool:
    """Whether a connection ended as its client meant it to."""
    return getattr(reason, "code", 0) == 200


def _address(peer: str) -> str:
    """Without the port."""
    return peer.rpartition(":")[0].strip("[]")


def _printable(address: object) -> str:
    """host:port, and [host]:port for IPv6."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return str(address)
