"""Three nodes as processes: what the HTTP API, the metrics and the commands say of them is so."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from flintmq.cluster.etcd import Etcd
from tests.commands import run_here
from tests.etcd import EtcdProcess
from tests.servers import BrokerProcess, free_port
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]
NODES: Final = ("a", "b", "c")


class Operated:
    """A cluster, and what its operator asks."""

    def __init__(self, path: Path, etcd: EtcdProcess) -> None:
        self.settings: dict[str, Any] = {"FLINTMQ_CLUSTER_NAME": "c1", "FLINTMQ_CLUSTER_ETCD": etcd.url}
        self.http = {node: free_port() for node in NODES}
        self.nodes = {
            node: BrokerProcess(
                path / node,
                FLINTMQ_LISTEN_PORT=str(free_port()),
                FLINTMQ_MANAGEMENT_PORT=str(self.http[node]),
                FLINTMQ_CLUSTER_NODE=node,
                FLINTMQ_CLUSTER_PORT=str(free_port()),
                **self.settings,
            )
            for node in NODES
        }

    def command(self, *arguments: str) -> tuple[int, str]:
        ran = run_here("cluster", *arguments, **self.settings)
        return ran.returncode, ran.stdout + ran.stderr

    def await_in_sync(self, *nodes: str) -> None:
        for node in nodes:
            assert self.command("wait-in-sync", node, "--timeout", str(WAIT_SECONDS)) == (0, f"{node} is in sync\n")

    def announce(self, node: str) -> None:
        """Count a node as alive, as it does itself when it starts, before it follows."""

        async def announce() -> None:
            etcd = Etcd([self.settings["FLINTMQ_CLUSTER_ETCD"]], self.settings["FLINTMQ_CLUSTER_NAME"])
            await etcd.announce(node, await etcd.grant(600))
            await etcd.close()

        asyncio.run(announce())

    def ask(self, path: str, node: str) -> httpx.Response:
        """Ask a node that leads, or is about to."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return httpx.get(f"http://127.0.0.1:{self.http[node]}{path}", auth=("guest", "guest"))
            except httpx.TransportError:
                assert time.monotonic() < deadline, f"the API of {node} does not answer"
                time.sleep(0.05)

    def leader(self) -> str:
        text = self.command("status")[1]
        return text.partition(": ")[2].split()[0]

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Operated]:
    with EtcdProcess(tmp_path / "etcd") as etcd:
        made = Operated(tmp_path, etcd)
        try:
            for node in made.nodes.values():
                node.launch()
            made.await_in_sync(*NODES)
            yield made
        finally:
            made.close()


@pytest.mark.timeout(180)
def test_a_cluster_in_operation(cluster: Operated) -> None:
    """All nodes are shown by the one that leads, also when another one does, when one is lost, and when it has left."""
    old = cluster.leader()
    new, lost = [node for node in NODES if node != old]
    assert cluster.command("transfer-leadership", new) == (0, f"{new} leads\n")
    cluster.await_in_sync(*NODES)

    def shown() -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in cluster.ask("/api/nodes", new).json()}

    nodes = shown()
    assert set(nodes) == {"flintmq@a", "flintmq@b", "flintmq@c"}
    assert [name for name, node in nodes.items() if node["is_leader"]] == [f"flintmq@{new}"]
    assert all(node["running"] and node["is_in_sync"] for node in nodes.values())
    assert all(node["behind_bytes"] >= 0 and node["behind_seconds"] >= 0 for node in nodes.values())
    assert nodes[f"flintmq@{new}"]["mem_used"] > 0
    overview = cluster.ask("/api/overview", new).json()
    assert (overview["node"], overview["cluster_name"]) == (f"flintmq@{new}", "c1")
    assert (overview["cluster"]["nodes"], overview["cluster"]["in_sync"], overview["cluster"]["shortage"]) == (3, 3, "")
    assert cluster.ask("/api/health/checks/node-is-quorum-critical", new).json() == {"status": "ok"}
    assert cluster.command("leave", lost)[0] == 1

    cluster.nodes[lost].kill()
    wait_until(lambda: not shown()[f"flintmq@{lost}"]["running"])
    wait_until(lambda: cluster.ask("/api/health/checks/node-is-quorum-critical", new).status_code == 503)
    gone = shown()[f"flintmq@{lost}"]
    assert (gone["is_in_sync"], gone["behind_bytes"]) == (False, None)
    metrics = {
        (sample.name, sample.labels.get("node")): sample.value
        for family in text_string_to_metric_families(cluster.ask("/metrics", new).text)
        for sample in family.samples
    }
    assert metrics["flintmq_cluster_nodes_in_sync", None] == 2
    assert metrics["flintmq_cluster_node_is_alive", f"flintmq@{lost}"] == 0
    assert metrics["rabbitmq_unreachable_cluster_peers_count", None] == 1
    assert cluster.ask("/api/health/checks/alarms", new).status_code == 200

    cluster.nodes[old].kill()
    wait_until(lambda: cluster.ask("/api/health/checks/alarms", new).status_code == 503)
    (alarm,) = cluster.ask("/api/health/checks/alarms", new).json()["alarms"]
    assert alarm["resource"] == "cluster"
    assert "in sync" in alarm["reason"]
    wait_until(lambda: cluster.command("status")[0] == 1)
    cluster.announce(old)
    assert "does not have everything" in cluster.command("wait-in-sync", old, "--timeout", "0")[1]

    cluster.nodes[old].launch()
    cluster.await_in_sync(old)
    wait_until(lambda: cluster.command("leave", lost)[0] == 0)
    wait_until(lambda: f"flintmq@{lost}" not in shown())
    wait_until(lambda: cluster.command("status")[0] == 0)
