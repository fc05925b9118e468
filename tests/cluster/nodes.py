"""Three nodes and etcd on this machine, as processes, with a network between them that can be cut."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

from flintmq.cluster.coordinator import CoordinatorError, View
from flintmq.cluster.etcd import Etcd, etcd_of
from flintmq.server import config
from tests.cluster.background import Background
from tests.cluster.network import Network
from tests.etcd import EtcdProcess
from tests.servers import BrokerProcess, LogLine, free_port
from tests.stalling_disk import StallingDisks
from tests.waiting import WAIT_SECONDS, wait_until

NODES: Final = ("a", "b", "c")
_NAME: Final = "c"


class Cluster:
    """Runs within a `with` block, with its data below `path`. Nodes have `more` settings, and `disks` that may stall.
    They run what is installed for the interpreter `python`.

    `ports` are where the nodes accept clients. `etcd` is one that runs already; without it, the cluster has its own.
    """

    def __init__(
        self,
        path: Path,
        etcd: EtcdProcess | None = None,
        more: Callable[[str], dict[str, str]] = lambda _: {},
        disks: StallingDisks | None = None,
        python: str = sys.executable,
    ) -> None:
        self.etcd = etcd or EtcdProcess(path / "etcd")
        self.background = Background()
        self.network = Network(self.background, self._pids)
        self.ports = {node: free_port() for node in NODES}
        self.nodes: dict[str, BrokerProcess] = {}
        # What nodes said that were started again since.
        self._earlier: dict[str, list[LogLine]] = {node: [] for node in NODES}
        self._path = path
        self._more = more
        self._disks = disks
        self._python = python
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self.background)
            if self.etcd.process is None:
                self._stack.enter_context(self.etcd)
            for node in NODES:
                self.nodes[node] = self._node(node)
                self._stack.callback(self.nodes[node].close)
            self._coordinator = self.background.run(self._open_coordinator())
            self._stack.callback(lambda: self.background.run(self._coordinator.close()))
            self._launch()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _node(self, node: str) -> BrokerProcess:
        port = free_port()
        settings = {
            "FLINTMQ_LISTEN_PORT": str(self.ports[node]),
            "FLINTMQ_MANAGEMENT_ENABLED": "false",
            "FLINTMQ_CLUSTER_NODE": node,
            "FLINTMQ_CLUSTER_PORT": str(port),
            "FLINTMQ_CLUSTER_ADDRESS": f"127.0.0.1:{self.network.to_node(node, port)}",
            **self.settings(node),
            **(self._disks.settings(node) if self._disks else {}),
        }
        url = self.etcd.url.replace(f":{self.etcd.port}", f":{self.network.to_etcd(node, self.etcd.port)}")
        settings["FLINTMQ_CLUSTER_ETCD"] = url
        process = BrokerProcess(self._path / node, wrapper=(), **settings)
        process.python = self._python
        return process

    def settings(self, node: str) -> dict[str, str]:
        """What says which cluster it is, and how to reach etcd; and the settings that were given for the node."""
        return {"FLINTMQ_CLUSTER_NAME": _NAME, "FLINTMQ_CLUSTER_ETCD": self.etcd.url, **self._more(node)}

    async def _open_coordinator(self) -> Etcd:
        return etcd_of(config.load(None, self.settings(NODES[0]), {}).cluster)

    def _launch(self) -> None:
        """Start all nodes, and wait until they are a cluster."""
        for node in self.nodes.values():
            node.launch()
        self.await_in_sync(len(NODES))

    def _pids(self) -> dict[str, int]:
        return {name: node.process.pid for name, node in self.nodes.items() if node.is_running}

    @property
    def disks(self) -> StallingDisks:
        assert self._disks is not None, "the disks of this cluster do not stall"
        return self._disks

    def launch(self, node: str) -> None:
        """Start a node again that has ended."""
        self._earlier[node] += self.nodes[node].log
        self.nodes[node].launch()

    def log(self, node: str) -> list[LogLine]:
        """What a node has said since the cluster was started."""
        return self._earlier[node] + self.nodes[node].log

    def write_logs(self) -> None:
        """Write what the nodes have said beside their data: <path>/<node>.log."""
        for name in self.nodes:
            lines = "".join(json.dumps(line) + "\n" for line in self.log(name))
            (self._path / f"{name}.log").write_text(lines, encoding="utf-8")

    # -- who leads ----------------------------------------------------------------------------------------------

    def view(self) -> View:
        """The cluster as etcd has it. Raises CoordinatorError if etcd does not answer."""
        return self.background.run(self._coordinator.view())

    def leader(self) -> str:
        """The node that leads, once there is one."""
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
        """Wait until another node leads."""
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
        return "" if leader is None or not self.nodes[leader.node].is_running else leader.node

    # -- clients ------------------------------------------------------------------------------------------------

    def connect(self) -> pika.BlockingConnection:
        """Connect to the first node that serves clients."""
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
            except (AMQPError, AMQPConnectorException, OSError):
                # AMQPConnectorException: a node has accepted the connection and says nothing, as its disk stalls.
                assert time.monotonic() < deadline, "no node accepts a client"
                time.sleep(0.05)
