"""A computer of the simulated cluster: its disk outlives its processes, of which one at a time takes part."""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from typing import Final, final

from flintmq.app.clustered import PATIENCE_SECONDS
from flintmq.app.node import DRAIN_SECONDS
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.cluster.membership import Membership
from flintmq.cluster.participation import Participation, Serving
from flintmq.cluster.ports import Directory
from flintmq.cluster.term import Term
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.replication.disk import is_replicated
from tests.sim.baton import Baton
from tests.sim.cluster.coordinator import Service, SimulatedCoordinator
from tests.sim.cluster.machine import Network, SimulatedMachine
from tests.sim.cluster.process import Process, World
from tests.sim.database import DatabaseFile
from tests.sim.disk import PowerLoss, SimulatedDisk
from tests.sim.node import DATA, Node

CLUSTER: Final = "c"
_DEFINITIONS: Final = DATA / "definitions.sqlite"
# The calls that a full disk refuses.
_NEEDS_ROOM: Final = frozenset({"write", "write-through", "create", "rename", "truncate", "sync", "commit"})
# How likely a call to the disk takes a while, and how long (seconds) at most.
_PAUSE_CHANCE: Final = 0.05
_PAUSE_SECONDS: Final = 0.003


@final
class SimulatedDirectory(Directory):
    def __init__(self, disk: SimulatedDisk, database: DatabaseFile) -> None:
        super().__init__(disk, DATA)
        self._files = disk
        self._database = database

    def names(self) -> list[str]:
        start = f"{DATA}/"
        return [path[len(start) :] for path in self._files.files() if is_replicated(path[len(start) :])]

    def open_definitions(self) -> DefinitionDatabase:
        return self._database.open(_DEFINITIONS)

    def copy_definitions(self) -> bytes:
        self._files.call("read", _DEFINITIONS)
        return self._database.copy()

    def put_definitions(self, data: memoryview) -> None:
        self._files.call("write", _DEFINITIONS)
        self._database.replace(bytes(data))
        self._files.call("sync", _DEFINITIONS)


