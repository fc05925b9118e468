"""AMQP over TCP: sockets on one side, engines on the other, and the tick between them. This file decides nothing."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast, final

from flintmq.base.errors import AmqpError, ConnectionForced, InternalError, StorageFenced
from flintmq.base.histogram import Histogram
from flintmq.base.limits import (
    JOURNAL_BACKLOG_HIGH_BYTES,
    JOURNAL_BACKLOG_LOW_BYTES,
    OUTPUT_CHOKE_BYTES,
    OUTPUT_HIGH_WATER_BYTES,
    READ_FIRST_SECONDS,
    SEND_TIMEOUT_SECONDS,
)
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.gateway.acts import Act
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp091.service import Offer, Service
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.amqp10.connection import ServerConnection as ServerConnection10
from flintmq.gateway.gateway import Gateway, Host, LoginPolicy
from flintmq.gateway.login import Security
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.sasl.scram import Keys
from flintmq.protocol.sniff import Protocol as Spoken
from flintmq.server import logs
from flintmq.server.alarms import CHECK_SECONDS
from flintmq.server.attempts import AMQP_091, AMQP_10, Attempts
from flintmq.server.audit import AuditLog
from flintmq.server.certificates import Tls
from flintmq.server.connection import Connection
from flintmq.server.peer import Peer
from flintmq.server.reassembly import RoundRobin
from flintmq.server.send_timeout import SendTimeout
from flintmq.server.trickling import Tricklers

# What a crowd brings is looked through by the garbage collector a little at a time: left to itself, it waits until
# there are 50,000 objects, and takes 20 ms for them.
_STEPS_PER_COLLECTION: Final = 64

# A timer that is so late was not held up by others' work.
_LATE_MS: Final = 1_000

log = logs.get_logger()


class Logins(Protocol):
    """Who checks passwords: server/auth.py, which says what `check` does."""

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None: ...

    def check_token(
        self, token: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None: ...

    def check_proof(
        self,
        user: str,
        proof: Callable[[], str],
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None: ...

    def failed(self, user: str, address: str) -> None: ...

    def refusal(self, user: str, address: str) -> str: ...

    def scram_keys(self, user: str, mechanism: str) -> Keys: ...

    def close(self) -> None: ...


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@final
class AmqpServer(Host):
    """All AMQP connections of a node, and its tick.

    What the sockets brought in one turn of the event loop is taken in first; then, once, queues are dispatched, the
    storage gets its batch, and every connection with output writes it. `clock_ms` tells Unix time. `tidy` is
    called now and then while many connect: it looks for what is garbage among new objects. A client has
    `send_timeout_seconds` to take something of what waits for it; 0 is for ever.
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
        tls: Tls | None = None,
        offer_10: amqp10.Offer | None = None,
        audit: AuditLog | None = None,
        tidy: Callable[[], object] = lambda: None,
        send_timeout_seconds: float = SEND_TIMEOUT_SECONDS,
    ) -> None:
        self.outbox = Outbox()
        self.gateway = Gateway(broker, self, random_bytes, policy)
        self.amqp091 = Service(self.gateway, offer)
        self.tls = tls
        self.amqp10 = amqp10.Service(self.gateway, offer_10 or amqp10.Offer("flintmq", {}, Tuning()))
        self._storage = broker.storage
        self._logins = logins
        self._audit = audit or AuditLog()
        self.clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._peers: dict[Output, Peer] = {}
        # Those of connections that are open, among any number of strangers.
        self._open: dict[Connection, Peer] = {}
        self.tick_seconds = Histogram()
        self.tricklers = Tricklers(self._loop)
        self.send_timeout = SendTimeout(self._loop, send_timeout_seconds)
        self.reassembly = RoundRobin(self._loop, self.gateway.assembling, self._open.values)
        # How often somebody came, or said what it speaks.
        self._steps = 0
        self._tidy = tidy
        self._deserted = asyncio.Event()
        self.attempts = Attempts()
        # The names of peers that speak AMQP 1.0.
        self._speakers_10: set[str] = set()
        # Set once nobody waits for the storage any more; nothing more is read from then on.
        self._drained: asyncio.Event | None = None
        self._connection_max = connection_max
        self._is_tick_due = False
        # Whether the broker's time is this tick's already.
        self._has_moment = False
        self._is_closed = False
        # When the broker wants a tick, whatever comes.
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        # Who sent something in this tick, and who is not read from until the storage has caught up.
        self._heard: list[Peer] = []
        self._held_back: list[Peer] = []
        self._was_fenced = False
        # How many the log has.
        self._partials_given_up = 0
        self._routes_given_up = 0
        self._check: Callable[[], str] | None = None
        self._looking: asyncio.TimerHandle | None = None
        # Who wants to be told when the changes of this tick are durable, and who waits for which batch.
        self._changed: list[asyncio.Future[None]] = []
        self._promised: list[tuple[int, asyncio.Future[None]]] = []

    # -- connections --------------------------------------------------------------------------------------------

    def protocol(self) -> Peer:
        return Peer(self, self._loop)

    def tls_protocol(self) -> Peer:
        """The same for a socket where TLS comes first."""
        return Peer(self, self._loop, begins_with_tls=True)

    @property
    def is_full(self) -> bool:
        """Whether one more socket would take from what the storage needs."""
        return len(self._peers) >= self._connection_max

    @property
    def connection_count(self) -> int:
        return len(self._peers)

    def connection(self, spoken: Spoken, output: Output, name: str, security: Security) -> Connection:
        """The connection of a peer that has begun to speak."""
        self._step()
        if spoken is Spoken.AMQP_10:
            self._speakers_10.add(name)
            return ServerConnection10(self.amqp10, output, name, security)
        return ServerConnection(self.amqp091, output, name, security)

    @property
    def sockets(self) -> list[Peer]:
        """Those of connections that are open."""
        return list(self._open.values())

    def socket_of(self, connection: object) -> Peer | None:
        """That of one that is open."""
        return self._open.get(cast(Connection, connection))

    def opened(self, peer: Peer) -> None:
        self._open[peer.connection] = peer

    def closed(self, peer: Peer) -> None:
        """Its connection is open no more, whatever its socket is still there for."""
        self._open.pop(peer.connection, None)

    def add(self, peer: Peer) -> None:
        self._peers[peer.output] = peer
        self._deserted.clear()
        self._step()

    def _step(self) -> None:
        self._steps += 1
        if self._steps % _STEPS_PER_COLLECTION == 0:
            self._tidy()

    def remove(self, peer: Peer) -> None:
        self._peers.pop(peer.output, None)
        if peer.has_spoken:
            self.closed(peer)
        self.reassembly.gone(peer)
        self._speakers_10.discard(peer.name)
        if not self._peers:
            self._deserted.set()

    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        def answer_here(why: str) -> None:
            self._loop.call_soon_threadsafe(self._authenticated, peer, why, answer)

        self._logins.check(user, password, _address(peer), is_wanted, answer_here)

    def _count(self, peer: str, succeeded: bool) -> None:
        self.attempts.count(AMQP_10 if peer in self._speakers_10 else AMQP_091, _address(peer), succeeded)

    def _authenticated(self, peer: str, why: str, answer: Callable[[str], None]) -> None:
        self._count(peer, not why)
        if why:
            _log_refusal(peer, why)
        answer(why)
        self.want_tick()

    def check_token(
        self, peer: str, token: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        def answer_here(why: str, bearer: Bearer | None) -> None:
            self._loop.call_soon_threadsafe(self._token_checked, peer, why, bearer, answer)

        self._logins.check_token(token, _address(peer), is_wanted, answer_here)

    def _token_checked(
        self, peer: str, why: str, bearer: Bearer | None, answer: Callable[[str, Bearer | None], None]
    ) -> None:
        self._count(peer, not why)
        if why:
            _log_refusal(peer, why)
        self.now()
        answer(why, bearer)
        self.want_tick()

    def check_proof(
        self,
        peer: str,
        user: str,
        proof: Callable[[], str],
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        def answer_here(why: str) -> None:
            self._loop.call_soon_threadsafe(self._authenticated, peer, why, answer)

        self._logins.check_proof(user, proof, _address(peer), is_wanted, answer_here)

    def refusal(self, peer: str, user: str) -> str:
        why = self._logins.refusal(user, _address(peer))
        if not why:
            self._count(peer, True)
        return why

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        return self._logins.scram_keys(user, mechanism)

    def login_refused(self, peer: str, user: str, why: str) -> None:
        self._count(peer, False)
        self._logins.failed(user, _address(peer))
        _log_refusal(peer, why)

    def internal_error(self, error: Exception) -> None:
        log.error("internal error", exc_info=error)

    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        log.warning("channel closed", peer=peer, user=user, channel=channel, reason=error.reply_text)

    def unsendable(self, user: str, vhost: str, queue: str, why: str) -> None:
        log.warning("message given up", user=user, vhost=vhost, queue=queue, reason=why)

    def administered(self, act: Act) -> None:
        self._audit.record(act)

    # -- the tick -----------------------------------------------------------------------------------------------

    def received(self, peer: Peer, data: bytes) -> None:
        now = self.now()
        engine = peer.connection.engine
        if peer.is_new_in_tick:
            engine.refresh()
        engine.receive(data, now)
        peer.count(len(data))
        self.want_tick()

    def now(self) -> float:
        """The loop's time, and the broker's set: whatever calls into an engine begins with this.

        The broker's time stands still from the first such call to the end of the tick: a message that lives no time at
        all would expire between its publish and the dispatch of the same tick.
        """
        if not self._has_moment:
            self._begin_moment()
            # A moment ends with a tick.
            self.want_tick()
        return self._loop.time()

    def _begin_moment(self) -> None:
        self._has_moment = True
        self.gateway.broker.now_ms = self.clock_ms()

    def heard(self, peer: Peer) -> None:
        """The first bytes of a peer in this tick came."""
        self._heard.append(peer)

    def want_tick(self) -> None:
        if not self._is_tick_due:
            self._is_tick_due = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        started = time.perf_counter()
        self._end_tick()
        self.tick_seconds.observe(time.perf_counter() - started)

    def _end_tick(self) -> None:
        self._is_tick_due = False
        if self._is_closed:
            return
        if not self._has_moment:
            self._begin_moment()
        self._feed_starved()
        try:
            more = self.gateway.end_tick()
        except Exception:
            # A fault of ours in one queue or channel: the others go on.
            log.exception("internal error in a tick")
            more = self.gateway.broker.has_ready
        else:
            if self._changed:
                self._promise()
        self._has_moment = False
        self._flush()
        heard = self._heard
        self._heard = []
        is_behind = self._storage.backlog_bytes > JOURNAL_BACKLOG_HIGH_BYTES and not self._storage.failure
        for peer in heard:
            if is_behind:
                # The disk is: who sent something is not read from until it has caught up.
                peer.hold()
                self._held_back.append(peer)
            elif peer.unsent_bytes() > (OUTPUT_HIGH_WATER_BYTES if self.gateway.alarm else OUTPUT_CHOKE_BYTES):
                # While memory is low, nobody's answers take more of it than anybody's deliveries.
                peer.choke()
            elif peer.connection.engine.is_holding or (self._drained and not peer.connection.engine.is_paused):
                # A publisher, and an alarm is on; or all of it was taken in that the end waits for.
                peer.hold()
            elif self.reassembly.must_wait(peer):
                peer.hold()
            else:
                peer.go_on_soon()
        if more or any(not self._peers[output].is_full for output in self.outbox.starved if output in self._peers):
            self.want_tick()
        elif self._drained and not self.gateway.is_waiting:
            self._drained.set()
        self._wake_when_due()

    def durable(self) -> "asyncio.Future[None]":
        """Done when what was changed until now is on the disk; fails with StorageFenced when it does not get there."""
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._changed.append(waiting)
        self.want_tick()
        return waiting

    def _promise(self) -> None:
        """What was changed is in the batch that was handed over just now."""
        batch = self.gateway.batch
        self._promised += [(batch, waiting) for waiting in self._changed]
        self._changed = []
        self._keep_promises()

    def _keep_promises(self) -> None:
        promised = self._promised
        self._promised = []
        failure = self._storage.failure
        durable = self._storage.durable_batch
        for batch, waiting in promised:
            if waiting.done():
                # Cancelled: nobody waits any more.
                continue
            if batch <= durable and self._storage.definitions_durable:
                waiting.set_result(None)
            elif failure:
                waiting.set_exception(StorageFenced(failure))
            else:
                self._promised.append((batch, waiting))

    def _wake_when_due(self) -> None:
        """Queues have something to do at a time, even if nothing comes: messages expire, delays end."""
        due_ms = self.gateway.broker.next_due_ms
        if due_ms and (self._alarm is None or due_ms < self._alarm_ms):
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_ms = due_ms
            self._alarm = self._loop.call_later(max(due_ms - self.clock_ms(), 0) / 1000, self._is_due)

    def _is_due(self) -> None:
        self._alarm = None
        if self.clock_ms() - self._alarm_ms > _LATE_MS:
            # The process stood still: an acknowledgement or a lease that was renewed in time may wait in a socket.
            self._loop.call_later(READ_FIRST_SECONDS, self.want_tick)
        else:
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
        try:
            peer.connection.resume()
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.internal_error(error)
            peer.connection.fail(InternalError(f"{type(error).__name__} while delivering; see the broker log"))
        return True

    def on_durable(self) -> None:
        """The storage made progress, or failed."""
        if self._storage.failure and not self._was_fenced:
            self._was_fenced = True
            log.error("storage fenced", reason=self._storage.failure)
        self.now()
        self.gateway.on_durable()
        if self._promised:
            self._keep_promises()
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
        given_up = int(self.gateway.tick.partial_messages.given_up)
        if given_up > self._partials_given_up:
            log.warning("parts of messages on suspended links given up", messages=given_up - self._partials_given_up)
            self._partials_given_up = given_up
        unrouted = int(self.gateway.tick.churn.routes_given_up)
        if unrouted > self._routes_given_up:
            log.warning("messages not routed: too much work", messages=unrouted - self._routes_given_up)
            self._routes_given_up = unrouted
        reason = check()
        self.gateway.tick.partial_messages.is_disk_low = "disk" in reason
        self._alarm_is(reason)

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

    async def drain(self, seconds: float) -> None:
        """Read no more, and wait that long at most until all that was taken in is synced and confirmed."""
        self._drained = asyncio.Event()
        for peer in self._peers.values():
            peer.hold()
        self.want_tick()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), seconds)

    async def close(self, seconds: float) -> None:
        """Close every connection with 320, and wait that long at most for the peers to agree.

        Nothing is left in the event loop that would come back to us: it may go on without us.
        """
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
        self.tricklers.close()
        self.send_timeout.close()
        self.reassembly.close()
        # The loop tells of lost connections in its next turn, and they take their queues with them.
        if self._peers:
            await self._deserted.wait()
        if self._alarm is not None:
            self._alarm.cancel()
        self._is_closed = True


def _log_refusal(peer: str, why: str) -> None:
    log.warning("login refused", peer=peer, reason=why)


def _address(peer: str) -> str:
    """Without the port."""
    return peer.rpartition(":")[0].strip("[]")
