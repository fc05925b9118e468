"""The tick: dispatches, commits and answers what was read from all sockets together, and then continues reading."""

import asyncio
from collections import deque
from typing import final

from flintmq.base.errors import InternalError
from flintmq.base.histogram import Histogram
from flintmq.base.limits import (
    JOURNAL_BACKLOG_HIGH_BYTES,
    JOURNAL_BACKLOG_LOW_BYTES,
    OUTPUT_BACK_PRESSURE_BYTES,
    OUTPUT_HIGH_WATER_BYTES,
)
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.output import Output
from flintmq.server import logs
from flintmq.server.back_pressure import ALARM, JOURNAL, OUTPUT, REASSEMBLY, SHUTDOWN, TICK, WORK
from flintmq.server.connections import Connections
from flintmq.server.durability import DurabilityFutures
from flintmq.server.peer import Peer
from flintmq.server.reassembly import RoundRobin
from flintmq.server.schedule import TickSchedule

log = logs.get_logger()


@final
class ServerTick:
    """In one tick, queues are dispatched, the storage gets its batch, and each connection with output writes it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        gateway: Gateway,
        schedule: TickSchedule,
        connections: Connections,
        reassembly: RoundRobin,
    ) -> None:
        self.seconds = Histogram()
        self.futures = DurabilityFutures(loop, gateway.durability, schedule)
        self._loop = loop
        self._gateway = gateway
        self._storage = gateway.broker.storage
        self._schedule = schedule
        self._connections = connections
        self._outbox = connections.outbox
        self._reassembly = reassembly
        self._dispatch = gateway.tick.dispatch
        self._stopwatch = connections.stopwatch
        # Peers that have used up their shares, and wait for their turns to be read again.
        self._in_turn: deque[Peer] = deque()
        # Peers that are not read until the storage has caught up.
        self._behind_journal: list[Peer] = []
        # Set when no answer waits for the storage any more. From `drain` on, nothing more is read.
        self._drained: asyncio.Event | None = None
        self._was_fenced = False
        self._is_closed = False
        schedule.run = self.run

    def run(self) -> None:
        """Run a tick, and measure how long it takes."""
        started = self._stopwatch()
        if not self._is_closed:
            self._run(started)
        self.seconds.observe(self._stopwatch() - started)

    def _run(self, started: float) -> None:
        self._schedule.begin_tick()
        self._resume_starved()
        try:
            more = self._gateway.end_tick()
        except Exception:
            # An internal error in one queue or channel must not stop the others.
            log.exception("internal error in a tick")
            more = self._gateway.broker.has_ready
        dispatched = self._stopwatch()
        self._schedule.end_time()
        self.flush()
        self._read_on(more, started, dispatched)
        self._connections.credit.grant()
        if more or self._in_turn or self._has_room_for_starved():
            self._schedule.request()
        elif self._drained is not None and self._gateway.durability.is_empty:
            self._drained.set()
        self._schedule.wake_when_due()

    # -- output -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the output of each connection."""
        waiting = self._outbox.waiting
        self._outbox.waiting = []
        now = self._loop.time()
        for output in waiting:
            peer = self._connections.peer_of(output)
            if peer is None:
                output.take()
            else:
                peer.flush(now)
        for link in self._connections.links:
            link.flush()

    def _resume_starved(self) -> None:
        """Let consumers get messages again whose connection had too much output and has room now."""
        starved = self._outbox.starved
        if starved:
            self._outbox.starved = [output for output in starved if not self._resume(output)]

    def _resume(self, output: Output) -> bool:
        """Return whether the output has room again, or has lost its peer."""
        peer = self._connections.peer_of(output)
        if peer is None:
            return True
        if not output.backlog_is(peer.unsent_bytes()):
            return False
        try:
            peer.connection.resume()
        except Exception as error:
            log.exception("internal error")
            peer.connection.fail(InternalError(f"{type(error).__name__} while delivering; see the broker log"))
        return True

    def _has_room_for_starved(self) -> bool:
        for output in self._outbox.starved:
            peer = self._connections.peer_of(output)
            if peer is not None and not peer.is_full:
                return True
        return False

    # -- input --------------------------------------------------------------------------------------------------

    def _read_on(self, more: bool, started: float, dispatched: float) -> None:
        """Read on from the peers from which bytes arrived in this tick, and from those whose turns have come.

        While clients wait for each other, those that have used up their shares are read in turns. The queues were
        dispatched between the times `started` and `dispatched`.
        """
        read_from = self._connections.read_from
        in_turn = self._in_turn
        intake = self._connections.intake
        if not read_from and not in_turn and not intake.is_contended:
            return
        self._connections.read_from = []
        is_behind = more or self._dispatch.is_behind
        is_modest = False
        for peer in read_from:
            if peer.is_awaited and peer.tick_bytes < intake.share:
                is_modest = True
        intake.end_tick(
            [int(peer.tick_bytes) for peer in read_from],
            len(in_turn),
            started - intake.began if read_from else 0.0,
            dispatched - started,
            is_behind,
            is_modest,
            self._storage.backlog_bytes,
        )
        if not intake.is_contended:
            self._dispatch.limit(0.0)
            for peer in [*in_turn, *read_from]:
                self._read_on_from(peer)
            in_turn.clear()
            return
        self._dispatch.limit(intake.dispatch_seconds)
        for peer in read_from:
            if peer.gate.reasons & TICK or peer.connection.engine.is_paused:
                in_turn.append(peer)
            else:
                self._read_on_from(peer)
        for _ in range(min(len(in_turn), int(intake.turns))):
            self._read_on_from(in_turn.popleft())

    def _read_on_from(self, peer: Peer) -> None:
        """Read on from a peer, unless there is a reason for back-pressure."""
        engine = peer.connection.engine
        # While memory is low, waiting answers may use no more of it than waiting deliveries.
        output_max = OUTPUT_HIGH_WATER_BYTES if self._gateway.alarm else OUTPUT_BACK_PRESSURE_BYTES
        if self._storage.backlog_bytes > JOURNAL_BACKLOG_HIGH_BYTES and not self._storage.failure:
            peer.gate.add(JOURNAL)
            self._behind_journal.append(peer)
        elif peer.unsent_bytes() > output_max:
            peer.gate.add(OUTPUT)
        elif engine.is_holding:
            peer.gate.add(ALARM)
        elif self._drained is not None and not engine.is_paused and not engine.is_closing:
            peer.gate.add(SHUTDOWN)
        elif self._reassembly.must_wait(peer):
            peer.gate.add(REASSEMBLY)
        elif engine.is_paused:
            # Other connections have their turn first.
            peer.gate.add(WORK)
            self._loop.call_soon(peer.go_on, WORK)
        peer.end_tick()

    # -- the storage --------------------------------------------------------------------------------------------

    def on_durable(self) -> None:
        """Handle progress or a failure of the storage."""
        storage = self._storage
        if storage.failure and not self._was_fenced:
            self._was_fenced = True
            log.error("storage fenced", reason=storage.failure)
        self._schedule.now()
        self._gateway.on_durable()
        if self._behind_journal and (storage.backlog_bytes < JOURNAL_BACKLOG_LOW_BYTES or storage.failure):
            behind = self._behind_journal
            self._behind_journal = []
            for peer in behind:
                peer.go_on(JOURNAL)
        self.flush()
        self._schedule.request()

    # -- the end ------------------------------------------------------------------------------------------------

    def drain(self) -> asyncio.Event:
        """Stop reading. The event is set when everything that was read is synced and answered."""
        drained = asyncio.Event()
        self._drained = drained
        for peer in self._connections.peers:
            peer.gate.add(SHUTDOWN)
        self._schedule.request()
        return drained

    def close(self) -> None:
        """Do nothing in ticks that are still scheduled."""
        self._is_closed = True
        self._schedule.close()
        self._connections.credit.close()
