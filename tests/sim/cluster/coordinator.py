"""The simulated service that decides: linearizable, with leases on the world's time, and with outages of its own."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, final

from flintmq.cluster.coordinator import (
    Coordinator,
    CoordinatorError,
    Doubt,
    Leader,
    LeaseLost,
    Member,
    OutcomeUnknown,
    View,
)
from flintmq.cluster.etcd import REQUEST_SECONDS, WATCH_SECONDS
from tests.sim.cluster.machine import COORDINATOR, Network
from tests.sim.cluster.process import Process

T = TypeVar("T")
# How late (seconds) the end of a lease may be noticed.
_LEASE_LATE_SECONDS: Final = 0.5
# How late, at most, requests and answers are that are delayed.
_REQUEST_LATE_SECONDS: Final = 4.0
_ANSWER_LATE_SECONDS: Final = 1.0


@final
class Service:
    """What is stored. While it `is_down`, it answers nothing, and leases do not end."""

    def __init__(self, network: Network) -> None:
        self.is_down = False
        # How likely an answer is lost, and how likely a request waits for seconds before it is done, or an answer.
        self.losses = 0.0
        self.delays = 0.0
        # How many changes were asked for that are not made yet.
        self.under_way = 0
        self.revision = 1
        self.leader: Leader | None = None
        self.in_sync: frozenset[str] = frozenset()
        self.in_sync_revision = 0
        self.members: dict[str, Member] = {}
        self.network = network
        # Called when the lease of the leader has ended, and with the nodes that were in sync when others are.
        self.on_lease_end: Callable[[Leader], None] = lambda _: None
        self.on_in_sync: Callable[[frozenset[str]], None] = lambda _: None
        self._world = network.world
        # Each with the lease that it is bound to.
        self._alive: dict[str, int] = {}
        self._doubts: dict[str, tuple[Doubt, int]] = {}
        self._heir: tuple[str, int] = ("", 0)
        self._following: frozenset[str] | None = None
        # When each lease ends, and how long it lasts.
        self._leases: dict[int, tuple[float, float]] = {}
        self._last_lease = 0
        self._watches: list[Callable[[], None]] = []

    # -- leases -------------------------------------------------------------------------------------------------

    def grant(self, ttl: float) -> int:
        self._last_lease += 1
        self._leases[self._last_lease] = (0.0, ttl)
        self.renew(self._last_lease)
        return self._last_lease

    def renew(self, lease: int) -> None:
        self.check(lease)
        _, ttl = self._leases[lease]
        end = self._world.now + ttl
        self._leases[lease] = (end, ttl)
        self._world.loop.call_at(end + self._world.chance.random() * _LEASE_LATE_SECONDS, self._expire, lease, end)

    def check(self, lease: int) -> None:
        if lease not in self._leases:
            raise LeaseLost(f"lease {lease} has ended")

    def _expire(self, lease: int, end: float) -> None:
        if not self.is_down and self._leases.get(lease, (0.0, 0.0))[0] == end:
            self._world.say("the lease", lease, "has ended")
            if self.leader is not None and self.leader.lease == lease:
                self.on_lease_end(self.leader)
            self.revoke(lease)

    def revoke(self, lease: int) -> None:
        if self._leases.pop(lease, None) is None:
            return
        self._alive = {node: bound for node, bound in self._alive.items() if bound != lease}
        self._doubts = {node: (doubt, bound) for node, (doubt, bound) in self._doubts.items() if bound != lease}
        if self._heir[1] == lease:
            self._heir = ("", 0)
        if self.leader is not None and self.leader.lease == lease:
            self.leader = None
        self.change()

    def come_up(self) -> None:
        """It is there again, and all leases last as long as new ones."""
        self.is_down = False
        for lease in list(self._leases):
            self.renew(lease)

    # -- keys ---------------------------------------------------------------------------------------------------

    def change(self) -> int:
        self.revision += 1
        watches, self._watches = self._watches, []
        for tell in watches:
            tell()
        return self.revision

    def watch(self, tell: Callable[[], None]) -> None:
        self._watches.append(tell)

    def view(self) -> View:
        return View(
            self.revision,
            self.leader,
            self.in_sync,
            self.in_sync_revision,
            dict(self.members),
            frozenset(self._alive),
            {node: doubt for node, (doubt, _) in self._doubts.items()},
            self._heir[0],
            None if self.leader is None else self._following,
        )

    def announce(self, node: str, lease: int) -> None:
        self.check(lease)
        self._alive[node] = lease
        self.change()

    def elect(self, seen: View, node: str, lease: int) -> int:
        self.check(lease)
        if not self._leads(0 if seen.leader is None else seen.leader.term) or (
            self.in_sync_revision != seen.in_sync_revision
        ):
            return 0
        term = self.change()
        self.leader = Leader(node, term, lease)
        self._heir = ("", 0)
        self._following = None
        self._world.say(node, "leads in term", term)
        return term

    def _leads(self, term: int) -> bool:
        return term == (0 if self.leader is None else self.leader.term)

    def write_in_sync(self, term: int, revision: int, nodes: frozenset[str]) -> int:
        if not self._leads(term) or self.in_sync_revision != revision:
            return 0
        before, self.in_sync = self.in_sync, nodes
        self.in_sync_revision = self.change()
        self._world.say("in sync:", *sorted(nodes))
        self.on_in_sync(before)
        return self.in_sync_revision

    def write_following(self, term: int, nodes: frozenset[str]) -> None:
        if self._leads(term):
            self._following = nodes
            self.change()

    def doubt(self, node: str, doubt: Doubt | None, lease: int) -> None:
        if doubt is None:
            self._doubts.pop(node, None)
        else:
            self.check(lease)
            self._doubts[node] = (doubt, lease)
        self.change()

    def wish(self, heir: str, lease: int) -> None:
        self.check(lease)
        self._heir = (heir, lease)
        self.change()

    def resign(self, term: int) -> None:
        if self._leads(term):
            self.leader = None
            self.change()

    def put_member(self, member: Member, is_new: bool) -> bool:
        if is_new and member.id in self.members:
            return False
        self.members[member.id] = member
        self.change()
        return True

    def remove_member(self, node: str) -> bool:
        if node in self.in_sync or (self.leader is not None and self.leader.node == node):
            return False
        self.members.pop(node, None)
        self.change()
        return True


@final
class SimulatedCoordinator(Coordinator):
    """The service as a process reaches it."""

    def __init__(self, service: Service, process: Process) -> None:
        self._service = service
        self._process = process
        self._world = process.world

    async def _ask(self, do: Callable[[], T], changes: bool = False) -> T:
        service, network, name = self._service, self._service.network, self._process.name
        chance = self._world.chance
        answer: asyncio.Future[T] = self._process.loop.create_future()

        def arrive() -> None:
            service.under_way -= changes
            if service.is_down or not network.reaches(name, COORDINATOR):
                return
            try:
                result = do()
            except CoordinatorError as error:
                send(partial(answer.set_exception, error))
            else:
                send(partial(answer.set_result, result))

        def send(tell: Callable[[], None]) -> None:
            def tell_if_awaited() -> None:
                if not answer.done():
                    tell()

            if network.reaches(COORDINATOR, name) and chance.random() >= service.losses:
                self._process.loop.call_later(late(_ANSWER_LATE_SECONDS), tell_if_awaited)

        def late(seconds: float) -> float:
            is_late = chance.random() < service.delays
            return network.delay() + (chance.random() * seconds if is_late else 0.0)

        if service.is_down and chance.random() < 0.5:
            raise CoordinatorError("the coordinator refuses connections")
        service.under_way += changes
        self._world.loop.call_later(late(_REQUEST_LATE_SECONDS), arrive)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await answer
        except TimeoutError:
            if changes:
                raise OutcomeUnknown("the coordinator has not answered") from None
            raise CoordinatorError("the coordinator does not answer") from None

    async def grant(self, ttl: int) -> int:
        return await self._ask(lambda: self._service.grant(ttl))

    async def renew(self, lease: int) -> None:
        await self._ask(lambda: self._service.renew(lease))

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: self._service.revoke(lease))

    async def view(self) -> View:
        return await self._ask(self._service.view)

    async def changed(self, revision: int) -> None:
        service, network, name = self._service, self._service.network, self._process.name
        if service.is_down:
            await asyncio.sleep(network.delay())
            raise CoordinatorError("the coordinator has ended a watch")
        event = asyncio.Event()

        def tell() -> None:
            if network.reaches(COORDINATOR, name):
                self._process.loop.call_later(network.delay(), event.set)

        def arrive() -> None:
            if network.reaches(name, COORDINATOR):
                if service.revision > revision:
                    tell()
                else:
                    service.watch(tell)

        self._world.loop.call_later(network.delay(), arrive)
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                await event.wait()
        except TimeoutError:
            return

    async def announce(self, node: str, lease: int) -> None:
        await self._ask(lambda: self._service.announce(node, lease), changes=True)

    async def elect(self, seen: View, node: str, lease: int) -> int:
        return await self._ask(lambda: self._service.elect(seen, node, lease), changes=True)

    async def write_in_sync(self, term: int, revision: int, nodes: frozenset[str]) -> int:
        return await self._ask(lambda: self._service.write_in_sync(term, revision, nodes), changes=True)

    async def write_following(self, term: int, nodes: frozenset[str]) -> None:
        await self._ask(lambda: self._service.write_following(term, nodes), changes=True)

    async def doubt(self, node: str, doubt: Doubt | None, lease: int) -> None:
        await self._ask(lambda: self._service.doubt(node, doubt, lease), changes=True)

    async def wish(self, heir: str, lease: int) -> None:
        await self._ask(lambda: self._service.wish(heir, lease), changes=True)

    async def resign(self, term: int) -> None:
        await self._ask(lambda: self._service.resign(term), changes=True)

    async def put_member(self, member: Member, is_new: bool) -> bool:
        return await self._ask(lambda: self._service.put_member(member, is_new), changes=True)

    async def remove_member(self, node: str) -> bool:
        return await self._ask(lambda: self._service.remove_member(node), changes=True)

    async def close(self) -> None:
        pass
