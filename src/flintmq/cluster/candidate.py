"""A node that does not lead: it follows the leader, and stands for election when there is none any more."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.cluster.coordinator import Coordinator, CoordinatorError, Doubt, Leader, LeaseLost, OutcomeUnknown, View
from flintmq.cluster.following import Following, HandedOver
from flintmq.cluster.lease import Lease
from flintmq.cluster.ports import Directory, LinkError, Machine, NobodyListens, Refusal, Silent
from flintmq.cluster.state import NodeState
from flintmq.server import logs
from flintmq.storage.replication.log import OperationLog

log = logs.get_logger()

RETRY_SECONDS: Final = 0.1
# After a refusal, or an error of its own disk, a node waits so long before it follows again.
PAUSE_SECONDS: Final = 2.0
# Followers that hear nothing of their leader wait so long for others that hear nothing, either.
DOUBT_SECONDS: Final = 1.0
# A node that has less than others, or has not heard of all others, lets them be elected for so long.
BEHIND_SECONDS: Final = 0.4
MISSING_SECONDS: Final = 0.15
# A node whose disk has failed lets the others be elected for so long.
SOUND_FIRST_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.01
# A connection to a leader that may be dead is tried for so long.
_CONNECT_SECONDS: Final = 0.5


@final
class Candidate:
    """The node `node`, as long as it does not lead."""

    def __init__(
        self,
        coordinator: Coordinator,
        machine: Machine,
        directory: Directory,
        cluster: str,
        node: str,
        state: NodeState,
        operations: OperationLog,
        lease: Lease,
    ) -> None:
        # The leader that this node has followed last: if this node is elected, that one is gone.
        self._last: Leader | None = None
        # The term of the last leader that has handed over: it serves nobody any more, whatever the coordinator says.
        self._handed_over = 0
        # When this node saw first that no other node leads; None if one does.
        self._without_leader_since: float | None = None
        # The latest view in which the leader that this node follows led.
        self._view: View | None = None
        # Called with the address and the term of each leader that this node may follow; "" and 0 if there is none.
        self.on_leader: Callable[[str, int], None] = lambda *_: None
        self._coordinator = coordinator
        self._machine = machine
        self._directory = directory
        self._cluster = cluster
        self._node = node
        self._state = state
        self._operations = operations
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._following: Following | None = None
        # The last line of the log about what keeps this node from following, so that it is not repeated.
        self._told = ""

    @property
    def replaced(self) -> str:
        """The leader that this node has followed before it was elected; empty if there was none."""
        return "" if self._last is None else self._last.node

    async def until_elected(self) -> int:
        """Follow other leaders until this node is elected. Returns its term."""
        self._last = None
        self._without_leader_since = None
        while True:
            try:
                view = await self._coordinator.view()
                self._tell_leader(view)
                term = await self._take_part(view)
                if term:
                    return term
            except CoordinatorError as error:
                self._tell("the coordinator does not help", str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _take_part(self, view: View) -> int:
        """Stand for election, or follow the leader in `view`. Returns the term, or 0."""
        leader = view.leader
        if self._another_leads(view):
            self._without_leader_since = None
        elif self._without_leader_since is None:
            self._without_leader_since = self._loop.time()
        if self._last is not None and (leader is None or leader.term == self._handed_over):
            # If another node is elected meanwhile, it is not the one in `view`.
            return await self._succeed(self._last, is_dead=True)
        return await self._campaign(view) or await self._follow(view)

    def _tell_leader(self, view: View) -> None:
        leader = view.leader
        member = None if leader is None or leader.node == self._node else view.members.get(leader.node)
        if leader is None or member is None:
            self.on_leader("", 0)
        else:
            self.on_leader(member.replication, leader.term)

    def _tell(self, event: str, reason: str, **facts: object) -> None:
        if reason != self._told:
            self._told = reason
            log.warning(event, reason=reason, **facts)

    # -- elections ----------------------------------------------------------------------------------------------

    async def _campaign(self, view: View) -> int:
        """Stand for election if nobody else leads. Returns the term, or 0."""
        return 0 if self._another_leads(view) else await self._stand(view)

    async def _stand(self, view: View) -> int:
        """Stand for election in place of the leader in `view`, if that is possible now. Returns the term, or 0."""
        if not self._may_lead(view):
            return 0
        if view.heir != self._node and view.heir in view.in_sync & view.alive:
            # That node is to be elected.
            return 0
        try:
            return await self._coordinator.elect(view, self._node, self._lease.id)
        except (OutcomeUnknown, LeaseLost):
            return 0

    def _may_lead(self, view: View) -> bool:
        if not self._lease.id or not self._state.is_whole:
            return False
        if view.in_sync_revision:
            # The first node of a cluster has no data until it has led. If no other node is in sync, it may lead.
            is_lost = not self._state.has_joined or (self._state.is_empty and view.in_sync != {self._node})
            if self._node in view.in_sync and is_lost:
                others = ", ".join(sorted(view.in_sync - {self._node})) or "none"
                self._tell(
                    "this node has lost its data",
                    f"{self._directory.root} is not the directory with which it was in sync: start another node that "
                    f"is in sync ({others}), and it copies the files of that one",
                )
                return False
            return self._node in view.in_sync and (self._state.is_sound or self._is_needed(view))
        if self._state.seen_term:
            self._tell(
                "the coordinator has lost this cluster",
                f"this node has seen term {self._state.seen_term}, and there is no record of any: restore the data of "
                "the coordinator, or see docs/cluster.md for how to begin again",
            )
            return False
        return True

    def _is_needed(self, view: View) -> bool:
        """Whether this node, whose disk has failed, is to lead, because no node with a sound disk does.

        It has all that was confirmed, because nothing is confirmed before it is synced. So it leads at once if no other
        node is in sync, and after a while if none of them could be elected: all disks may have been full.
        """
        since = self._without_leader_since
        if since is None or self._another_leads(view):
            return False
        return view.in_sync == {self._node} or self._loop.time() - since > SOUND_FIRST_SECONDS

    def _another_leads(self, view: View) -> bool:
        return view.leader is not None and view.leader.node != self._node

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
        following = Following(self._machine, self._directory, self._cluster, self._state, self._operations)
        self._following = following
        self._last = leader
        self._note(view)
        watching = self._loop.create_task(self._watch_leader(leader.term, view.revision, following))
        try:
            return await self._follow_leader(leader, address, following, watching)
        finally:
            watching.cancel()

    async def _follow_leader(
        self, leader: Leader, address: str, following: Following, watching: "asyncio.Task[None]"
    ) -> int:
        """Follow a leader until it is lost, or `watching` sees another one. Returns the term, or 0."""
        try:
            await self._machine.run(lambda: following.run(address, leader.term))
        except Refusal as error:
            self._tell("not following", str(error), leader=leader.node)
            await asyncio.sleep(PAUSE_SECONDS)
            return 0
        except Silent as error:
            self._tell("not following", str(error), leader=leader.node)
            return await self._succeed(leader, is_dead=False)
        except HandedOver as error:
            log.info("the leader hands over", leader=leader.node, heir=error.heir)
            self._told = ""
            self._handed_over = leader.term
            return await self._inherit(leader.term, error.heir, watching)
        except LinkError as error:
            self._tell("not following", str(error), leader=leader.node)
        except (StorageError, OSError) as error:
            self._tell("cannot follow", str(error), leader=leader.node)
            await asyncio.sleep(PAUSE_SECONDS)
            return 0
        finally:
            following.close()
            self._following = None
        if following.has_followed:
            self._told = ""
        if not watching.done() and await self._is_dead(address):
            # Nobody listens there: its process has ended, and its lease need not be waited for.
            return await self._succeed(leader, is_dead=True)
        await asyncio.wait([watching], timeout=RETRY_SECONDS / 2)
        return 0

    async def _inherit(self, term: int, heir: str, watching: "asyncio.Task[None]") -> int:
        """Stand for election if this node is the heir of the leader of `term`. Otherwise wait a while until `watching`
        sees the heir elected. Returns the term of this node, or 0.
        """
        if heir != self._node:
            await asyncio.wait([watching], timeout=MISSING_SECONDS)
            return 0
        # If the nodes in sync have changed since the latest view, or another node was elected, this one is not.
        elected = 0 if self._view is None else await self._stand(self._view)
        if elected:
            return elected
        view = await self._coordinator.view()
        return await self._stand(view) if view.leader is not None and view.leader.term == term else 0

    async def _watch_leader(self, term: int, revision: int, following: Following) -> None:
        """Stop following when the leadership has ended, because the leader may be silent only."""
        await self._coordinator.until_replaced(term, revision, self._note)
        following.close()

    def _note(self, view: View) -> None:
        self._view = view

    # -- leaders that are dead or silent ------------------------------------------------------------------------

    async def _is_dead(self, address: str) -> bool:
        is_dead = False

        def look() -> None:
            nonlocal is_dead
            try:
                self._machine.connect(address, _CONNECT_SECONDS).close()
            except NobodyListens:
                is_dead = True
            except LinkError:
                pass

        await self._machine.run(look)
        return is_dead

    async def _succeed(self, lost: Leader, is_dead: bool) -> int:
        """Replace a leader that is gone. Returns the term, or 0.

        One that is only silent is gone if most of the followers in sync hear nothing of it: a single one may have lost
        its own connection only. The follower that has most of its operations is to be elected, because the others would
        have to copy files to follow one that has less.
        """
        number = self._operations.newest if self._state.is_known and self._state.term == lost.term else 0
        began = self._loop.time()
        try:
            await self._coordinator.doubt(self._node, Doubt(lost.term, number), self._lease.id)
            while (waited := self._loop.time() - began) < DOUBT_SECONDS:
                view = await self._coordinator.view()
                if view.leader is not None and view.leader.term != lost.term:
                    return 0
                followers = view.in_sync - {lost.node}
                numbers = {
                    node: doubt.number
                    for node, doubt in view.doubts.items()
                    if node in followers and doubt.term == lost.term
                }
                if is_dead or view.leader is None or 2 * len(numbers) > len(followers):
                    is_behind = max(numbers.values(), default=0) > number and waited < BEHIND_SECONDS
                    is_missing = not followers & view.alive <= numbers.keys() and waited < MISSING_SECONDS
                    if not is_behind and not is_missing:
                        term = await self._stand(view)
                        if term:
                            return term
                await asyncio.sleep(_LOOK_SECONDS)
            await self._coordinator.doubt(self._node, None, self._lease.id)
        except (LeaseLost, OutcomeUnknown):
            await asyncio.sleep(RETRY_SECONDS)
        return 0

    def close(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.close()
