"""Three nodes and etcd on this machine, as processes, with a network between them that can be cut."""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pika
from pika.exceptions import AMQPError

from flintmq.cluster.coordinator import CoordinatorError, View
from flintmq.cluster.etcd import Etcd
from tests.cluster.background import Background
from tests.cluster.network import Network, is_open
from tests.etcd import EtcdProcess
from tests.servers import BrokerProcess, LogLine, free_port
from tests.waiting import WAIT_SECONDS, wait_until

NODES: Final = ("a", "b", "c")
_NAME: Final = "c"


class Cluster:
    """Runs within a `with` block, with its data below `path`. `ports` are where the nodes accept clients as leaders."""

    def __init__(self, path: Path) -> None:
        self.etcd = EtcdProcess(path / "etcd")
        self.background = Background()
        self.network = Network(self.background, self._pids)
        self.ports = {node: free_port() for node in NODES}
        self.nodes: dict[str, BrokerProcess] = {}
        # What nodes said that were started again since.
        self._earlier: dict[str, list[LogLine]] = {node: [] for node in NODES}
        self._path = path
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self.background)
            self._stack.enter_context(self.etcd)
            self._stack.callback(self._close_nodes)
            for node in NODES:
                self.nodes[node] = self._node(node)
            self._coordinator = self.background.run(self._open_coordinator())
            self._stack.callback(lambda: self.background.run(self._coordinator.close()))
            for each in self.nodes.values():
                each.launch()
            self.await_in_sync(len(NODES))
            self.leader()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _node(self, node: str) -> BrokerProcess:
        port = free_port()
        return BrokerProcess(
            self._path / node,
            FLINTMQ_LISTEN_PORT=str(self.ports[node]),
            FLINTMQ_MANAGEMENT_ENABLED="false",
            FLINTMQ_CLUSTER_NAME=_NAME,
            FLINTMQ_CLUSTER_NODE=node,
            FLINTMQ_CLUSTER_ETCD=f"http://127.0.0.1:{self.network.to_etcd(node, self.etcd.port)}",
            FLINTMQ_CLUSTER_PORT=str(port),
            FLINTMQ_CLUSTER_ADDRESS=f"127.0.0.1:{self.network.to_node(node, port)}",
        )

    async def _open_coordinator(self) -> Etcd:
        return Etcd([self.etcd.url], _NAME)

    def _pids(self) -> dict[str, int]:
        return {name: node.process.pid for name, node in self.nodes.items() if node.is_running}

    def _close_nodes(self) -> None:
        for node in self.nodes.values():
            node.close()

    def launch(self, node: str) -> None:
        """Start a node again that has ended."""
        self._earlier[node] += self.nodes[node].log
        self.nodes[node].launch()

    def write_logs(self) -> None:
        """Write what the nodes have said since the cluster was started beside their data: <path>/<node>.log."""
        for name, node in self.nodes.items():
            lines = "".join(json.dumps(line) + "\n" for line in self._earlier[name] + node.log)
            (self._path / f"{name}.log").write_text(lines, encoding="utf-8")

    # -- who leads ----------------------------------------------------------------------------------------------

    def view(self) -> View:
        """The cluster as etcd has it. Raises CoordinatorError if etcd does not answer."""
        return self.background.run(self._coordinator.view())

    def leader(self) -> str:
        """The node that leads and accepts clients, once there is one."""
        found = ""

        def is_there() -> bool:
            nonlocal found
            found = self._leader_now()
            return bool(found)

        wait_until(is_there)
        return found

    def followers(self) -> list[str]:
        leader = self.leader()
        return [node for node in NODES if node != leader]

    def await_another_than(self, old: str) -> None:
        """Wait until another node leads and accepts clients."""
        wait_until(lambda: self._leader_now() not in ("", old))

    def await_in_sync(self, count: int) -> None:
        """Wait until so many nodes are in sync and alive, under a leader that is."""

        def is_so() -> bool:
            try:
                view = self.view()
            except CoordinatorError:
                return False
            there = view.in_sync & view.alive
            return len(there) == len(view.in_sync) == count and view.leader is not None and view.leader.node in there

        wait_until(is_so)

    def _leader_now(self) -> str:
        try:
            leader = self.view().leader
        except CoordinatorError:
            return ""
        if leader is None or not self.nodes[leader.node].is_running or not is_open(self.ports[leader.node]):
            return ""
        return leader.node

    # -- clients ------------------------------------------------------------------------------------------------

    def connect(self) -> pika.BlockingConnection:
        """Connect to the node that accepts clients."""
        parameters = [
            pika.ConnectionParameters(
                "127.0.0.1", port, socket_timeout=2, stack_timeout=2, blocked_connection_timeout=5, heartbeat=2
            )
            for port in self.ports.values()
        ]
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return pika.BlockingConnection(parameters)
            except (AMQPError, OSError):
                assert time.monotonic() < deadline, "no node accepts a client"
                time.sleep(0.05)