@final
class Computer:
    """`leads` is called with a node that recovered in a term, and is asked before clients may connect."""

    def __init__(
        self,
        name: str,
        network: Network,
        service: Service,
        min_in_sync: int,
        segment_bytes: int,
        kept_bytes: int,
        seed: int,
    ) -> None:
        self.name = name
        self.is_up = False
        self.process: Process | None = None
        # The broker while this node leads and serves.
        self.serving: Node | None = None
        self.node: Node | None = None
        self.begins: Callable[[Computer, Node, int], None] = lambda *_: None
        self.served: Callable[[Computer, Node, int], None] = lambda *_: None
        self.ended: Callable[[Computer, BaseException | None], None] = lambda *_: None
        # Told of a node that is gone, and whether its kernel is, too.
        self.lost: Callable[[Node, bool], None] = lambda *_: None
        # What its disk is to do: end the power at this call, fail with this error, or take so long (seconds).
        self.fuse = -1
        self.error = 0
        self.stalled_until = 0.0
        # Whether the disk has failed since the process started.
        self.has_failed = False
        self._network = network
        self.world: World = network.world
        self._service = service
        self._min_in_sync = min_in_sync
        self.segment_bytes = segment_bytes
        self._kept_bytes = kept_bytes
        # Called when the power has failed in a call to the disk.
        self.when_off: Callable[[], None] = lambda: None
        self._chance = random.Random(seed)
        self._put_in_disk()
        self._stop: asyncio.Event | None = None
        self.baton = Baton()

    def __repr__(self) -> str:
        return self.name

    # -- the disk -----------------------------------------------------------------------------------------------

    def _put_in_disk(self) -> None:
        self.disk = SimulatedDisk(self._chance.getrandbits(32))
        self.database = DatabaseFile(self._chance, self.disk, _DEFINITIONS)
        self.disk.trouble = self._trouble
        self.database.trouble = self._trouble

    def replace_disk(self) -> None:
        """The power fails, and all data are lost for ever."""
        self.lose_power()
        self.world.say(self, "gets another disk")
        self.database.discard()
        self._put_in_disk()
        self.disk.is_off = True

    def _trouble(self, what: str, name: str) -> None:
        if self.disk.is_off:
            raise PowerLoss
        if self.fuse >= 0 and not (self.error == errno.ENOSPC and what not in _NEEDS_ROOM):
            self.fuse -= 1
            if self.fuse < 0:
                if self.error:
                    self.world.say("the disk of", self, "fails", what, name, errno.errorcode[self.error])
                    self.has_failed = True
                    if self._chance.random() < 0.5:
                        # It stays broken.
                        self.fuse = 0
                    raise OSError(self.error, os.strerror(self.error), name)
                self.world.say("the power of", self, "fails in", what, name)
                self._die()
                self.world.loop.call_soon(self._power_failed)
                raise PowerLoss
        thread = self.world.running
        stall = self.stalled_until - self.world.now
        if thread is not None:
            if stall > 0:
                thread.sleep(stall)
            elif self._chance.random() < _PAUSE_CHANCE:
                thread.sleep(self._chance.random() * _PAUSE_SECONDS)
        elif self.node is not None and self.node.commit.is_here:
            self.node.commit.pause(max(stall, 0.0))
        elif stall > 0 and self.process is not None:
            # The event loop waits for the disk.
            self.process.stand_still(stall)

    def _power_failed(self) -> None:
        self.lose_power()
        self.when_off()

    def repair(self) -> None:
        """The disk is in order again, and has room."""
        self.fuse, self.error, self.stalled_until = -1, 0, 0.0
        self.disk.capacity = None

    def _die(self) -> None:
        """From now on nothing that the process does has an effect."""
        self.disk.is_off = True
        if self.process is not None:
            self.process.is_dead = True

    # -- processes ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, unless there is one."""
        if self.process is not None:
            return
        self.is_up = True
        self.disk.is_off = False
        self.has_failed = False
        self.world.say(self, "starts")
        self._network.powered.add(self.name)
        process = Process(self.world, self.name, self._chance.getrandbits(32))
        self.process = process
        machine = SimulatedMachine(self._network, process)
        process.loop.call_soon(self._begin, process, machine)

    def _begin(self, process: Process, machine: SimulatedMachine) -> None:
        main = process.loop.create_task(self._serve(process, machine))
        main.add_done_callback(lambda _: self.world.loop.call_soon(self._over, process, main))

    def _over(self, process: Process, main: "asyncio.Task[None]") -> None:
        if process is self.process and not process.is_dead:
            fault = main.exception()
            self.world.say(self, "has ended by itself:", repr(fault))
            self.kill()
            self.ended(self, fault)

    def kill(self) -> None:
        """The process ends without a word; its kernel closes its connections."""
        process = self.process
        if process is None:
            return
        self.world.say(self, "is killed")
        links = [link for link in self._network.links if link.process is process]
        self._bury(process, False)
        for link in links:
            link.ended()

    def _bury(self, process: Process, is_off: bool) -> None:
        self._die()
        process.bury()
        self.baton.kill()
        if self.node is not None:
            self.node.kill()
            self.lost(self.node, is_off)
        self.node = self.serving = self._stop = None
        self.process = None
        self._network.listening.pop(self.name, None)

    def lose_power(self) -> None:
        """What was not synced may be lost, and nobody is told."""
        self.world.say(self, "has no power")
        if self.process is not None:
            self._bury(self.process, True)
        self.is_up = False
        self._network.powered.discard(self.name)
        self.disk.lose_power()
        self.database.lose_power()
        self.disk.is_off = True
        self.fuse, self.error, self.stalled_until = -1, 0, 0.0

    def close(self) -> None:
        """The simulation ends."""
        if self.process is not None:
            self._bury(self.process, True)
        self.database.discard()

    def stop(self) -> None:
        """Ask the process to end, as SIGTERM does."""
        if self._stop is not None and self.process is not None:
            self.world.say(self, "is stopped")
            self.process.loop.call_soon(self._stop.set)

    # -- what a process does ------------------------------------------------------------------------------------

    async def _serve(self, process: Process, machine: SimulatedMachine) -> None:
        """As `flintmq.app.clustered` does it."""
        self._stop = stopped = asyncio.Event()
        membership = Membership(
            SimulatedCoordinator(self._service, process),
            machine,
            SimulatedDirectory(self.disk, self.database),
            CLUSTER,
            self.name,
            machine.address,
            self._min_in_sync,
            self._kept_bytes,
        )
        stop = process.loop.create_task(_wait(stopped))
        participation = Participation(membership, stop, lambda term: _Leader(self, process, membership, term))
        try:
            await participation.join()
            await participation.run()
        finally:
            await membership.close()


@final
class _Leader(Serving):
    """The broker of a computer in one term."""

    def __init__(self, computer: Computer, process: Process, membership: Membership, term: Term) -> None:
        self._computer = computer
        self._process = process
        self._membership = membership
        self._term = term
        self._node: Node | None = None

    async def start(self) -> None:
        computer, term, process = self._computer, self._term, self._process
        self._node = computer.node = node = Node(
            computer.disk,
            computer.database,
            process.loop,
            process.chance,
            computer.baton,
            computer.segment_bytes,
            FRAME_MAX_BYTES,
            self._membership.operations,
            term,
        )
        node.storage.commit()
        computer.begins(computer, node, term.number)
        await term.recovered()
        computer.served(computer, node, term.number)
        node.serve()
        computer.serving = node

    async def stop(self) -> None:
        computer, term = self._computer, self._term
        computer.serving = None
        computer.world.say(computer, "leads no longer:", term.reason)
        if self._node is not None:
            await self._node.stop(PATIENCE_SECONDS, DRAIN_SECONDS if term.is_handed_over else 0.0)
        computer.node = None
        if term.reason == "internal error":
            raise AssertionError(term.reason)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
