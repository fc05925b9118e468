"""What can happen to a cluster, and how long its clients notice it."""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tests.cluster.ledger import Ledger
from tests.cluster.network import ETCD
from tests.cluster.nodes import NODES, Cluster
from tests.cluster.with_pika import LIVE, Witness
from tests.waiting import WAIT_SECONDS

# So many confirms of each publisher say that it goes on.
_CONFIRMS: Final = 10
# Beside its own time, a fault lasts at most so long: what has not come by then is not survived.
_SURVIVAL_SECONDS: Final = 15.0


@dataclass(frozen=True)
class Fault:
    """`inflict` begins the fault, and mends it at its end, after `seconds`. If it `is_survived`, confirms come before
    that; then it also lasts until they have come.

    `times` says how often a whole campaign has it. `limits` are how many seconds publishers may have to wait for
    confirms: in most cases, and at worst.
    """

    name: str
    inflict: Callable[[Cluster], AbstractContextManager[None]]
    seconds: float
    times: int
    limits: tuple[float, float] | None
    is_survived: bool = True


@dataclass(frozen=True)
class Outcome:
    """The times are in seconds, until all nodes were in sync again. `without_confirms` are those of each publisher;
    `leader_told` says when the leader told its clients that it cannot serve them, if it did. `came_back` says whether
    confirms, and all nodes, came back.
    """

    fault: Fault
    without_confirms: dict[str, float]
    without_deliveries: float
    leader_told: float | None
    came_back: bool


def undergo(fault: Fault, cluster: Cluster, ledger: Ledger) -> Outcome:
    """Let the fault happen under load, and wait until the cluster is whole again."""
    witness = Witness(cluster.background, cluster.ports[cluster.leader()])
    since = time.monotonic()
    came_back = True
    with fault.inflict(cluster):
        time.sleep(fault.seconds)
        if fault.is_survived:
            came_back = await_confirms(ledger, _SURVIVAL_SECONDS)
    came_back = await_confirms(ledger) and came_back
    try:
        cluster.await_in_sync(len(NODES))
    except AssertionError:
        came_back = False
    until = time.monotonic()
    told_at = witness.end()
    return Outcome(
        fault,
        ledger.without_confirms(since, until),
        ledger.without_deliveries(LIVE, since, until),
        told_at - since if told_at else None,
        came_back,
    )


def await_confirms(ledger: Ledger, seconds: float = WAIT_SECONDS) -> bool:
    """Wait until each publisher gets confirms. Returns False if they do not come."""
    since = time.monotonic()
    while ledger.confirms_since(since) < _CONFIRMS:
        if time.monotonic() - since > seconds:
            return False
        time.sleep(0.02)
    return True


# -- processes --------------------------------------------------------------------------------------------------


def _killed(cluster: Cluster, node: str) -> Iterator[None]:
    # Whether its log has faults that nobody expected, the campaign looks at the end.
    with suppress(AssertionError):
        cluster.nodes[node].kill()
    yield
    cluster.launch(node)


@contextmanager
def leader_killed(cluster: Cluster) -> Iterator[None]:
    yield from _killed(cluster, cluster.leader())


@contextmanager
def follower_killed(cluster: Cluster) -> Iterator[None]:
    yield from _killed(cluster, cluster.followers()[0])


def _hung(cluster: Cluster, node: str) -> Iterator[None]:
    process = cluster.nodes[node].process
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


@contextmanager
def leader_hung(cluster: Cluster) -> Iterator[None]:
    yield from _hung(cluster, cluster.leader())


@contextmanager
def follower_hung(cluster: Cluster) -> Iterator[None]:
    yield from _hung(cluster, cluster.followers()[0])


@contextmanager
def leader_stopped(cluster: Cluster) -> Iterator[None]:
    """In order, with SIGTERM."""
    leader = cluster.leader()
    with suppress(AssertionError):
        cluster.nodes[leader].stop()
    yield
    cluster.launch(leader)


def _stalled(cluster: Cluster, node: str) -> Iterator[None]:
    cluster.disks.stall(node)
    yield
    cluster.disks.mend(node)


@contextmanager
def leader_stalled(cluster: Cluster) -> Iterator[None]:
    yield from _stalled(cluster, cluster.leader())


