"""A run: one data directory through many lives, each of which ends in its own way, with one ledger over all of them."""

import errno
import logging
import os
import random
from typing import Final, final
from zlib import crc32

from flintmq.base.errors import StorageError
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.wire.amqp10.spec import MIN_MAX_FRAME_SIZE
from tests.sim.baton import Baton
from tests.sim.database import DatabaseFile
from tests.sim.disk import PowerLoss, SimulatedDisk
from tests.sim.lasting import Lasting
from tests.sim.leases import Tenure
from tests.sim.ledger import FailedRecovery, Figures, Ledger, Lost, Unexpected
from tests.sim.loop import VirtualLoop
from tests.sim.node import DATA, SEGMENT_BYTES, Node
from tests.sim.topology import make_topology
from tests.sim.workload import Numbers, Workload

# What a broker says of its own doings is not what a run is about.
logging.getLogger("flintmq").setLevel(logging.CRITICAL)

# How many lives a run has.
LIVES: Final = 25
# How long (seconds) clients wait until they say that they wait for ever.
_PATIENCE: Final = 30.0

# How a life ends.
POWER: Final = "power loss"
KILL: Final = "kill"
STOP: Final = "clean stop"
FAULT: Final = "failing disk"
FULL: Final = "full disk"


@final
class Run:
    """`trace`, if set, is told what happens. A violation of what is promised is raised."""

    def __init__(self, seed: int, lives: int = LIVES, trace: bool = False) -> None:
        self.seed = seed
        self._lives = lives
        self._trace = trace
        self._node: Node | None = None
        chance = random.Random(seed)
        self.chance = chance
        # Decides whether the disk fails at a start or a stop.
        self._faults = random.Random(f"faults {seed}")
        self.disk = SimulatedDisk(seed)
        self.database = DatabaseFile(chance, self.disk, DATA / "definitions.sqlite")
        self._baton = Baton()
        self.topology = make_topology(chance)
        self.ledger = Ledger(self.topology)
        if trace:
            self.ledger.trace = self._say
        self.numbers = Numbers()
        self.lasting = Lasting(self.ledger)
        leased = [line for line in self.topology.lines if line.is_leased]
        self._tenure = Tenure(leased[0], self.ledger) if leased else None
        self.segment_bytes = chance.choice((2_000, SEGMENT_BYTES, SEGMENT_BYTES, 20_000))
        # Where they are small, what a durable link holds does not fit into its attach.
        self._frame_bytes = MIN_MAX_FRAME_SIZE if seed % 8 == 5 else FRAME_MAX_BYTES
        self._now = 0.0
        # Of the life before: the newest batch that was reported durable.
        self._durable = 0
        self._traffic = 0
        self._digest = ""
        # The call to the disk at which the power fails, or an error is raised.
        self._fuse = -1
        self._error = 0
        self._was_stopped = False
        # How this life is to end.
        self._ends_in = ""
        # Whether the disk has failed in this life.
        self._has_failed = False
        self.disk.trouble = self._trouble
        self.database.trouble = self._trouble

    @property
    def figures(self) -> Figures:
        return self.ledger.figures

    @property
    def digest(self) -> str:
        """What went over the network, and what the disk holds: the same for each run of a seed."""
        return self._digest

    def _take_digest(self) -> str:
        return f"{self._traffic:08x}-{self.disk.image()[:24]}-{crc32(self.database.image().encode()):08x}"

    def _say(self, *words: object) -> None:
        if self._trace:
            now = self._node.loop.time() if self._node is not None else self._now
            print(f"{now:9.4f}", *words, flush=True)

    # -- the disk -----------------------------------------------------------------------------------------------

    def _trouble(self, what: str, name: str) -> None:
        if self._fuse >= 0:
            self._fuse -= 1
            if self._fuse < 0:
                if self._error:
                    if self.chance.random() < 0.5:
                        # It stays broken.
                        self._fuse = 0
                    self._say("the disk fails", what, name, errno.errorcode[self._error])
                    self._has_failed = True
                    raise OSError(self._error, os.strerror(self._error), name)
                self._say("the power fails in", what, name)
                self.disk.is_off = True
                raise PowerLoss
        if what == "rename":
            # A segment goes, or a new one comes.
            self._aim()
        if self._node is not None and what != "commit":
            self._node.commit.pause()

    def _aim(self) -> None:
        """The next calls to the disk matter more than others: let the power or the disk fail in one, now and then."""
        if (self._ends_in == POWER or self._will_fail) and self.chance.random() < 0.25:
            self._fuse = self.chance.randrange(5)

    @property
    def _will_fail(self) -> bool:
        return self._ends_in == FAULT and not self._has_failed

    def _let_disk_fail(self, chance: random.Random, calls: int) -> None:
        """Let one of the next calls to the disk fail."""
        self._ends_in = FAULT
        self._error = chance.choice((errno.EIO, errno.ENOSPC))
        self._fuse = chance.randrange(calls)

    def _mend(self) -> None:
        self._fuse, self._error, self._ends_in = -1, 0, ""
        self._has_failed = False

    # -- lives --------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """All lives, and then a look at what is left."""
        try:
            node = self._boot()
            self._set_up(node)
            self._end(node, STOP)
            for _ in range(self._lives):
                self._live()
            self._drain()
            self._digest = self._take_digest()
        except Exception as fault:
            self.figures.count(fault)
            raise
        finally:
            self._baton.kill()
            self.database.discard()

    def _live(self) -> None:
        chance = self.chance
        node = self._boot()
        end = chance.choices((POWER, KILL, STOP, FAULT, FULL), (80, 5, 3, 9, 3))[0]
        workload = Workload(
            node, self.ledger, self.topology, self.numbers, self.lasting, chance, self._aim, self._tenure
        )
        # Behind the handshakes.
        duration = 6 * workload.latency + workload.gap * chance.choice((5, 20, 60))
        self._ends_in = end
        self._say("a life of", duration, "to end in", end)
        self._node = node
        try:
            node.loop.call_soon(self._begin, node, workload)
            if end == POWER and chance.random() < 0.7:
                self._fuse = chance.randrange(60)
            elif end == FAULT:
                self._let_disk_fail(chance, 40)
            elif end == FULL:
                self.disk.capacity = self.disk.used_bytes + chance.randrange(20_000)
                self._has_failed = True
            self._run(node, duration)
            if end in (FAULT, FULL):
                self._after_fault(node, workload, end)
            elif chance.random() < 0.2:
                self._quiesce(node, workload)
        except PowerLoss:
            pass
        self._mend()
        self.disk.capacity = None
        if self.disk.is_off:
            end = POWER
        self._end(node, end, workload)

    def _run(self, node: Node, duration: float) -> None:
        try:
            node.loop.run(self._now + duration)
        finally:
            self._now = node.loop.time()

    def _begin(self, node: Node, workload: Workload) -> None:
        node.serve()
        workload.start()

    def _quiesce(self, node: Node, workload: Workload) -> None:
        workload.is_going = False
        self._run(node, _PATIENCE)
        workload.check_answered(node.storage.failure)

    def _after_fault(self, node: Node, workload: Workload, end: str) -> None:
        """The disk is in order again, or has room: whoever waits is answered, one way or the other."""
        self.figures.faults += 1
        self._error, self._fuse = 0, -1
        self.disk.capacity = None
        self._run(node, 0.05)
        self._quiesce(node, workload)
        if end == FULL and node.storage.failure:
            raise Unexpected(f"a full disk that got room again is given up: {node.storage.failure}")

    def _end(self, node: Node, end: str, workload: Workload | None = None) -> None:
        self._say("the life ends in", end)
        is_stopped = end == STOP and not node.storage.failure
        if is_stopped:
            if workload is not None:
                workload.is_going = False
            if self._faults.random() < 0.3:
                self._let_disk_fail(self._faults, 40)
            node.loop.complete(node.stop(), self._now + 10.0)
            self._now = node.loop.time()
            self.figures.stops += 1
            self.figures.faults += self._has_failed
        # An index of a stream that was not written is made again.
        self._was_stopped = is_stopped and not node.storage.failure
        self._mend()
        self._node = None
        if workload is not None:
            workload.drop()
        node.kill()
        self._durable = node.storage.durable_batch
        self._say("batches are durable up to", self._durable)
        for link in node.links:
            self._traffic = crc32(b"%d" % link.traffic, self._traffic)
        if end == POWER:
            self._lose_power()
        elif end != STOP:
            self.figures.kills += 1

    def _lose_power(self) -> None:
        self.figures.power_losses += 1
        self.disk.lose_power()
        self.database.lose_power()

    def _boot(self) -> Node:
        """Start a node on what the last one left, if need be more than once; and see that all is as it may be."""
        chance = self.chance
        self._now += chance.choice((0.0, 0.01, 1.0))
        if chance.random() < 0.1:
            # The power fails again while it recovers.
            self._fuse = chance.randrange(20)
        elif self._faults.random() < 0.1:
            self._let_disk_fail(self._faults, 60)
        node: Node | None = None
        while node is None:
            try:
                loop = VirtualLoop(self._now)
                node = Node(self.disk, self.database, loop, chance, self._baton, self.segment_bytes, self._frame_bytes)
            except PowerLoss:
                self._lose_power()
            except StorageError as error:
                if not self._has_failed:
                    raise FailedRecovery(f"the node does not start: {error}") from error
                # It was told to close what it had opened. The disk is in order again at the next start.
                self._say("not started:", error)
                self.figures.faults += 1
                self._mend()
                if self._faults.random() < 0.5:
                    self._lose_power()
        self._mend()
        self._say("started with", node.count, "messages in", len(self.disk.list_directory(DATA / "journal")), "files")
        self.ledger.clock_ms = node.clock_ms
        self.ledger.is_closing = lambda: node.is_stopping or self._has_failed
        # Streams are read only now.
        contents = node.contents()
        if node.storage.damage and not self.ledger.is_damaged:
            raise Unexpected(f"damage was found where none was done: {node.storage.damage}")
        # What nothing is said of has to be as it was; but behind the last mark of a node that was not stopped, what is
        # spoiled looks like what was torn.
        self.ledger.is_damaged &= bool(node.storage.damage) or not self._was_stopped
        was_damaged = self.ledger.is_damaged
        self.ledger.was_stopped = self._was_stopped
        self.ledger.found(contents, self._durable)
        self.ledger.forget_unfinished(set(contents))
        if not was_damaged:
            self.lasting.started()
        return node

    # -- the first and the last ---------------------------------------------------------------------------------

    def _set_up(self, node: Node) -> None:
        """Declare what there is to be, and see it declared."""
        workload = Workload(node, self.ledger, self.topology, self.numbers, self.lasting, self.chance, self._aim)

        def begin() -> None:
            node.serve()
            workload.declare(self.topology.methods)

        node.loop.call_soon(begin)
        self._run(node, 10.0)
        if workload.declared != len(self.topology.methods):
            raise Lost("declarations are not answered")

    def _drain(self) -> None:
        """At last some bits of the disk have turned, and a node starts on it all the same; what it finds is whole."""
        for _ in range(self.chance.choice((0, 1, 3))):
            name = self.disk.flip_bit()
            self._say("a bit has turned in", name)
            self.ledger.is_damaged = True
            self.figures.flipped_bits += 1
        self._end(self._boot(), KILL)
