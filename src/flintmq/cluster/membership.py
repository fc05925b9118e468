"""A node's part in its cluster: it follows the leader, or leads, as the coordinator says.

The coordinator decides who leads, and who is in sync: which nodes hold everything that was confirmed. Terms make it
safe to replace a leader that still lives: its followers do not answer it any more, so that it confirms nothing.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import ConfigurationError
from flintmq.cluster.candidate import Candidate
from flintmq.cluster.coordinator import Coordinator, CoordinatorError, Member
from flintmq.cluster.leading import Followers, History
from flintmq.cluster.lease import LEASE_SECONDS, DiskProbe, Lease
from flintmq.cluster.ports import Directory, Link, Machine
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.server import logs
from flintmq.storage.replication.log import KEPT_BYTES, OperationLog

log = logs.get_logger()

# A follower that is silent for so long is not in sync any more.
FOLLOWER_SILENCE_SECONDS: Final = 2.0
# A coordinator that does not answer at the start is asked again at this interval.
_START_SECONDS: Final = 1.0
# Followers hear of an election as early as the node that was elected, which begins to lead within this time.
_ELECTED_SECONDS: Final = 0.3


@final
class Membership:
    """The node `node` of the cluster, which other nodes reach at `address`.

    Nothing is confirmed as long as fewer than `min_in_sync` nodes are in sync, this one included. A follower that was
    away for a moment gets the operations that it lacks, if they are among the latest `kept_bytes`. Raises
    ConfigurationError if the directory belongs to another node, and StorageError if it cannot be used.
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
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.operations = OperationLog(kept_bytes)
        self._state = NodeState(directory.disk, directory.root, cluster, node)
        self._state.is_empty = not directory.names()
        self._coordinator = coordinator
        self._machine = machine
        self._directory = directory
        self._cluster = cluster
        self._node = node
        self._address = address
        self._min_in_sync = min_in_sync
        self._loop = asyncio.get_running_loop()
        self._probe = DiskProbe(machine, directory)
        self._lease = Lease(coordinator, node, self._probe, self._lease_ended)
        self._candidate = Candidate(
            coordinator, machine, directory, cluster, node, self._state, self.operations, self._lease
        )
        self._followers: Followers | None = None
        self._leads = machine.event()
        self._term: Term | None = None

    def tell_leaders(self, on_leader: Callable[[str, int], None]) -> None:
        """Call `on_leader` with the address and the term of each leader of this node; "" and 0 if there is none."""
        self._candidate.on_leader = on_leader

    async def start(self) -> None:
        """Join the cluster, as soon as the coordinator answers. Other nodes may connect already.

        Raises ConfigurationError if the node's name or address is used by another node.
        """
        self._probe.start()
        self._machine.serve(self._serve)
        told = ""
        while True:
            try:
                await self._join()
                break
            except CoordinatorError as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("the coordinator does not help", reason=told)
                await asyncio.sleep(_START_SECONDS)

    async def _join(self) -> None:
        until = self._loop.time() + LEASE_SECONDS + 1
        while True:
            view = await self._coordinator.view()
            for member in view.members.values():
                if member.id != self._node and member.replication == self._address:
                    raise ConfigurationError(
                        f"cluster.address: node {member.id!r} has {self._address}, too: give each node one of its own"
                    )
            before = view.members.get(self._node)
            if self._node not in view.alive or before is None or before.replication == self._address:
                break
            # This node may have had another address before its restart.
            if self._loop.time() > until:
                raise ConfigurationError(
                    f"cluster.node: another node {self._node!r} runs at {before.replication}: give each node a name "
                    "of its own"
                )
            await asyncio.sleep(_START_SECONDS)
        await self._lease.start()
        await self._coordinator.put_member(Member(self._node, self._node, self._address, __version__), False)

    def _serve(self, link: Link) -> None:
        """Serve a follower, on a thread of its own."""
        self._leads.wait(_ELECTED_SECONDS)
        followers = self._followers
        if followers is None:
            # The other node asks the coordinator again.
            link.close()
        else:
            followers.serve(link)

    def _lease_ended(self, reason: str) -> None:
        if self._term is not None:
            self._term.end(reason)

    async def until_elected(self) -> int:
        """Follow other leaders until this node is elected. Returns its term."""
        return await self._candidate.until_elected()

    async def lead(self, number: int) -> Term:
        """Begin to lead: followers may connect, and what is logged is confirmed by those that are in sync.

        Raises CoordinatorError, StorageError if a later term was seen, and OSError if the disk takes no note of it.
        """
        state, operations = self._state, self.operations
        history = History(number, state.term if state.is_known else 0, operations.newest)
        state.has_joined, state.is_empty = True, False
        noting = asyncio.create_task(self._note(number))
        try:
            view = await self._coordinator.view()
        finally:
            # Nothing else may change the state while a thread writes it.
            await noting
        state.term, state.is_known = number, True
        operations.begin(number)
        if view.leader is None or view.leader.term != number:
            raise CoordinatorError("another node was elected meanwhile")
        if view.leader.lease != self._lease.id:
            # The leadership ends with that lease, and nobody renews it any more.
            raise CoordinatorError("the lease has ended meanwhile")
        followers = Followers(
            self._machine, self._directory, self._cluster, self._node, history, operations, self._tell_changed
        )
        term = Term(
            self._coordinator,
            self._cluster,
            self._node,
            state,
            operations,
            followers,
            view,
            self._min_in_sync,
            self._candidate.replaced,
        )
        self._term = term
        try:
            operations.on_append = followers.wake
            await term.begin()
        except CoordinatorError:
            await self.resign(term)
            raise
        self._followers = followers
        self._leads.set()
        return term

    async def _note(self, number: int) -> None:
        """Note the term, durably. If the disk takes no note of it, resign: nodes with sound disks stand first."""
        try:
            await self._machine.run(lambda: self._state.see(number))
        except OSError:
            self._state.spoil()
            with suppress(CoordinatorError):
                await self._coordinator.resign(number)
            raise

    def _tell_changed(self) -> None:
        term = self._term
        if term is not None:
            term.changed()

    def relay_to(self, serve: Callable[[socket.socket, str], None]) -> None:
        """From now on, `serve` gets the connections over which followers relay clients, with the followers' names.

        It is called on any thread.
        """
        if self._followers is not None:
            self._followers.relay_to(serve)

    async def resign(self, term: Term) -> None:
        """Stop leading: another node may lead at once. The storage must be closed."""
        self._leads.clear()
        self._followers = self._term = None
        await term.resign()

    async def close(self) -> None:
        """Leave: the lease ends with this."""
        self._candidate.close()
        self._machine.close()
        self._probe.close()
        with suppress(CoordinatorError):
            await self._lease.close()
        await self._coordinator.close()
