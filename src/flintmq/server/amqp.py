"""The AMQP server of a node: it connects sockets, ticks, logins and alarms, and closes them."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from flintmq.base.errors import ConnectionForced
from flintmq.base.limits import SEND_TIMEOUT_SECONDS
from flintmq.broker.broker import Broker
from flintmq.gateway.amqp091.service import ServerProperties, Service
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.gateway import Gateway, LoginPolicy
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.server import logs
from flintmq.server.alarms import CHECK_SECONDS
from flintmq.server.audit import AuditLog
from flintmq.server.back_pressure import ALARM
from flintmq.server.certificates import Tls
from flintmq.server.connections import Connections
from flintmq.server.host import Logins, ServerHost
from flintmq.server.peer import Peer
from flintmq.server.reassembly import RoundRobin
from flintmq.server.relay.reception import Reception
from flintmq.server.schedule import TickSchedule
from flintmq.server.send_timeout import SendTimeout
from flintmq.server.stalls import Stalls
from flintmq.server.tick import ServerTick

_PROPERTIES_10: Final = amqp10.ServerProperties("flintmq", {}, Tuning())

log = logs.get_logger()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@final
class AmqpServer:
    """All AMQP connections of a node.

    `clock_ms` returns Unix time in milliseconds. `collect_garbage` is called regularly while many clients connect. A
    client that reads nothing of its output for `send_timeout_seconds` is disconnected; 0 means never.
    """

    def __init__(
        self,
        broker: Broker,
        properties: ServerProperties,
        logins: Logins,
        random_bytes: Callable[[int], bytes],
        connection_max: int,
        clock_ms: Callable[[], int] = wall_clock_ms,
        policy: LoginPolicy | None = None,
        tls: Tls | None = None,
        properties_10: amqp10.ServerProperties = _PROPERTIES_10,
        audit: AuditLog | None = None,
        collect_garbage: Callable[[], object] = lambda: None,
        send_timeout_seconds: float = SEND_TIMEOUT_SECONDS,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        loop = asyncio.get_running_loop()
        amqp10_peers: set[str] = set()
        self.schedule = TickSchedule(loop, broker, clock_ms)
        self.host = ServerHost(loop, self.schedule, logins, audit or AuditLog(), amqp10_peers)
        self.gateway = Gateway(broker, self.host, random_bytes, policy)
        self.amqp091 = Service(self.gateway, properties)
        self.amqp10 = amqp10.Service(self.gateway, properties_10)
        self.tls = tls
        self.send_timeout = SendTimeout(loop, send_timeout_seconds)
        self.connections = Connections(
            loop,
            self.schedule,
            self.gateway.tick.dispatch,
            self.amqp091,
            self.amqp10,
            self.send_timeout,
            tls,
            connection_max,
            amqp10_peers,
            collect_garbage,
            stopwatch,
        )
        # The clients whose sockets other processes or nodes own.
        self.reception = Reception(self.protocol)
        self._reassembly = RoundRobin(loop, self.gateway.reassembly, self.connections.open.values)
        self.connections.on_removed = self._reassembly.gone
        self.tick = ServerTick(loop, self.gateway, self.schedule, self.connections, self._reassembly)
        self.stalls = Stalls(loop, self.tick.seconds)
        self._loop = loop
        self._storage = broker.storage
        # The counts that the last line of the log had.
        self._partials_given_up = 0
        self._routes_given_up = 0
        self._check: Callable[[], str] | None = None
        self._full: Callable[[], str] = str
        self._was_full = ""
        self._next_check: asyncio.TimerHandle | None = None

    def protocol(self) -> Peer:
        """Return a peer for a socket that begins with a protocol header, which may ask for TLS."""
        return Peer(self.connections)

    def tls_protocol(self) -> Peer:
        """Return a peer for a socket that begins with TLS."""
        return Peer(self.connections, begins_with_tls=True)

    # -- alarms -------------------------------------------------------------------------------------------------

    def watch(self, check: Callable[[], str], full: Callable[[], str]) -> None:
        """From now on, publishers wait whenever `check` returns a reason.

        `check` is called at intervals, and at once when `full`, the reason why the disk has no room, has changed.
        """
        self._check = check
        self._full = full
        self._check_alarms()

    def on_storage_progress(self) -> None:
        """Handle progress of the storage: batches are durable, the disk is full or has room again, or it has failed."""
        full = self._full()
        if full != self._was_full:
            # Publishers have to wait at once: before the next check they could send more than the reserve can hold.
            self._was_full = full
            self._check_alarms()
        self.tick.on_durable()

    def _check_alarms(self) -> None:
        """Check memory and disk now, and again at intervals."""
        check = self._check
        if check is None:
            return
        if self._next_check is not None:
            self._next_check.cancel()
        self._next_check = self._loop.call_later(CHECK_SECONDS, self._check_alarms)
        self._log_given_up()
        reason = check()
        self.gateway.tick.partial_messages.is_disk_low = "disk" in reason
        self._alarm_is(reason)

    def _log_given_up(self) -> None:
        given_up = int(self.gateway.tick.partial_messages.discarded)
        if given_up > self._partials_given_up:
            log.warning("parts of messages on suspended links given up", messages=given_up - self._partials_given_up)
            self._partials_given_up = given_up
        unrouted = int(self.gateway.tick.churn.routes_given_up)
        if unrouted > self._routes_given_up:
            log.warning("messages not routed: too much work", messages=unrouted - self._routes_given_up)
            self._routes_given_up = unrouted

    def _alarm_is(self, reason: str) -> None:
        was = self.gateway.alarm
        self.gateway.alarm = reason
        if bool(reason) == bool(was):
            return
        self.schedule.now()
        for peer in self.connections.peers:
            if not peer.has_spoken:
                continue
            if reason:
                peer.connection.block()
                continue
            held_a_publish = peer.connection.engine.is_holding
            peer.connection.unblock()
            if held_a_publish:
                peer.go_on(ALARM)
        self.schedule.request()

    # -- the end ------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Stop reading, and wait up to `seconds` until everything that was read is synced and confirmed."""
        drained = self.tick.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(drained.wait(), seconds)

    async def close(self, seconds: float, reason: str = "shutdown") -> None:
        """Close every connection with code 320 and a reason, and wait up to `seconds` for the answers of the clients.

        Afterwards nothing in the event loop calls the server, so the loop may continue without it.
        """
        if self._next_check is not None:
            self._next_check.cancel()
        for peer in self.connections.peers:
            if peer.has_spoken:
                peer.connection.fail(ConnectionForced(f"broker forced connection closure with reason '{reason}'"))
            else:
                peer.abort()
        self.tick.flush()
        if len(self.connections):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.connections.empty.wait(), seconds)
        for peer in self.connections.peers:
            peer.abort()
        self.host.close()
        self.connections.throttle.close()
        self.send_timeout.close()
        self.stalls.close()
        self._reassembly.close()
        # The loop reports lost connections in its next turn, and their exclusive queues are deleted then.
        if len(self.connections):
            await self.connections.empty.wait()
        self.tick.close()
