"""Ways to break a cluster, to see that the simulator finds each: `python -m tests.sim.cluster.sabotage` says how soon.

They replace functions of the nodes while these run, so FlintMQ has to be interpreted (PYTHONPATH=src).
"""

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from flintmq.cluster import wire
from flintmq.cluster.candidate import Candidate
from flintmq.cluster.coordinator import View
from flintmq.cluster.following import Following
from flintmq.cluster.leading import History, _FollowerLink
from flintmq.cluster.lease import DiskProbe, Lease
from flintmq.cluster.ports import Link
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.storage.replication import operation
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.replication.operation import Operation
from flintmq.storage.replication.replica import Replica
from tests.sim.cluster.run import Run
from tests.sim.sabotage import Patch, tell

# -- followers ----------------------------------------------------------------------------------------------------


def confirm_before_followers(patch: Patch) -> None:
    """A batch is durable when the leader has synced it, whatever its followers have."""
    patch.setattr(OperationLog, "when_confirmed", lambda self, call: call())


def acknowledge_before_the_sync(patch: Patch) -> None:
    """A follower acknowledges operations when it gets them, before it makes and syncs them."""
    original = Following._make

    def make(self: Following, link: Link, body: memoryview) -> None:
        number, operations = wire.unpack_operations(body)
        if number == self._log.newest + 1 and not self._replica.is_copying:
            link.send(wire.ACKNOWLEDGE, number + len(operations) - 1)
        original(self, link, body)

    patch.setattr(Following, "_make", make)


def skip_syncs(patch: Patch) -> None:
    """A follower makes no SYNC operations, and acknowledges them."""
    original = Replica._change

    def change(self: Replica, made: Operation) -> None:
        if made.kind != operation.SYNC:
            original(self, made)

    patch.setattr(Replica, "_change", change)
    _write_without_sync(patch)


def _write_without_sync(patch: Patch) -> None:
    original = Replica._change

    def change(self: Replica, made: Operation) -> None:
        original(self, made._replace(kind=operation.WRITE) if made.kind == operation.WRITE_THROUGH else made)

    patch.setattr(Replica, "_change", change)
    patch.setattr(Replica, "sync", lambda self: None)


def skip_syncs_of_names(patch: Patch) -> None:
    """A follower does not sync the names of new files."""
    original = Replica._change_name

    def change(self: Replica, made: Operation, path: Any) -> None:  # noqa: ANN401 - as it is given
        if made.kind != operation.SYNC_DIRECTORY:
            original(self, made, path)

    patch.setattr(Replica, "_change_name", change)


def swap_operations(patch: Patch) -> None:
    """A follower makes two operations of a message in the wrong order."""
    original = Following._make

    def make(self: Following, link: Link, body: memoryview) -> None:
        number, operations = wire.unpack_operations(body)
        if len(operations) > 1:
            operations[0], operations[1] = operations[1], operations[0]
            body = memoryview(b"".join(wire.pack_operations(number, operations)))
        original(self, link, body)

    patch.setattr(Following, "_make", make)


def lose_transactions(patch: Patch) -> None:
    """Transactions of the definitions are not replicated."""
    patch.setattr(Replica, "_apply", lambda self, data: None)


def lose_removals(patch: Patch) -> None:
    """Removals of files are not replicated."""
    original = Replica._change_name

    def change(self: Replica, made: Operation, path: Any) -> None:  # noqa: ANN401 - as it is given
        if made.kind != operation.UNLINK:
            original(self, made, path)

    patch.setattr(Replica, "_change_name", change)


def follow_any_history(patch: Patch) -> None:
    """A follower that has what its leader has not goes on without a copy."""
    patch.setattr(History, "has", lambda self, term, number: number > 0)


def copy_nothing(patch: Patch) -> None:
    """A follower that has to copy the files does not, and follows from then on."""

    def copy(self: Following, link: Link, welcome: Any) -> None:  # noqa: ANN401 - as it is given
        self._state.has_joined = True
        self._log.restart(welcome.number)
        self._whole_at = welcome.number
        self._state.term = welcome.term
        self._become_whole()

    patch.setattr(Following, "_copy", copy)


# -- terms --------------------------------------------------------------------------------------------------------


def skip_the_term_check(patch: Patch) -> None:
    """A follower notes no terms, and answers leaders of earlier ones."""

    def see(self: NodeState, term: int) -> None:
        self.seen_term = 0

    patch.setattr(NodeState, "see", see)
    patch.setattr(Candidate, "_watch_leader", _forever)


async def _forever(*_: object) -> None:
    pass


def serve_at_once(patch: Patch) -> None:
    """Clients may connect to a new leader before the others have what it found."""

    async def recovered(self: Term) -> None:
        pass

    patch.setattr(Term, "recovered", recovered)


# -- elections ----------------------------------------------------------------------------------------------------


def campaign_out_of_sync(patch: Patch) -> None:
    """A node that is not in sync stands for election."""
    original = Candidate._may_lead

    def may_lead(self: Candidate, view: View) -> bool:
        return original(self, view) or (self._lease.id != 0 and self._state.is_whole and view.in_sync_revision > 0)

    patch.setattr(Candidate, "_may_lead", may_lead)


def lead_while_copying(patch: Patch) -> None:
    """A node counts as in sync while it copies files, and stands for election with half of them."""
    patch.setattr(_FollowerLink, "_wait_until_out_of_sync", lambda self: None)
    patch.setattr(
        Candidate,
        "_may_lead",
        lambda self, view: self._lease.id != 0 and (not view.in_sync_revision or self._node in view.in_sync),
    )


