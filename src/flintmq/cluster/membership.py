"""A node's part in its cluster: it follows the leader, or leads, as the coordinator says.

The coordinator decides who leads, and who is in sync: which nodes hold everything that was confirmed. Terms make it
safe to replace a leader that still lives: its followers do not answer it any more, so that it confirms nothing.
"""

import asyncio
from contextlib import suppress
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import ConfigurationError, StorageError
from flintmq.cluster.coordinator import Coordinator, CoordinatorError, LeaseLost, Member, OutcomeUnknown, View
from flintmq.cluster.following import Following
from flintmq.cluster.leading import Followers, History
from flintmq.cluster.ports import Directory, Link, LinkError, Machine, NobodyListens
from flintmq.cluster.state import NodeState
from flintmq.server import logs
from flintmq.storage.replication.log import OperationLog

log = logs.get_logger()

# A leader that does not renew its lease can be replaced after this time, in seconds.
LEASE_SECONDS: Final = 3
RENEW_SECONDS: Final = 1.0
# A leader steps down if it could not renew its lease for so long: before the lease has ended.
STEP_DOWN_SECONDS: Final = 2.5
# How long one side of a connection between nodes may be silent.
SILENCE_SECONDS: Final = 2.0
# At the beginning of a term, the followers that were in sync have so long to connect.
GRACE_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 0.1
# Required while too few nodes are in sync: it never acknowledges, so nothing is confirmed.
_NOBODY: Final = ""


