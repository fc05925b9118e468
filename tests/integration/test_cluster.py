"""Three nodes and etcd: when the leader is killed, stands still or stops, another one leads, and nothing is lost."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import trustme
from pika.exceptions import AMQPError

from tests.cluster.nodes import NODES, Cluster
from tests.etcd import EtcdProcess
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]
DURABLE = pika.BasicProperties(delivery_mode=2)


class Publisher:
    """Publishes numbers, each confirmed before the next, and connects again whenever it has to."""

    def __init__(self, cluster: Cluster) -> None:
        self.confirmed: list[int] = []
        self._cluster = cluster
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            connection = self._cluster.connect()
            try:
                channel = connection.channel()
                channel.queue_declare("q", durable=True)
                channel.confirm_delivery()
                while not self._ends.is_set():
                    number += 1
                    channel.basic_publish("", "q", str(number).encode(), DURABLE)
                    self.confirmed.append(number)
                connection.close()
            except (AMQPError, OSError):
                continue

    def await_more(self) -> None:
        """Wait until messages are confirmed that are published from now on."""
        count = len(self.confirmed)
        wait_until(lambda: len(self.confirmed) > count + 10)

    def stop(self) -> list[int]:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.confirmed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


def consumed(cluster: Cluster) -> set[int]:
    connection = cluster.connect()
    channel = connection.channel()
    found: set[int] = set()
    while True:
        method, _, body = channel.basic_get("q", auto_ack=True)
        if method is None:
            connection.close()
            return found
        found.add(int(body))


@pytest.mark.timeout(180)
def test_leaders_end_in_every_way(cluster: Cluster) -> None:
    """Killed, in order, and standing still: each time another node goes on, and the old one follows it afterwards."""
    publisher = Publisher(cluster)
    publisher.await_more()
    for end in ("kill", "stop", "stand still"):
        old = cluster.leader()
        node = cluster.nodes[old]
        if end == "stand still":
            node.stand_still(8)
        else:
            node.kill() if end == "kill" else node.stop()
        cluster.await_another_than(old)
        publisher.await_more()
        if end != "stand still":
            cluster.launch(old)
        cluster.await_in_sync(len(NODES))
    confirmed = publisher.stop()
    assert len(confirmed) > 30
    assert set(confirmed) <= consumed(cluster)


@pytest.mark.timeout(120)
def test_followers_end_and_come_back(cluster: Cluster) -> None:
    """One follower less changes nothing; without any, nothing is confirmed until one is back."""
    publisher = Publisher(cluster)
    publisher.await_more()
    cluster.nodes["b"].kill()
    publisher.await_more()
    cluster.nodes["c"].kill()
    time.sleep(1)
    count = len(publisher.confirmed)
    time.sleep(1)
    assert len(publisher.confirmed) == count
    cluster.nodes["b"].launch()
    publisher.await_more()
    confirmed = publisher.stop()
    assert set(confirmed) <= consumed(cluster)


@pytest.mark.timeout(120)
def test_nodes_that_trust_nobody_else(tmp_path: Path) -> None:
    """With a secret, TLS between the nodes, and a user and TLS for etcd: all goes on when the leader is killed."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "node.pem")
    secured: dict[str, str] = {
        "FLINTMQ_CLUSTER_SECRET": "only these three know it",
        "FLINTMQ_CLUSTER_CERTIFICATE": str(tmp_path / "node.pem"),
        "FLINTMQ_CLUSTER_CA": str(tmp_path / "ca.pem"),
        "FLINTMQ_CLUSTER_ETCD_USER": "flintmq",
        "FLINTMQ_CLUSTER_ETCD_PASSWORD": "password in etcd",
        "FLINTMQ_CLUSTER_ETCD_CA": str(tmp_path / "ca.pem"),
    }
    with EtcdProcess(tmp_path / "etcd", certificate=tmp_path / "node.pem", ca=tmp_path / "ca.pem") as etcd:
        etcd.require_login("flintmq", "password in etcd", "/flintmq/c/")
        with Cluster(tmp_path, etcd, lambda _: secured) as cluster:
            publisher = Publisher(cluster)
            publisher.await_more()
            old = cluster.leader()
            cluster.nodes[old].kill()
            cluster.await_another_than(old)
            publisher.await_more()
            cluster.nodes[old].launch()
            cluster.await_in_sync(len(NODES))
            confirmed = publisher.stop()
            assert set(confirmed) <= consumed(cluster)
            for node in cluster.nodes.values():
                assert not any(line["event"] == "node refused" for line in node.log)
