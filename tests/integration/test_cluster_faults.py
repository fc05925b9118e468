"""Faults of one node or of the coordinator, and what a user of the cluster sees of them."""

import asyncio
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from flintmq.cluster.etcd import Etcd
from tests.cluster.nodes import NODES, Cluster
from tests.commands import run_process
from tests.etcd import EtcdProcess
from tests.integration.test_cluster import Publisher, consumed
from tests.servers import BrokerProcess, free_port
from tests.stalling_disk import StallingDisks
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    with EtcdProcess(tmp_path / "etcd") as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path, etcd: EtcdProcess) -> Iterator[Cluster]:
    with Cluster(tmp_path, etcd) as made:
        yield made


def node(path: Path, etcd: EtcdProcess, name: str = "a", **settings: str) -> BrokerProcess:
    """A node that is not started yet."""
    given: dict[str, Any] = {
        "FLINTMQ_MANAGEMENT_ENABLED": "false",
        "FLINTMQ_CLUSTER_NAME": "c",
        "FLINTMQ_CLUSTER_NODE": name,
        "FLINTMQ_CLUSTER_ETCD": etcd.url,
        "FLINTMQ_CLUSTER_PORT": str(free_port()),
    }
    return BrokerProcess(path, **{**given, **settings})


@pytest.mark.parametrize("breaks", [StallingDisks.stall, StallingDisks.fail], ids=["stalls", "fails"])
def test_a_disk_costs_the_leadership(tmp_path: Path, breaks: Callable[[StallingDisks, str], None]) -> None:
    """When the disk of the leader stalls or fails, another node leads, and nothing that was confirmed is lost."""
    disks = StallingDisks(tmp_path)
    with Cluster(tmp_path, disks=disks) as made:
        publisher = Publisher(made)
        publisher.await_more()
        old = made.leader()
        breaks(disks, old)
        made.await_another_than(old)
        publisher.await_more()
        disks.mend(old)
        made.await_in_sync(len(NODES))
        confirmed = publisher.stop()
        assert set(confirmed) <= consumed(made)


def test_publishers_are_told_to_wait(cluster: Cluster) -> None:
    """Without enough nodes in sync, the leader blocks publishers, and says why."""
    leader = cluster.leader()
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", cluster.ports[leader]))
    reasons: list[str] = []
    unblocked = threading.Event()
    connection.add_on_connection_blocked_callback(lambda _, method: reasons.append(method.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: unblocked.set())
    others = [cluster.nodes[name] for name in NODES if name != leader]
    for other in others:
        other.kill()
    channel = connection.channel()

    def are_told() -> bool:
        # Only connections that publish are told.
        channel.basic_publish("", "nowhere", b"")
        connection.process_data_events(0.1)
        return bool(reasons)

    wait_until(are_told)
    assert reasons == ["1 of 2 nodes in sync"]
    cluster.nodes[leader].wait_for_log("publishers have to wait", reason=reasons[0])
    others[0].launch()
    wait_until(lambda: connection.process_data_events(0.1) or unblocked.is_set())
    cluster.nodes[leader].wait_for_log("publishers may go on")
    connection.close()


def test_a_leader_that_waits_for_followers_can_be_stopped(tmp_path: Path, etcd: EtcdProcess) -> None:
    """A node alone waits for a second one before clients may connect, and stops when it is told to."""
    alone = node(tmp_path / "a", etcd)
    alone.launch()
    try:
        line = alone.wait_for_log("clients may connect when more nodes are in sync")
        assert line["reason"] == "1 of 2 nodes in sync"
        assert alone.stop() == 0
    finally:
        alone.close()


def test_the_leadership_is_transferred(cluster: Cluster, etcd: EtcdProcess) -> None:
    """Somebody wants another node to lead: it does, and publishers lose nothing."""
    publisher = Publisher(cluster)
    publisher.await_more()
    old = cluster.leader()
    heir = next(name for name in NODES if name != old)

    async def wish() -> None:
        coordinator = Etcd([etcd.url], "c")
        await coordinator.wish(heir, await coordinator.grant(10))
        await coordinator.close()

    asyncio.run(wish())
    cluster.await_another_than(old)
    assert cluster.leader() == heir
    publisher.await_more()
    assert set(publisher.stop()) <= consumed(cluster)


def test_nodes_begin_when_the_coordinator_does(tmp_path: Path, etcd: EtcdProcess) -> None:
    """A node whose coordinator is not there yet says so, and waits for it."""
    etcd.stop()
    first = node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_MIN_IN_SYNC="1")
    first.launch()
    try:
        line = first.wait_for_log("the coordinator does not help")
        assert "check cluster.etcd" in line["reason"]
        etcd.start()
        first.wait_for_log("listening")
        assert first.stop() == 0
    finally:
        first.close()


def test_nobody_waits_for_a_node_without_a_coordinator(tmp_path: Path) -> None:
    """A node that waits for etcd accepts clients, probes and other nodes, and disconnects them."""
    ports = [free_port(), free_port()]
    settings = {"FLINTMQ_LISTEN_PORT": str(ports[0]), "FLINTMQ_CLUSTER_PORT": str(ports[1])}
    waiting = node(tmp_path / "a", EtcdProcess(tmp_path / "etcd"), **settings)
    waiting.launch()
    try:
        waiting.wait_for_log("the coordinator does not help")
        for port in ports:
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as connection:
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):
                    while connection.recv(100):
                        pass
        assert waiting.is_running
    finally:
        waiting.close()


