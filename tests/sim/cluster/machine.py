"""The network between simulated nodes: messages arrive late and in order, or wait for the end of a partition."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

from flintmq.cluster import wire
from flintmq.cluster.machine import CONNECT_SECONDS
from flintmq.cluster.membership import FOLLOWER_SILENCE_SECONDS
from flintmq.cluster.ports import Event, Link, LinkError, Machine, NobodyListens, Silent
from tests.sim.cluster.process import Process, SimulatedThread, World
from tests.sim.disk import PowerLoss

# The coordinator's name in the network.
COORDINATOR: Final = "coordinator"
# What the kernels on both sides hold: whoever sends more waits until the other side has read.
_WINDOW_BYTES: Final = 100_000
# How likely a thread pauses behind a message that it has sent or received.
_PAUSE_CHANCE: Final = 0.05


@final
class Network:
    """Who reaches whom. `listening` are the processes by the addresses of their nodes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.latency = 0.0005
        # Pairs of names between which nothing gets from the first to the second.
        self.cuts: set[tuple[str, str]] = set()
        # The machines that have power. Those without answer nothing, not even that nobody listens.
        self.powered: set[str] = set()
        self.listening: dict[str, SimulatedMachine] = {}
        self.links: dict[SimulatedLink, None] = {}
        # Called with the name of a node that begins to copy the files of its leader.
        self.on_copy: Callable[[str], None] = lambda _: None

    def delay(self) -> float:
        return self.world.chance.random() * self.latency

    def reaches(self, source: str, target: str) -> bool:
        return (source, target) not in self.cuts

    def cut_off(self, name: str) -> None:
        """Nothing gets to a node or from it."""
        others = {*self.listening, *self.powered, COORDINATOR} - {name}
        self.cuts |= {(name, other) for other in others} | {(other, name) for other in others}

    def heal(self) -> None:
        self.cuts.clear()
        for link in list(self.links):
            link.carry_held()


@final
class SimulatedLink(Link):
    """One end of a connection between two nodes, whose other end is silent for at most so many seconds."""

    def __init__(self, network: Network, process: Process, other: str, silence_seconds: float) -> None:
        self.process = process
        self.peer: SimulatedLink | None = None
        self._network = network
        self._other = other
        self._silence_seconds = silence_seconds
        self._inbox: deque[tuple[int, memoryview]] = deque()
        self._under_way = 0
        self._is_closed = False
        # The other side has closed, which is known when everything before has been read; or why it is broken.
        self._has_ended = False
        self._broken = ""
        self._waiting: list[SimulatedThread] = []
        # When the latest message arrives: none overtakes another.
        self._arrival = 0.0
        # What does not get through at present; None says that the other side has closed.
        self._held: deque[tuple[int, memoryview] | None] = deque()
        network.links[self] = None

    def _wait(self, seconds: float) -> bool:
        thread = self._network.world.running
        assert thread is not None, "only threads may wait for other nodes"
        self._waiting.append(thread)
        try:
            return thread.wait(seconds)
        finally:
            self._waiting.remove(thread)

    def _wake(self) -> None:
        for thread in self._waiting:
            thread.wake()

    def _pause(self) -> None:
        thread = self._network.world.running
        chance = self.process.chance
        if thread is not None and chance.random() < _PAUSE_CHANCE:
            thread.sleep(chance.random() * 0.003)

    def _check(self) -> None:
        if self.process.is_dead:
            raise PowerLoss
        if self._is_closed:
            raise LinkError("the connection to the other node is broken (closed here)")
        if self._broken:
            raise LinkError(self._broken)

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        self._check()
        if kind == wire.LIST:
            self._network.world.loop.call_soon(self._network.on_copy, self.process.name)
        data = b"".join(parts)
        while self._under_way > _WINDOW_BYTES:
            if not self._wait(self._silence_seconds):
                raise Silent("the other node takes nothing")
            self._check()
        self._under_way += len(data)
        self._carry((kind, memoryview(data)))
        self._pause()

    def _carry(self, message: tuple[int, memoryview] | None) -> None:
        world = self._network.world
        self._arrival = max(self._arrival, world.now + self._network.delay())
        world.loop.call_at(self._arrival, self._arrive, message)

    def _arrive(self, message: tuple[int, memoryview] | None) -> None:
        peer = self.peer
        assert peer is not None
        if self._held or not self._network.reaches(self.process.name, self._other):
            self._held.append(message)
            return
        if peer.process.is_dead or peer._is_closed:
            if message is not None and self._other in self._network.powered:
                # Its kernel knows no such connection.
                self._network.world.loop.call_later(self._network.delay(), self.reset)
            return
        if message is None:
            peer._has_ended = True
        else:
            peer._inbox.append(message)
        peer._wake()

    def carry_held(self) -> None:
        held, self._held = self._held, deque()
        for message in held:
            self._carry(message)

    def receive(self) -> tuple[int, memoryview]:
        # Whoever waits is also woken when the other side has read what was sent to it: that is no word from it.
        until = self._network.world.now + self._silence_seconds
        while True:
            if self.process.is_dead:
                raise PowerLoss
            if self._is_closed:
                raise LinkError("the connection to the other node is broken (closed here)")
            if self._inbox:
                message = self._inbox.popleft()
                peer = self.peer
                assert peer is not None
                has_waited = peer._under_way > _WINDOW_BYTES
                peer._under_way -= len(message[1])
                if has_waited:
                    peer._wake()
                self._pause()
                return message
            if self._has_ended:
                raise LinkError("the other node has closed the connection")
            self._check()
            if not self._wait(until - self._network.world.now) and not self._inbox and not self._has_ended:
                raise Silent("the other node is silent")

    def close(self) -> None:
        # What a killed process leaves open is closed by its kernel, if that lives: see `ended`.
        if not self._is_closed and not self.process.is_dead:
            self._is_closed = True
            self._wake()
            self._carry(None)
            self._forget()

    def _forget(self) -> None:
        if self.peer is not None and (self.peer._is_closed or self.peer.process.is_dead):
            self._network.links.pop(self, None)
            self._network.links.pop(self.peer, None)

    def ended(self) -> None:
        """The process has ended, and its kernel tells the other side."""
        if not self._is_closed:
            self._is_closed = True
            self._carry(None)
            self._forget()

    def reset(self) -> None:
        """The connection breaks, on this side."""
        if not self._is_closed and not self._broken:
            self._broken = "the connection to the other node is broken (reset)"
            self._inbox.clear()
            self._wake()