def lead_with_a_new_disk(patch: Patch) -> None:
    """A node that has lost its disk stands for election, because it was in sync."""
    original = Candidate._may_lead

    def may_lead(self: Candidate, view: View) -> bool:
        self._state.has_joined, self._state.is_empty = True, False
        return original(self, view)

    patch.setattr(Candidate, "_may_lead", may_lead)


# -- nodes in sync ------------------------------------------------------------------------------------------------


def remove_after_confirming(patch: Patch) -> None:
    """A node that is lost need not acknowledge, before it is known to be out of sync."""

    async def change(self: Term, wanted: frozenset[str]) -> None:
        self._require(wanted)
        if wanted <= self._in_sync or await self._have_all(wanted - self._in_sync):
            await self._write_in_sync(wanted)

    patch.setattr(Term, "_change", change)


def add_before_it_has_all(patch: Patch) -> None:
    """A node that follows is in sync at once, whatever it lacks."""

    async def have_all(self: Term, nodes: frozenset[str]) -> bool:
        return True

    patch.setattr(Term, "_have_all", have_all)
    patch.setattr(_FollowerLink, "has_caught_up", property(lambda self: True, lambda self, value: None), raising=False)


def add_before_requiring(patch: Patch) -> None:
    """A node that is added must acknowledge some time after it was written only."""

    async def change(self: Term, wanted: frozenset[str]) -> None:
        await self._write_in_sync(wanted)
        required = self._in_sync & wanted
        self._loop.call_later(0.2, lambda: self._require(required))

    patch.setattr(Term, "_change", change)


def confirm_alone(patch: Patch) -> None:
    """Messages are confirmed while fewer nodes are in sync than min_in_sync, and publishers need not wait then."""
    patch.setattr(Term, "_require", lambda self, nodes: self._operations.require(nodes - {self.node}))
    # As long as they wait, there is next to nothing to confirm.
    patch.setattr(Term, "shortage", lambda self: "")


# -- what should end ----------------------------------------------------------------------------------------------


def keep_the_lease_of_a_stalled_disk(patch: Patch) -> None:
    """The lease is renewed while the disk takes no writes."""
    patch.setattr(DiskProbe, "_write", lambda self: None)


def keep_leading_without_a_lease(patch: Patch) -> None:
    """A leader goes on when its lease has ended."""
    patch.setattr(Lease, "_on_end", property(lambda self: lambda reason: None, lambda self, value: None), raising=False)
    patch.setattr(Term, "_watch_coordinator", _forever)
    patch.setattr(Term, "_watch_followers", _watch_without_end(Term._watch_followers))


def _watch_without_end(
    original: Callable[[Term], Coroutine[Any, Any, None]],
) -> Callable[[Term], Coroutine[Any, Any, None]]:
    async def watch(self: Term) -> None:
        self._followers.seen_term = 0
        await original(self)

    return watch


def wait_for_silent_leaders(patch: Patch) -> None:
    """A follower of a silent leader waits for it, whatever the coordinator says."""
    patch.setattr(Candidate, "_watch_leader", _forever)

    async def succeed(self: Candidate, lost: Any, is_dead: bool) -> int:  # noqa: ANN401 - as it is given
        return 0

    patch.setattr(Candidate, "_succeed", succeed)


def go_on_after_a_failed_disk(patch: Patch) -> None:
    """A leader whose disk has failed goes on leading."""
    patch.setattr(Term, "failed", lambda self, reason: None)


# Not here are ways after which something else keeps what is promised:
# - Truncations that are not replicated: a seal follows each of them, and whoever reads a file ends at its seal.
# - A new leader counts the operations that it has followed as confirmed: its recovery logs more, which are not.
# - What a follower acknowledged before it lost its connection still counts: it was durable, and a node that has lost
#   its disk is added only when it has acknowledged all that it has copied.
# - An election that does not compare the nodes in sync: the leader is compared, too. It would take a leader that lets a
#   node go, and confirms without it, while this node is about to replace it. A test of etcd does that.
WAYS: Final[Sequence[Callable[[Patch], None]]] = (
    confirm_before_followers,
    acknowledge_before_the_sync,
    skip_syncs,
    skip_syncs_of_names,
    swap_operations,
    lose_transactions,
    lose_removals,
    follow_any_history,
    copy_nothing,
    skip_the_term_check,
    serve_at_once,
    campaign_out_of_sync,
    lead_while_copying,
    lead_with_a_new_disk,
    remove_after_confirming,
    add_before_it_has_all,
    add_before_requiring,
    confirm_alone,
    keep_the_lease_of_a_stalled_disk,
    keep_leading_without_a_lease,
    wait_for_silent_leaders,
    go_on_after_a_failed_disk,
)
SEEDS_MAX: Final = 200


def find(way: Callable[[Patch], None], seeds: int = SEEDS_MAX) -> tuple[int, Exception | None]:
    """Run seeds on a cluster broken like this; returns how many it took, and what was found."""
    for seed in range(seeds):
        with Patch.context() as patch:
            way(patch)
            try:
                Run(seed).complete()
            except Exception as found:  # noqa: BLE001 - a cluster that breaks down is found, too
                return seed + 1, found
    return seeds, None


if __name__ == "__main__":
    sys.exit(tell(WAYS, find, sys.argv[1:]))