def test_a_coordinator_that_has_lost_the_cluster_is_noticed(tmp_path: Path, etcd: EtcdProcess) -> None:
    """Nobody leads then: it is not known which nodes hold what was confirmed."""
    first = node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_MIN_IN_SYNC="1")
    first.start()
    assert first.stop() == 0
    with EtcdProcess(tmp_path / "another") as empty:
        again = node(tmp_path / "a", empty, FLINTMQ_CLUSTER_MIN_IN_SYNC="1")
        again.launch()
        try:
            line = again.wait_for_log("the coordinator has lost this cluster")
            assert "docs/cluster.md" in line["reason"]
            assert again.stop() == 0
        finally:
            again.close()


def test_a_node_with_another_disk_does_not_lead(cluster: Cluster) -> None:
    """It was in sync with the directory that it has lost: its new one is empty. It joins when another node leads."""
    publisher = Publisher(cluster)
    publisher.await_more()
    old = cluster.leader()
    other = next(name for name in NODES if name != old)
    for name in NODES:
        cluster.nodes[name].process.kill()
    for name in NODES:
        cluster.nodes[name].ended()
    shutil.rmtree(cluster.nodes[other].data)
    cluster.nodes[other].launch()
    cluster.nodes[other].wait_for_log("this node has lost its data")
    cluster.nodes[old].launch()
    cluster.await_in_sync(2)
    publisher.await_more()
    assert set(publisher.stop()) <= consumed(cluster)


@pytest.mark.parametrize(
    ("settings", "code", "reason"),
    [
        ({"FLINTMQ_CLUSTER_NODE": ""}, 2, "cluster.node: name this node"),
        ({"FLINTMQ_CLUSTER_NODE": "b"}, 2, "cluster.address: node 'a' has"),
        ({}, 1, "is in use by another broker"),
        ({"FLINTMQ_CLUSTER_PORT": "0"}, 2, "cluster.node: another node 'a' runs at"),
    ],
    ids=["without a name", "with the address of another", "in the directory of another", "with the name of another"],
)
def test_a_node_that_cannot_take_part(
    tmp_path: Path, etcd: EtcdProcess, settings: dict[str, str], code: int, reason: str
) -> None:
    """It ends, and says what to do. The exit code says whether it is a setting: then nobody starts it again."""
    port = str(free_port())
    first = node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_PORT=port, FLINTMQ_CLUSTER_MIN_IN_SYNC="1")
    first.start()
    path = tmp_path / ("a" if "in use" in reason else "b")
    if settings.get("FLINTMQ_CLUSTER_NODE") == "b":
        settings = {**settings, "FLINTMQ_CLUSTER_HOST": "127.0.0.2", "FLINTMQ_CLUSTER_ADDRESS": f"127.0.0.1:{port}"}
    second = node(path, etcd, **{"FLINTMQ_CLUSTER_PORT": str(free_port()), **settings})
    second.launch()
    try:
        assert second.ended() == code
        assert any(reason in str(line) for line in second.log), second.log
    finally:
        second.close()
        first.close()


def test_a_node_in_the_directory_of_another_cluster(tmp_path: Path, etcd: EtcdProcess) -> None:
    """It ends as with every setting that is wrong, and nothing of the directory is changed."""
    with node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_MIN_IN_SYNC="1") as first:
        first.stop()
    state = (tmp_path / "a" / ".cluster.json").read_bytes()
    second = node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_NAME="d")
    second.launch()
    try:
        assert second.ended() == 2
        assert any("belongs to node 'a' of cluster 'c'" in str(line) for line in second.log), second.log
        assert (tmp_path / "a" / ".cluster.json").read_bytes() == state
    finally:
        second.close()


def test_the_directory_of_a_node_without_its_cluster(tmp_path: Path, etcd: EtcdProcess) -> None:
    """A broker of its own does not take it: the cluster would replace what it confirms. Unless the node is left."""
    with node(tmp_path / "a", etcd, FLINTMQ_CLUSTER_MIN_IN_SYNC="1") as first:
        first.stop()
    alone = BrokerProcess(tmp_path / "a", FLINTMQ_MANAGEMENT_ENABLED="false")
    alone.launch()
    try:
        assert alone.ended() == 2
        assert any("belongs to a node of a cluster" in str(line) for line in alone.log), alone.log
        (tmp_path / "a" / ".cluster.json").unlink()
        alone.start()
    finally:
        alone.close()


def test_a_follower_is_backed_up(cluster: Cluster, tmp_path: Path) -> None:
    """Under load, from its directory: what was confirmed before is in the backup, which a broker of its own can use."""
    publisher = Publisher(cluster)
    publisher.await_more()
    leader = cluster.leader()
    follower = cluster.nodes[next(name for name in NODES if name != leader)]
    confirmed = list(publisher.confirmed)
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    assert run_process("storage", "backup", str(follower.data), str(backup)).returncode == 0
    publisher.stop()
    assert run_process("storage", "restore", str(backup), str(restored)).returncode == 0
    with BrokerProcess(restored, FLINTMQ_MANAGEMENT_ENABLED="false") as alone:
        connection = pika.BlockingConnection(pika.URLParameters(alone.url))
        channel = connection.channel()
        found = {
            int(channel.basic_get("q", auto_ack=True)[2])
            for _ in range(channel.queue_declare("q", True).method.message_count)
        }
        connection.close()
    assert set(confirmed) <= found