@final
class Membership:
    """The node `node` of the cluster, which other nodes reach at `address`.

    Nothing is confirmed as long as fewer than `min_in_sync` nodes are in sync, this one included.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        machine: Machine,
        directory: Directory,
        cluster: str,
        node: str,
        address: str,
        min_in_sync: int,
    ) -> None:
        directory.disk.make_directory(directory.root)
        self.operations = OperationLog()
        self._state = NodeState(directory.disk, directory.root, cluster, node)
        self._coordinator = coordinator
        self._machine = machine
        self._directory = directory
        self._cluster = cluster
        self._node = node
        self._address = address
        self._min_in_sync = min_in_sync
        self._lease = 0
        self._renewed_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._deposed = asyncio.Event()
        self._followers: Followers | None = None
        self._following: Following | None = None
        # The leader that this node followed last: if this node is elected, that one is gone.
        self._replaced = ""
        self._in_sync: frozenset[str] = frozenset()
        self._in_sync_revision = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join the cluster. Raises CoordinatorError, and ConfigurationError if the node's address is used by another.

        Other nodes may connect from now on.
        """
        view = await self._coordinator.view()
        for member in view.members.values():
            if member.id != self._node and member.replication == self._address:
                raise ConfigurationError(
                    f"cluster.address: node {member.id!r} has {self._address}, too: give each node one of its own"
                )
        await self._renew_or_grant()
        await self._coordinator.put_member(Member(self._node, self._node, self._address, __version__), False)
        self._tasks.append(self._loop.create_task(self._keep_alive()))
        self._machine.serve(self._serve)

    def _serve(self, link: Link) -> None:
        """Serve a follower, on a thread of its own."""
        followers = self._followers
        if followers is None:
            # The other node asks the coordinator again.
            link.close()
        else:
            followers.serve(link)

    # -- the lease ----------------------------------------------------------------------------------------------

    async def _renew_or_grant(self) -> None:
        asked_at = self._loop.time()
        if self._lease:
            try:
                await self._coordinator.renew(self._lease)
            except LeaseLost:
                self._lease = 0
                self._step_down("the lease has ended")
        if not self._lease:
            lease = await self._coordinator.grant(LEASE_SECONDS)
            await self._coordinator.announce(self._node, lease)
            self._lease = lease
        self._renewed_at = asked_at

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                async with asyncio.timeout(STEP_DOWN_SECONDS):
                    await self._renew_or_grant()
            except (CoordinatorError, TimeoutError) as error:
                log.warning("lease not renewed", reason=str(error) or "no answer")
                if self._loop.time() - self._renewed_at > STEP_DOWN_SECONDS:
                    self._step_down("the coordinator does not answer")

    def _step_down(self, reason: str) -> None:
        if self._followers is not None and not self._deposed.is_set():
            log.warning("no longer the leader", reason=reason)
            self._deposed.set()

    # -- following ----------------------------------------------------------------------------------------------

    async def until_elected(self) -> int:
        """Follow other leaders until this node is elected. Returns its term; the log goes on with it."""
        self._replaced = ""
        while True:
            try:
                view = await self._coordinator.view()
                term = await self._elect(view)
                if term:
                    return term
                term = await self._follow(view)
                if term:
                    return term
            except CoordinatorError as error:
                log.warning("the coordinator does not help", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _elect(self, view: View, replaces: bool = False) -> int:
        """Try to become the leader. Returns the term, or 0."""
        leader = view.leader
        may_lead = self._state.is_whole and (self._node in view.in_sync or view.in_sync_revision == 0)
        if not may_lead or not self._lease or (leader is not None and leader.node != self._node and not replaces):
            return 0
        try:
            return await self._coordinator.elect(view, self._node, self._lease)
        except (OutcomeUnknown, LeaseLost):
            return 0

    async def _follow(self, view: View) -> int:
        """Follow the leader as long as that is possible. Returns the term if this node has replaced it, or 0."""
        leader = view.leader
        member = None if leader is None else view.members.get(leader.node)
        if leader is None or member is None or leader.node == self._node:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._coordinator.changed(view.revision)
            return 0
        address = member.replication
        following = Following(self._machine, self._directory, self._cluster, self._state, self.operations)
        self._following = following
        self._replaced = leader.node
        log.info("following", leader=leader.node, term=leader.term)
        watching = self._loop.create_task(self._watch_leader(leader.term, view.revision, following))
        try:
            await self._machine.run(lambda: following.run(address, leader.term))
        except LinkError as error:
            log.warning("not following", leader=leader.node, reason=str(error))
        except (StorageError, OSError) as error:
            log.warning("cannot follow", leader=leader.node, reason=str(error))
            await asyncio.sleep(SILENCE_SECONDS)
        finally:
            watching.cancel()
            self._following = None
        if await self._is_dead(address):
            # Nobody listens there: its process has ended, and its lease need not be waited for.
            seen = await self._coordinator.view()
            if seen.leader is not None and seen.leader.term == leader.term:
                term = await self._elect(seen, replaces=True)
                if term:
                    return term
        await asyncio.sleep(RETRY_SECONDS / 2)
        return 0

    async def _watch_leader(self, term: int, revision: int, following: Following) -> None:
        """Stop following when the leadership has ended, because the leader may be silent only."""
        while True:
            try:
                await self._coordinator.changed(revision)
                view = await self._coordinator.view()
            except CoordinatorError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            revision = view.revision
            if view.leader is None or view.leader.term != term:
                following.close()
                return

    async def _is_dead(self, address: str) -> bool:
        is_dead = False

        def look() -> None:
            nonlocal is_dead
            try:
                self._machine.connect(address).close()
            except NobodyListens:
                is_dead = True
            except LinkError:
                pass

        await self._machine.run(look)
        return is_dead

    # -- leading ------------------------------------------------------------------------------------------------

    async def lead(self, term: int) -> None:
        """Begin to lead: followers may connect, and what is logged is confirmed by those that are in sync."""
        state = self._state
        history = History(term, state.term, self.operations.newest)
        state.see(term)
        state.term, state.is_known = term, True
        self._deposed.clear()
        view = await self._coordinator.view()
        self._in_sync, self._in_sync_revision = view.in_sync, view.in_sync_revision
        followers = Followers(
            self._machine,
            self._directory,
            self._cluster,
            self._node,
            history,
            self.operations,
            self._tell_changed,
        )
        if self._node not in self._in_sync:
            await self._write_in_sync(term, frozenset({self._node}))
        self._require()
        self.operations.on_append = followers.wake
        self._followers = followers
        log.info("leading", term=term, in_sync=sorted(self._in_sync))
        self._tasks.append(self._loop.create_task(self._watch_followers(term, followers)))

    def _tell_changed(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _watch_followers(self, term: int, followers: Followers) -> None:
        began = self._loop.time()
        while not self._deposed.is_set():
            self._changed.clear()
            if followers.seen_term > term:
                self._step_down("another node was elected")
                return
            there = followers.caught_up() | {self._node}
            wanted = (self._in_sync - {self._replaced}) | there
            if self._loop.time() - began > GRACE_SECONDS:
                wanted = there
            try:
                if wanted != self._in_sync:
                    # Those that are added must acknowledge from now on, and those that are let go until it is known.
                    self._require(wanted)
                    await self._write_in_sync(term, wanted)
                    self._require()
            except CoordinatorError as error:
                log.warning("the nodes in sync are not written", reason=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS / 2):
                    await self._changed.wait()

    async def _write_in_sync(self, term: int, nodes: frozenset[str]) -> None:
        try:
            revision = await self._coordinator.write_in_sync(term, self._in_sync_revision, nodes)
        except OutcomeUnknown:
            revision = 0
        if not revision:
            view = await self._coordinator.view()
            if view.leader is None or view.leader.term != term:
                self._step_down("another node was elected")
                return
            self._in_sync, self._in_sync_revision = view.in_sync, view.in_sync_revision
            return
        log.info("in sync", nodes=sorted(nodes))
        self._in_sync, self._in_sync_revision = nodes, revision

    def _require(self, more: frozenset[str] = frozenset()) -> None:
        required = (self._in_sync | more) - {self._node}
        if len(self._in_sync) < self._min_in_sync:
            required |= {_NOBODY}
        self.operations.require(required)

    async def confirmed(self) -> None:
        """Wait until the followers have everything that was logged by now, or this node leads no longer."""
        done = asyncio.Event()

        def tell() -> None:
            self._loop.call_soon_threadsafe(done.set)

        self.operations.when_confirmed(tell)
        if len(self._in_sync) < self._min_in_sync:
            log.warning(
                "clients may connect when more nodes are in sync",
                in_sync=sorted(self._in_sync),
                min_in_sync=self._min_in_sync,
            )
        waits = [self._loop.create_task(done.wait()), self._loop.create_task(self._deposed.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def until_deposed(self) -> None:
        await self._deposed.wait()

    async def resign(self, term: int) -> None:
        """Stop leading: another node may lead at once."""
        followers, self._followers = self._followers, None
        self.operations.on_append = None
        if followers is not None:
            followers.close()
        with suppress(CoordinatorError):
            if self._in_sync > {self._node}:
                # The next leader need not wait for this node.
                await self._write_in_sync(term, self._in_sync - {self._node})
            await self._coordinator.resign(term)

    async def close(self) -> None:
        """Leave: the lease ends with this."""
        for task in self._tasks:
            task.cancel()
        if self._following is not None:
            self._following.close()
        self._machine.close()
        if self._lease:
            with suppress(CoordinatorError):
                await self._coordinator.revoke(self._lease)
        await self._coordinator.close()