@contextmanager
def follower_stalled(cluster: Cluster) -> Iterator[None]:
    yield from _stalled(cluster, cluster.followers()[0])


@contextmanager
def etcd_restarted(cluster: Cluster) -> Iterator[None]:
    cluster.etcd.stop()
    cluster.etcd.start()
    yield


@contextmanager
def etcd_stopped(cluster: Cluster) -> Iterator[None]:
    cluster.etcd.stop()
    yield
    cluster.etcd.start()


# -- the network ------------------------------------------------------------------------------------------------


@contextmanager
def _cut(cluster: Cluster, pairs: Iterable[tuple[str, str]]) -> Iterator[None]:
    cluster.network.cut(pairs)
    yield
    cluster.network.heal()


def _both_ways(node: str, others: Iterable[str]) -> list[tuple[str, str]]:
    return [pair for other in others for pair in ((node, other), (other, node))]


def leader_cut_off(cluster: Cluster) -> AbstractContextManager[None]:
    """From the other nodes and from etcd; its clients still reach it."""
    return _cut(cluster, _both_ways(cluster.leader(), [*cluster.followers(), ETCD]))


def leader_cut_off_from_etcd(cluster: Cluster) -> AbstractContextManager[None]:
    return _cut(cluster, _both_ways(cluster.leader(), [ETCD]))


def leader_cut_off_from_followers(cluster: Cluster) -> AbstractContextManager[None]:
    return _cut(cluster, _both_ways(cluster.leader(), cluster.followers()))


def leader_cannot_send(cluster: Cluster) -> AbstractContextManager[None]:
    """It hears the followers, and they do not hear it."""
    leader = cluster.leader()
    return _cut(cluster, [(leader, other) for other in cluster.followers()])


def leader_cannot_receive(cluster: Cluster) -> AbstractContextManager[None]:
    """The followers hear it, and it does not hear them."""
    leader = cluster.leader()
    return _cut(cluster, [(other, leader) for other in cluster.followers()])


def leader_hears_nothing_from_etcd(cluster: Cluster) -> AbstractContextManager[None]:
    return _cut(cluster, [(ETCD, cluster.leader())])


# Of a leader that is silent or cannot do its work, and of a follower that is.
_SILENT_LEADER: Final = (3.0, 4.0)
_SILENT_FOLLOWER: Final = (2.5, 2.5)
LEADER_KILLED: Final = Fault("leader killed", leader_killed, 2, 50, (0.5, 1.0))
LEADER_HUNG: Final = Fault("leader hung for 10 s", leader_hung, 10, 5, _SILENT_LEADER)
LEADER_CUT_OFF: Final = Fault("leader cut off from all", leader_cut_off, 6, 5, _SILENT_LEADER)
FAULTS: Final = (
    LEADER_KILLED,
    LEADER_HUNG,
    LEADER_CUT_OFF,
    Fault("leader stopped in order", leader_stopped, 2, 10, (0.15, 0.3)),
    Fault("disk of leader stalled", leader_stalled, 6, 5, _SILENT_LEADER),
    Fault("follower killed", follower_killed, 2, 50, (0.1, 0.1)),
    Fault("follower hung for 10 s", follower_hung, 10, 5, _SILENT_FOLLOWER),
    Fault("disk of follower stalled", follower_stalled, 6, 5, _SILENT_FOLLOWER),
    Fault("leader cut off from etcd", leader_cut_off_from_etcd, 6, 5, _SILENT_LEADER),
    Fault("leader hears nothing from etcd", leader_hears_nothing_from_etcd, 6, 5, _SILENT_LEADER),
    Fault("leader cut off from followers", leader_cut_off_from_followers, 6, 5, _SILENT_LEADER),
    Fault("followers hear nothing from leader", leader_cannot_send, 6, 5, _SILENT_LEADER),
    Fault("leader hears nothing from followers", leader_cannot_receive, 6, 5, _SILENT_LEADER),
    Fault("etcd restarted", etcd_restarted, 2, 10, (0.0, 0.0)),
    Fault("etcd stopped for 30 s", etcd_stopped, 30, 1, None, is_survived=False),
)
