"""What a cluster asks of the service that decides: who its members are, who leads, and who is in sync.

The service is linearizable: every answer shows all changes before it. Each change has a revision, which grows. Safety
rests on the comparisons that `elect` and `write_in_sync` make in one transaction with their change, and not on leases:
a lease only says when a leader must be replaced.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flintmq.base.errors import FlintError

# A service that does not answer is asked again after so long.
_RETRY_SECONDS: Final = 0.1


class CoordinatorError(FlintError):
    """The coordinator cannot be reached, or refuses the request. The text says what to do."""


class OutcomeUnknown(CoordinatorError):
    """A change was sent and its answer was lost: it may have been made, or may still be made. Read to find out."""


class LeaseLost(CoordinatorError):
    """The lease has ended: the keys that were bound to it are gone."""


@dataclass(frozen=True)
class Member:
    """A node of the cluster. `replication` is the address at which other nodes reach it: host:port."""

    id: str
    name: str
    replication: str
    version: str


@dataclass(frozen=True)
class Leader:
    """Who leads. `term` is the revision at which the leadership was won; it is bound to `lease`."""

    node: str
    term: int
    lease: int


@dataclass(frozen=True)
class Doubt:
    """A node hears nothing of the leader of `term`. `number` is that of the last operation it has from it."""

    term: int
    number: int


@dataclass(frozen=True)
class View:
    """The cluster at `revision`.

    `in_sync` are the nodes that hold everything that was confirmed; `in_sync_revision` is that of its last change, and
    0 as long as there never was a leader. `following` are those of them that follow the leader now, as it says, and the
    leader itself: without enough nodes, those that were lost stay in sync. It is None if there is no leader, or it has
    not said so. `doubts` are those of nodes that hear nothing of the leader. `heir` is the node that somebody wants to
    lead; "" if nobody does.
    """

    revision: int
    leader: Leader | None = None
    in_sync: frozenset[str] = frozenset()
    in_sync_revision: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    doubts: dict[str, Doubt] = field(default_factory=dict)
    heir: str = ""
    following: frozenset[str] | None = None


class Coordinator:
    """All calls raise CoordinatorError if the service does not answer. A call that changes something raises
    OutcomeUnknown if its answer was lost. Times are in seconds.
    """

    @abstractmethod
    async def grant(self, ttl: int) -> int:
        """Create a lease that ends `ttl` after its last renewal, and return its id."""

    @abstractmethod
    async def renew(self, lease: int) -> None:
        """Renew a lease. Raises LeaseLost if it has ended."""

    @abstractmethod
    async def revoke(self, lease: int) -> None:
        """End a lease, and with it what is bound to it."""

    @abstractmethod
    async def view(self) -> View: ...

    @abstractmethod
    async def changed(self, revision: int) -> None:
        """Return when there may be a change after this revision."""

    async def until_replaced(
        self, term: int, revision: int, on_view: Callable[[View], object] = lambda _: None
    ) -> None:
        """Return when the leader of `term`, which led at `revision`, leads no longer. Asks again after errors.

        Until then, `on_view` is called with each later view.
        """
        while True:
            try:
                await self.changed(revision)
                view = await self.view()
            except CoordinatorError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            revision = view.revision
            if view.leader is None or view.leader.term != term:
                return
            on_view(view)

    @abstractmethod
    async def announce(self, node: str, lease: int) -> None:
        """Count the node as alive while the lease lasts. Raises LeaseLost."""

    @abstractmethod
    async def elect(self, seen: View, node: str, lease: int) -> int:
        """Make the node the leader, in place of the one in `seen`, if neither the leader nor the nodes in sync have
        changed since. Returns the term; 0 if they have changed. Raises LeaseLost.
        """

    @abstractmethod
    async def write_in_sync(self, term: int, revision: int, nodes: frozenset[str]) -> int:
        """Write which nodes are in sync, if the leader of `term` still leads and the last change was at `revision`.

        Returns the revision of the change; 0 if the leader or the nodes in sync have changed.
        """

    @abstractmethod
    async def write_following(self, term: int, nodes: frozenset[str]) -> None:
        """Write which nodes in sync follow the leader of `term`; does nothing if another leader was elected."""

    @abstractmethod
    async def doubt(self, node: str, doubt: Doubt | None, lease: int) -> None:
        """Say that the node hears nothing of a leader; None takes it back. Raises LeaseLost."""

    @abstractmethod
    async def wish(self, heir: str, lease: int) -> None:
        """Ask the leader to let another node lead, as long as the lease lasts. Raises LeaseLost."""

    @abstractmethod
    async def resign(self, term: int) -> None:
        """End the leadership of `term`; does nothing if another leader was elected."""

    @abstractmethod
    async def put_member(self, member: Member, is_new: bool) -> bool:
        """Write a member. Returns False, with nothing changed, if `is_new` and there is one of this id."""

    @abstractmethod
    async def remove_member(self, node: str) -> bool:
        """Remove a member. Returns False if it leads or is in sync: then nothing is changed."""

    @abstractmethod
    async def close(self) -> None: ...
