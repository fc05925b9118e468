"""One life of a node: the production server, broker and storage, from a start to a power loss or a clean stop."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, final

from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.message import Entry
from flintmq.broker.ports import PermissionRecord, StreamLog, UserRecord
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.service import ServerProperties
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp10.connection import Tuning as Tuning10
from flintmq.protocol.sasl.scram import Keys
from flintmq.server.amqp import AmqpServer
from flintmq.server.leadership import Leadership
from flintmq.storage.group_commit import GroupCommit, Rounds
from flintmq.storage.node import NodeStorage
from flintmq.storage.replication.disk import logs_transactions
from flintmq.storage.replication.log import OperationLog
from tests.sim.baton import Baton
from tests.sim.database import DatabaseFile
from tests.sim.disk import SimulatedDisk
from tests.sim.loop import VirtualLoop
from tests.sim.network import Link
from tests.sim.spilling import SimulatedSpill
from tests.sim.syncing import SimulatedCommit

DATA: Final = Path("/data")
# Small, so that segments fill, are emptied, moved and written over within a life.
SEGMENT_BYTES: Final = 6_000
USER: Final = "u"
# The moment at which all simulations begin (Unix time in seconds).
EPOCH: Final = 1_700_000_000


@final
class _OpenDoor:
    """Logins: everybody may come in, a little later."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        self._loop.call_soon(answer, "")

    def check_token(
        self, token: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        raise AssertionError("nobody has a token here")

    def check_proof(
        self,
        user: str,
        proof: Callable[[], str],
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        raise AssertionError("nobody logs in by SCRAM here")

    def failed(self, user: str, address: str) -> None:
        raise AssertionError("nobody is refused here")

    def refusal(self, user: str, address: str) -> str:
        return ""

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        raise AssertionError("nobody logs in by SCRAM here")

    def close(self) -> None:
        pass


@final
class Node:
    """Raises StorageError when it cannot start, PowerLoss when the power fails meanwhile.

    With a `log` and `leadership`, it leads a cluster: its changes are logged there.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        database: DatabaseFile,
        loop: VirtualLoop,
        chance: random.Random,
        baton: Baton,
        segment_bytes: int,
        frame_bytes: int,
        log: OperationLog | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self.loop = loop
        # The largest of AMQP 1.0.
        self.frame_bytes = frame_bytes
        self.links: list[Link] = []
        self.is_stopping = False
        self._random = chance
        self._baton = baton
        self._ports = 0
        self._commits: list[SimulatedCommit] = []
        self._server: AmqpServer | None = None
        self._leadership = leadership
        self._worked = 0.0
        # Apart from `chance`, so that a run of ticks draws nothing from it.
        self._pace = random.Random(segment_bytes + frame_bytes)
        self.storage = NodeStorage(
            DATA,
            {CODEC_091.format: CODEC_091, CODEC_10.format: CODEC_10},
            self._notify,
            disk,
            segment_bytes,
            database.open if log is None else partial(database.open, told=logs_transactions(log)),
            self._make_commit,
            reserve_bytes=chance.choice((0, 3_000)),
            pages_memory_max=chance.choice((0, 3_000, 1_000_000)),
            spill_runner=lambda: SimulatedSpill(loop, chance),
            log=log,
        )
        try:
            self.broker = Broker(self.storage, chance.getrandbits(32))
            self.broker.now_ms = self.clock_ms()
            self.count = self.broker.recover(self.storage.definitions.load())
            if not self.broker.vhosts:
                self.broker.add_vhost("/")
                self.broker.put_user(UserRecord(USER, ""))
                self.broker.put_rule(PermissionRecord("/", USER, ".*", ".*", ".*"))
            self.vhost = self.broker.vhosts["/"]
        except Exception:
            self.storage.close()
            raise

    def _make_commit(self, rounds: Rounds) -> GroupCommit:
        commit = SimulatedCommit(rounds, self.loop, self._random, self._baton)
        self._commits.append(commit)
        return commit

    @property
    def commit(self) -> SimulatedCommit:
        return self._commits[0]

    @property
    def submitted(self) -> int | None:
        """The newest batch that is on its way to the disk; None once nothing gets there any more."""
        return None if self.storage.failure else self.commit.submitted

    def clock_ms(self) -> int:
        return int((EPOCH + self.loop.time()) * 1000)

    def _stopwatch(self) -> float:
        """What work takes by this clock is a matter of chance, so that ticks end early now and then."""
        self._worked += self._pace.choice((0.0, 1e-6, 1e-5, 1e-4, 1e-3))
        return self._worked

    def _notify(self) -> None:
        self.loop.call_soon_threadsafe(self._on_durable)

    def _on_durable(self) -> None:
        if self._server is not None:
            self._server.on_storage_progress()
        if self._leadership is not None and self.storage.failure:
            self._leadership.failed(self.storage.failure)

    def serve(self) -> None:
        """Take connections. To be called within the loop."""
        properties = ServerProperties({"product": "FlintMQ", "capabilities": {"basic.nack": True}}, Tuning(heartbeat=0))
        logins = _OpenDoor(self.loop)
        properties_10 = amqp10.ServerProperties("flintmq", {}, Tuning10(idle_timeout_ms=0, frame_max=self.frame_bytes))
        self._server = AmqpServer(
            self.broker,
            properties,
            logins,
            self._random.randbytes,
            1_000,
            self.clock_ms,
            properties_10=properties_10,
            stopwatch=self._stopwatch,
        )
        if self._leadership is not None:
            self._server.watch(self._leadership.shortage, lambda: self.storage.full)
        # What the start itself has settled, and the definitions of a new node.
        self._server.schedule.request()

    def connect(self, received: Callable[[bytes], None], lost: Callable[[], None], latency: float) -> Link:
        server = self._server
        assert server is not None
        self._ports += 1
        link = Link(self.loop, self._random, server.protocol(), received, lost, self._ports, latency)
        self.links.append(link)
        return link

    async def stop(self, patience_seconds: float = 2.0, drain_seconds: float = 0.0) -> None:
        """As SIGTERM does it."""
        self.is_stopping = True
        server = self._server
        if server is not None:
            if drain_seconds:
                await server.drain(drain_seconds)
            await server.close(patience_seconds)
            self.broker.note_undelivered()
        self.storage.close()

    def kill(self) -> None:
        """It is gone, without a word."""
        for link in self.links:
            link.drop()
        self.commit.kill()

    # -- what is on the queues ----------------------------------------------------------------------------------

    def contents(self) -> dict[str, list[Entry]]:
        """All queues with their entries: ready ones in order, then those that are held back or about to leave.

        Those that wait for a link to be taken up again are in their places.
        """
        found = {}
        for name, queue in self.vhost.queues.items():
            if isinstance(queue, ClassicQueue):
                entries = queue._keep_in_memory()
                if queue.delays is not None:
                    entries = [*entries, *queue.delays.entries()]
                leased = self._leased(queue)
                found[name] = sorted([*leased, *entries], key=lambda entry: entry.position) if leased else entries
            elif isinstance(queue, StreamQueue):
                found[name] = _records(queue.log)
        for terminus in self.vhost.termini.sources.values():
            for held in terminus.unsettled.values():
                found[held.queue.name].append(held.entry)
                found[held.queue.name].sort(key=lambda entry: entry.position)
        for letter in self.broker.tick.dead_letters:
            entries = found[letter.queue.name]
            entries.append(letter.entry)
            entries.sort(key=lambda entry: entry.position)
        return found

    def _leased(self, queue: ClassicQueue) -> list[Entry]:
        found = []
        for lease in self.vhost.leases.of(queue):
            position = lease.first
            while (leased := lease.read(position)) is not None:
                for entry in leased.entries[leased.index(position) :]:
                    # To those who read it by its position it is what it was.
                    entry.redelivered = True
                    found.append(entry)
                position = leased.position(len(leased.entries) - 1) + 1
        return found


def _records(log: StreamLog) -> list[Entry]:
    cursor = log.cursor(log.first_offset, 1 << 20)
    found = []
    while (message := cursor.next(log.next_offset)) is not None:
        found.append(Entry(message, cursor.offset - 1))
    return found