@final
class SimulatedEvent(Event):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_set = False
        self._waiting: list[SimulatedThread] = []

    def set(self) -> None:
        self._is_set = True
        for thread in self._waiting:
            thread.wake()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        thread = self._process.world.running
        assert thread is not None
        end = self._process.world.now + seconds
        self._waiting.append(thread)
        try:
            while not self._is_set and self._process.world.now < end:
                thread.wait(end - self._process.world.now)
        finally:
            self._waiting.remove(thread)
        return self._is_set


@final
class SimulatedMachine(Machine):
    """The threads and the network of one process, which other nodes reach at the name of its node, port 1."""

    def __init__(self, network: Network, process: Process) -> None:
        self.process = process
        self._network = network
        self._serve: Callable[[Link], None] | None = None
        self._accepted: list[Link] = []
        network.listening[process.name] = self

    @property
    def address(self) -> str:
        return f"{self.process.name}:1"

    def connect(self, address: str, silence_seconds: float) -> Link:
        if self.process.is_dead:
            raise PowerLoss
        thread = self.process.world.running
        assert thread is not None, "only threads may wait for other nodes"
        network = self._network
        name = self.process.name
        other, _, _ = address.rpartition(":")
        thread.sleep(network.delay() + network.delay())
        if other not in network.powered or not (network.reaches(name, other) and network.reaches(other, name)):
            thread.sleep(CONNECT_SECONDS)
            raise Silent(f"there is no answer from {address}")
        there = network.listening.get(other)
        if there is None:
            raise NobodyListens(f"nobody listens at {address}")
        here = SimulatedLink(network, self.process, other, silence_seconds)
        peer = SimulatedLink(network, there.process, name, FOLLOWER_SILENCE_SECONDS)
        here.peer, peer.peer = peer, here
        there.accept(peer)
        return here

    def accept(self, link: Link) -> None:
        serve = self._serve
        if serve is None:
            self._accepted.append(link)
        else:
            self.process.start_thread(lambda: serve(link))

    def serve(self, serve: Callable[[Link], None]) -> None:
        self._serve = serve
        accepted, self._accepted = self._accepted, []
        for link in accepted:
            self.accept(link)

    def start(self, work: Callable[[], None]) -> Callable[[], None]:
        return self.process.start_thread(work).join

    def run(self, work: Callable[[], None]) -> Awaitable[None]:
        loop = self.process.loop
        future: asyncio.Future[None] = loop.create_future()

        def finish(fault: Exception | None) -> None:
            if future.done():
                return
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)

        def do() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
                loop.call_soon(finish, error)
            else:
                loop.call_soon(finish, None)

        self.process.start_thread(do)
        return future

    def event(self) -> Event:
        return SimulatedEvent(self.process)

    def close(self) -> None:
        if self._network.listening.get(self.process.name) is self:
            del self._network.listening[self.process.name]
