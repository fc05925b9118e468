"""The cluster, as the node that leads it sees it. A node without a cluster has none of this."""

from abc import abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterNode:
    """A node of the cluster. `behind_bytes` and `behind_seconds` say how much of what was logged it has not confirmed.

    `is_alive` says whether the coordinator has heard of it within the last seconds. The two numbers are None if the
    leader does not know them, because the node does not follow.
    """

    name: str
    address: str
    version: str
    is_alive: bool
    is_leader: bool
    is_in_sync: bool
    behind_bytes: int | None
    behind_seconds: float | None


@dataclass(frozen=True)
class ClusterStatus:
    """`nodes` are sorted by name. Nothing is confirmed while fewer than `min_in_sync` of them are in sync."""

    name: str
    term: int
    min_in_sync: int
    nodes: tuple[ClusterNode, ...]


class Leadership:
    """`node` is the name of this node in the cluster. All methods are called on the event loop's thread."""

    node: str

    @abstractmethod
    async def recovered(self) -> None:
        """Wait after the recovery until clients may connect. Raises FlintError if this node leads no longer."""

    @abstractmethod
    def failed(self, reason: str) -> None:
        """The disk of this node has failed: another one has to lead."""

    @abstractmethod
    def shortage(self) -> str:
        """Why publishers have to wait; empty if they need not."""

    @abstractmethod
    def status(self) -> ClusterStatus: ...
