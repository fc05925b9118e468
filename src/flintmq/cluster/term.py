"""One term of leadership: the node serves followers, and tells the coordinator which of them are in sync."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, final

from flintmq.base.errors import FlintError
from flintmq.cluster.coordinator import Coordinator, CoordinatorError, OutcomeUnknown, View
from flintmq.cluster.leading import Followers
from flintmq.cluster.state import NodeState
from flintmq.server import logs
from flintmq.server.leadership import ClusterNode, ClusterStatus, Leadership
from flintmq.storage.replication.log import OperationLog

log = logs.get_logger()

# At the beginning of a term, the followers that were in sync have so long to connect.
GRACE_SECONDS: Final = 0.5
# The nodes that are in sync are looked at in this interval at least.
_LOOK_SECONDS: Final = 0.25
# If its heir is not elected within this time, a leader that hands over resigns, and any follower may stand.
_HEIR_SECONDS: Final = 0.3
_RETRY_SECONDS: Final = 0.1
# A node that is added waits so long for what was confirmed before.
_JOIN_SECONDS: Final = 1.0
# How many looks are remembered: the time that a follower is behind cannot be longer than these took.
_LOOKS_MAX: Final = 2_400
# Required while too few nodes are in sync: it never acknowledges, so nothing is confirmed.
_NOBODY: Final = ""


class NotLeading(FlintError):
    """This node is not the leader any more."""


@final
class Term(Leadership):
    """The term `number` of the node `node`, after the coordinator has answered with it. `view` is a later one.

    Attributes:
        reason: Why the term has ended; empty before.
        is_handed_over: Whether it ended because somebody wants another node to lead, and not because of a fault.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: str,
        node: str,
        state: NodeState,
        operations: OperationLog,
        followers: Followers,
        view: View,
        min_in_sync: int,
        replaced: str,
    ) -> None:
        self.node = node
        self.reason = ""
        self.is_handed_over = False
        self._has_failed = False
        self.number = followers.history.term
        self._coordinator = coordinator
        self._cluster = cluster
        self._state = state
        self._operations = operations
        self._followers = followers
        self._view = view
        self._min_in_sync = min_in_sync
        # The leader before this one, which is gone.
        self._replaced = replaced
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._in_sync = view.in_sync
        self._in_sync_revision = view.in_sync_revision
        # Nodes that the coordinator may count as in sync, now or later: of writes whose outcome is not known.
        self._uncertain: frozenset[str] = frozenset()
        # The nodes in sync that follow, as the coordinator knows them from this node; None if it may know others.
        self._told: frozenset[str] | None = None
        # What the log says of publishers.
        self._is_short = False
        # The newest operation at each look, and the time of the look.
        self._looks: deque[tuple[int, float]] = deque(maxlen=_LOOKS_MAX)

    async def begin(self) -> None:
        """Count the followers from now on. Raises CoordinatorError."""
        self._followers.in_sync = self._in_sync
        self._require(self._in_sync)
        if self.node not in self._in_sync:
            await self._write_in_sync(frozenset({self.node}))
            self._require(self._in_sync)
        log.info("leading", term=self.number, in_sync=sorted(self._in_sync))
        self._start(self._watch_followers())
        self._start(self._watch_coordinator())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(self._has_ended)
        self._tasks.append(task)

    def _has_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("internal error", exc_info=task.exception())
            self.end("internal error")

    def changed(self) -> None:
        """Look at the followers again. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._changed.set)

    # -- the end ------------------------------------------------------------------------------------------------

    def end(self, reason: str, *, is_handed_over: bool = False) -> None:
        """End the term; the first reason counts."""
        if not self._ended.is_set():
            self.reason = reason
            self.is_handed_over = is_handed_over
            log.warning("no longer the leader", reason=reason)
            self._ended.set()
            if not is_handed_over:
                # The broker may take long to stop, for example on a disk that stalls. Others may lead meanwhile, as
                # they might in any case.
                self._start(self._give_up())

    async def _give_up(self) -> None:
        with suppress(CoordinatorError):
            await self._coordinator.resign(self.number)

    async def until_end(self) -> None:
        await self._ended.wait()

    def failed(self, reason: str) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        # What this node has written since is not known: it copies the files of the next leader, unless it has to lead.
        self._state.spoil()
        self.end(f"the disk has failed: {reason}")

    async def resign(self) -> None:
        """Let another node lead at once. The storage must be closed."""
        for task in self._tasks:
            task.cancel()
        heir = ""
        if self.is_handed_over:
            heirs = self._followers.heirs() & self._in_sync & self._view.alive
            # Whoever has everything need not copy files from the next leader.
            if await self._have_all(self._followers.caught_up()):
                heir = self._view.heir if self._view.heir in heirs else min(heirs, default="")
        self._operations.on_append = None
        if heir:
            self._followers.close(heir)
        # This node stays in sync, because it may have to lead again: the next leader lets it go while it recovers.
        if not heir or not await self._is_replaced():
            with suppress(CoordinatorError):
                await self._coordinator.resign(self.number)
        # By then the followers have heard of it, and need not find out why they lose their connections.
        self._followers.close()

    async def _is_replaced(self) -> bool:
        """Wait until another node is elected in place of this one, but not for long. Returns whether one is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEIR_SECONDS):
                await self._coordinator.until_replaced(self.number, self._view.revision)
                return True
        return False

    # -- the coordinator ----------------------------------------------------------------------------------------

    async def _watch_coordinator(self) -> None:
        while not self._ended.is_set():
            try:
                await self._coordinator.changed(self._view.revision)
                self._view = view = await self._coordinator.view()
            except CoordinatorError:
                # Whether this node may go on leading is decided by its lease.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if view.leader is None or view.leader.term != self.number:
                self.end("another node was elected")
            elif view.heir and view.heir != self.node and view.heir in view.in_sync:
                self.end(f"{view.heir} is to lead", is_handed_over=True)

    async def _watch_followers(self) -> None:
        began = self._loop.time()
        while not self._ended.is_set():
            self._changed.clear()
            if self._followers.seen_term > self.number:
                self.end("another node was elected")
                return
            if self._operations.is_long:
                self._followers.spare_publishers()
            there = self._followers.caught_up() - self._behind_last_look() | {self.node}
            wanted = (self._in_sync - {self._replaced}) | there
            if self._loop.time() - began > GRACE_SECONDS:
                wanted = there
            if len(wanted) < self._min_in_sync:
                # Nothing is confirmed then, so those that were lost have everything still. They stay, because they must
                # be able to lead if it is this node that is cut off from them.
                wanted = (self._in_sync | there) - self._followers.copying()
            staying = wanted & self._in_sync
            if self._min_in_sync <= len(staying) < len(self._in_sync):
                # Those that are gone are let go first, because confirms wait for them.
                wanted = staying
            try:
                if wanted != self._in_sync or self._uncertain:
                    await self._change(wanted)
                await self._tell_following()
            except CoordinatorError as error:
                log.warning("the nodes in sync are not written", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            self._looks.append((self._operations.newest, self._loop.time()))
            if self._loop.time() - began > GRACE_SECONDS:
                self._tell_shortage()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._changed.wait()

    def _tell_shortage(self) -> None:
        shortage = self.shortage()
        if bool(shortage) != self._is_short:
            self._is_short = bool(shortage)
            if shortage:
                log.warning("publishers have to wait", reason=shortage)
            else:
                log.info("publishers may go on")

    def _behind_last_look(self) -> frozenset[str]:
        """The nodes that are not in sync, and lack what was logged at the last look."""
        newest = self._looks[-1][0] if self._looks else self._operations.newest
        coming = self._followers.caught_up() - self._in_sync
        return frozenset(node for node in coming if self._operations.acknowledged(node) < newest)

    async def _change(self, wanted: frozenset[str]) -> None:
        """Write which nodes are in sync. Raises CoordinatorError."""
        added = wanted - self._in_sync
        # Confirms wait for a node from the moment it is required, so it must not be far behind then.
        if added and not await self._have_all(added):
            return
        # Those that are let go must acknowledge until it is known, and those that are added from now on: they are
        # written when they have what was confirmed without them, too.
        self._followers.in_sync = self._in_sync | self._uncertain | wanted
        self._require(self._in_sync | wanted)
        try:
            if not added or await self._have_all(added):
                await self._write_in_sync(wanted)
        except CoordinatorError:
            self._require(self._in_sync)
            raise
        # Not if this was cancelled: then the outcome of a write is not known, and all of them stay required.
        self._require(self._in_sync)

    async def _tell_following(self) -> None:
        """Write which nodes in sync follow, for those who ask the coordinator. Raises CoordinatorError."""
        following = self._in_sync_now()
        if following != self._told:
            self._told = None
            await self._coordinator.write_following(self.number, following)
            self._told = following

    async def _have_all(self, nodes: frozenset[str]) -> bool:
        """Wait for these nodes to have everything that was logged by now. Returns whether they do."""
        newest = self._operations.newest
        until = self._loop.time() + _JOIN_SECONDS
        while any(self._operations.acknowledged(node) < newest for node in nodes):
            if self._loop.time() > until or not nodes <= self._followers.caught_up():
                return False
            await asyncio.sleep(_RETRY_SECONDS / 20)
        return True

    async def _write_in_sync(self, nodes: frozenset[str]) -> None:
        try:
            revision = await self._coordinator.write_in_sync(self.number, self._in_sync_revision, nodes)
        except OutcomeUnknown:
            self._uncertain |= nodes
            revision = 0
        if revision:
            log.info("in sync", nodes=sorted(nodes))
            self._in_sync, self._in_sync_revision = nodes, revision
            # The comparison of an earlier write fails from now on.
            self._uncertain = frozenset()
        else:
            view = await self._coordinator.view()
            if view.leader is None or view.leader.term != self.number:
                self.end("another node was elected")
                return
            if view.in_sync_revision != self._in_sync_revision:
                self._uncertain = frozenset()
            self._in_sync, self._in_sync_revision = view.in_sync, view.in_sync_revision
        self._followers.in_sync = self._in_sync | self._uncertain

    def _require(self, nodes: frozenset[str]) -> None:
        required = (nodes | self._uncertain) - {self.node}
        if len(self._in_sync) < self._min_in_sync:
            required |= {_NOBODY}
        self._operations.require(required)

    # -- what the broker asks -----------------------------------------------------------------------------------

    async def recovered(self) -> None:
        done = asyncio.Event()

        def tell() -> None:
            self._loop.call_soon_threadsafe(done.set)

        self._operations.when_confirmed(tell)
        shortage = self.shortage()
        if shortage:
            log.warning("clients may connect when more nodes are in sync", reason=shortage)
        waits = [self._loop.create_task(done.wait()), self._loop.create_task(self._ended.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if self._ended.is_set():
            raise NotLeading(f"this node does not lead any more: {self.reason}")

    def _in_sync_now(self) -> frozenset[str]:
        """The nodes in sync that are there."""
        return self._in_sync & (self._followers.caught_up() | {self.node})

    def shortage(self) -> str:
        count = len(self._in_sync_now())
        if count < self._min_in_sync:
            return f"{count} of {self._min_in_sync} nodes in sync"
        if self._operations.is_long:
            return "a node has to catch up"
        return ""

    def status(self) -> ClusterStatus:
        view = self._view
        in_sync = self._in_sync_now()
        nodes = [
            ClusterNode(
                member.id,
                member.replication,
                member.version,
                member.id == self.node or member.id in view.alive,
                member.id == self.node,
                member.id in in_sync,
                *self._behind(member.id),
            )
            for member in view.members.values()
        ]
        nodes.sort(key=lambda node: node.name)
        return ClusterStatus(self._cluster, self.number, self._min_in_sync, tuple(nodes))

    def _behind(self, node: str) -> tuple[int | None, float | None]:
        """The bytes and the seconds that a follower is behind; None if it does not follow."""
        if node == self.node:
            return 0, 0.0
        if node not in self._followers.caught_up():
            return None, None
        number = self._operations.acknowledged(node)
        since = next((at for newest, at in self._looks if newest > number), None)
        return self._operations.bytes_after(number), 0.0 if since is None else self._loop.time() - since
