"""What simulated clusters have found, step by step."""

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.cluster.leading import Followers
from flintmq.cluster.state import NodeState
from flintmq.storage.layout import NODE_STATE
from tests.sim.cluster.computer import CLUSTER, Computer
from tests.sim.cluster.coordinator import Service
from tests.sim.cluster.machine import COORDINATOR, Network
from tests.sim.cluster.process import World
from tests.sim.node import DATA

# What a killed process was about to wait for.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Cluster:
    """Three nodes, of which two have to confirm."""

    def __init__(self) -> None:
        self.world = World(random.Random(1))
        self.network = Network(self.world)
        self.service = Service(self.network)
        self.computers = [Computer(name, self.network, self.service, 2, 20_000, 10_000_000, 1) for name in "abc"]

    def pass_time(self, seconds: float) -> None:
        self.world.loop.run(self.world.now + seconds)

    def take_leader(self) -> Computer:
        """The node that leads; `computers` are the others from then on."""
        leader = next(each for each in self.computers if each.serving is not None)
        self.computers.remove(leader)
        return leader


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    computers = [*cluster.computers]
    for each in computers:
        each.start()
    cluster.pass_time(2.0)
    assert cluster.service.in_sync == {"a", "b", "c"}
    yield cluster
    for each in computers:
        each.close()


def test_the_last_node_that_is_there_stays_in_sync_when_it_stops(cluster: Cluster) -> None:
    """It has what was confirmed, and the other node in sync may have lost its disk."""
    leader = cluster.take_leader()
    first, second = cluster.computers
    first.kill()
    cluster.pass_time(2.0)
    second.replace_disk()
    cluster.pass_time(4.0)

    leader.stop()
    cluster.pass_time(4.0)

    assert leader.name in cluster.service.in_sync
    for each in (first, second, leader):
        each.start()
    cluster.pass_time(20.0)
    assert cluster.service.in_sync == {"a", "b", "c"}


def test_a_leader_that_stops_is_not_waited_for(cluster: Cluster) -> None:
    """The others confirm without it."""
    leader = cluster.take_leader()

    leader.stop()
    cluster.pass_time(1.0)

    assert cluster.service.in_sync == {each.name for each in cluster.computers}


def test_a_leader_that_stops_names_its_heir(cluster: Cluster) -> None:
    """That one is elected at once: followers need not tell each other first how far they have followed."""
    leader = cluster.take_leader()
    followers = {each.name for each in cluster.computers}
    assert not cluster.service.view().doubts

    leader.stop()
    cluster.pass_time(0.5)

    assert cluster.service.leader is not None
    assert cluster.service.leader.node == min(followers)
    assert not cluster.service.view().doubts


def test_an_heir_that_cannot_be_elected_is_replaced(cluster: Cluster) -> None:
    """It has lost the coordinator. The other follower waits for it a moment only."""
    leader = cluster.take_leader()
    heir, other = sorted(cluster.computers, key=lambda each: each.name)
    cluster.network.cuts |= {(heir.name, COORDINATOR), (COORDINATOR, heir.name)}

    leader.stop()
    cluster.pass_time(0.8)

    assert cluster.service.leader is not None
    assert cluster.service.leader.node == other.name


def test_a_leader_hands_over_without_an_heir(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its followers are of a version that knows of no heirs: they stand for election by themselves."""
    monkeypatch.setattr(Followers, "heirs", lambda _: frozenset())
    leader = cluster.take_leader()

    leader.stop()
    cluster.pass_time(0.5)

    assert cluster.service.leader is not None
    assert cluster.service.leader.node in {each.name for each in cluster.computers}


def journals(computer: Computer) -> dict[Path, bytes]:
    """What readers see of the files of the journal."""
    return {Path(path): computer.disk.content(Path(path)) for path in computer.disk.files() if "/journal/" in path}


def durable(computer: Computer, path: Path) -> bytes:
    disk = computer.disk.copy(1)
    disk.lose_power()
    return disk.content(path)


def test_what_only_memory_has_is_copied_again(cluster: Cluster) -> None:
    """A sync of a follower has failed, and its full disk took no note of that. What it reads is not on its disk."""
    leader = cluster.take_leader()
    follower = cluster.computers[0]
    follower.kill()
    written = journals(follower)
    assert written
    for path, content in written.items():
        while durable(follower, path) == content:
            follower.disk.show_unwritten(path, content)

    follower.start()
    cluster.pass_time(3.0)

    assert follower.name in cluster.service.in_sync
    assert {path: durable(follower, path) for path in written} == journals(leader)


def test_a_disk_that_fails_while_a_leader_recovers(cluster: Cluster) -> None:
    """The node notes it, and lets others lead."""
    leader = cluster.take_leader()
    node, other = cluster.computers
    trouble = node.disk.trouble
    assert trouble is not None

    def fail(what: str, name: str) -> None:
        if what == "sync" and name.endswith(".journal"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        trouble(what, name)

    node.disk.trouble = fail
    leader.kill()
    other.kill()
    cluster.pass_time(5.0)

    assert node.process is None
    node.disk.trouble, node.disk.is_off = trouble, False
    assert not NodeState(node.disk, DATA, CLUSTER, node.name).is_sound


def test_the_first_node_ends_before_it_has_data() -> None:
    """It leads when it is started again, because nobody else has anything."""
    cluster = Cluster()
    first = cluster.computers[0]
    first.start()
    while cluster.service.in_sync != {first.name}:
        cluster.pass_time(0.0001)
    first.kill()
    assert not journals(first)

    for each in cluster.computers:
        each.start()
    cluster.pass_time(10.0)

    assert cluster.service.in_sync == {"a", "b", "c"}
    for each in cluster.computers:
        each.close()


def test_data_that_was_removed_without_the_state(cluster: Cluster) -> None:
    """`rm -r data/*` leaves .cluster.json. The node has nothing that it counts for, and does not lead."""
    node, *others = computers = [*cluster.computers]
    for each in computers:
        each.kill()
    state = node.disk.content(DATA / NODE_STATE)
    node.replace_disk()
    node.disk.is_off = False
    file = node.disk.create(DATA / NODE_STATE)
    file.write_at(0, [state])
    file.sync()
    node.disk.sync_directory(DATA)

    node.start()
    cluster.pass_time(5.0)

    assert cluster.service.leader is None
    for each in others:
        each.start()
    cluster.pass_time(10.0)
    assert cluster.service.leader is not None
    assert cluster.service.leader.node != node.name
    assert cluster.service.in_sync == {"a", "b", "c"}
