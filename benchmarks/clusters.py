"""Clusters of FlintMQ and of RabbitMQ on this machine, as processes."""

import asyncio
import contextlib
import shutil
import subprocess
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from benchmarks.brokers import Broker, BrokerError, Certificate, FlintMQ, RabbitMQ, Running, free_port
from flintmq.cluster.coordinator import CoordinatorError
from flintmq.cluster.etcd import Etcd

# Where the nodes have their data, on the disk that is measured with them.
DATA: Final = Path(__file__).resolve().parent.parent / ".bench-data" / "cluster"
_READY_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True)
class Contestant:
    """A cluster that runs: its nodes, and the one that leads."""

    nodes: list[Running]
    leader: Running
    queue_type: str


class Cluster:
    """How to start one. `name` is for the table."""

    name: str
    nodes: int

    @abstractmethod
    def running(self) -> contextlib.AbstractContextManager[Contestant]:
        """Start it with fresh data; it is gone after the block. Raises BrokerError."""


@final
class _Node(FlintMQ):
    """One of several. `own` are its settings of the cluster."""

    def __init__(self, number: int, own: dict[str, str]) -> None:
        self.name = f"flintmq{number}"
        self._own = own

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        return super().environment(directory, port) | {"FLINTMQ_MANAGEMENT_ENABLED": "false"} | self._own


@final
class FlintCluster(Cluster):
    """`nodes` of 0 is a broker without a cluster."""

    def __init__(self, name: str, nodes: int) -> None:
        self.name = name
        self.nodes = nodes

    @contextlib.contextmanager
    def running(self) -> Iterator[Contestant]:
        if not self.nodes:
            with _Node(0, {}).running(DATA) as alone:
                yield Contestant([alone], alone, "classic")
            return
        with contextlib.ExitStack() as stack:
            nodes = FlintNodes(stack, min(self.nodes, 2))
            nodes.start(self.nodes)
            yield Contestant(nodes.running(), nodes.leader(), "classic")


@final
class FlintNodes:
    """Nodes of FlintMQ, and an etcd of their own. They are gone when the stack is closed."""

    def __init__(self, stack: contextlib.ExitStack, min_in_sync: int) -> None:
        self._stack = stack
        self._endpoint = stack.enter_context(_etcd(DATA / "etcd"))
        self._settings = {
            "FLINTMQ_CLUSTER_NAME": "bench",
            "FLINTMQ_CLUSTER_ETCD": self._endpoint,
            "FLINTMQ_CLUSTER_MIN_IN_SYNC": str(min_in_sync),
        }
        self._starts: list[_Start] = []

    def start(self, count: int) -> None:
        """Start so many more at once, because the first one of a cluster waits for the others."""
        for _ in range(count):
            number = len(self._starts)
            own = {"FLINTMQ_CLUSTER_NODE": str(number), "FLINTMQ_CLUSTER_PORT": str(free_port())}
            self._starts.append(_Start(self._stack, _Node(number, self._settings | own)))

    def leader(self) -> Running:
        """The node that leads, once all are in sync. Raises BrokerError if that takes too long."""
        leader = asyncio.run(_leader(self._endpoint, len(self._starts)))
        return self._starts[int(leader)].result()

    def running(self) -> list[Running]:
        """All of them. Raises BrokerError if one does not accept clients."""
        return [start.result() for start in self._starts]

    def directory(self, number: int) -> Path:
        """Where a node has its data."""
        return self._starts[number].directory


async def _leader(endpoint: str, count: int) -> str:
    """The node that leads, once so many are in sync."""
    coordinator = Etcd([endpoint], "bench")
    deadline = time.monotonic() + _READY_SECONDS
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(CoordinatorError):
                view = await coordinator.view()
                if view.leader is not None and len(view.in_sync) == count:
                    return view.leader.node
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        await coordinator.close()
    raise BrokerError("not all nodes are in sync")


@contextlib.contextmanager
def _etcd(directory: Path) -> Iterator[str]:
    """An etcd of its own. Returns its endpoint."""
    clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    shutil.rmtree(directory, ignore_errors=True)
    process = subprocess.Popen(
        [
            *("etcd", "--data-dir", str(directory), "--name", "one", "--initial-cluster", f"one={peers}"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--log-level", "error"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield clients
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


@final
class _Start:
    """A node that starts on a thread, because it accepts clients when others have started, too."""

    def __init__(self, stack: contextlib.ExitStack, broker: Broker) -> None:
        self._running: Running | None = None
        self._error: BrokerError | None = None
        self.directory = stack.enter_context(broker.directory(DATA))
        serving = broker.serving(self.directory)
        stack.push(serving)

        def start() -> None:
            try:
                self._running = serving.__enter__()
            except BrokerError as error:
                self._error = error

        self._thread = threading.Thread(target=start)
        self._thread.start()

    def result(self) -> Running:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._running is not None
        return self._running


@final
class _Peer(RabbitMQ):
    """A node of a cluster, which finds the others by their names. `mapper` is the port of the one port mapper."""

    def __init__(self, number: int, nodes: list[str], mapper: int) -> None:
        super().__init__()
        self.name = f"rabbitmq{number}"
        self._node = nodes[number]
        self._nodes = nodes
        self._mapper_port = mapper

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        settings = directory / "rabbitmq.conf"
        found = "".join(
            f"cluster_formation.classic_config.nodes.{number} = {node}\n" for number, node in enumerate(self._nodes, 1)
        )
        settings.write_text(
            "cluster_formation.peer_discovery_backend = classic_config\n"
            "cluster_formation.randomized_startup_delay_range.max = 0\n" + found
        )
        return super().environment(directory, port) | {
            # The cookie, by which nodes trust each other, is there.
            "HOME": str(DATA),
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_CONFIG_FILE": str(settings),
        }

    @contextlib.contextmanager
    def serving(self, directory: Path, certificate: Certificate | None = None) -> Iterator[Running]:
        # Without a port mapper of its own.
        with Broker.serving(self, directory, certificate) as running:
            yield running


@final
class RabbitCluster(Cluster):
    name = "RabbitMQ, quorum queue, three nodes"
    nodes = 3

    @contextlib.contextmanager
    def running(self) -> Iterator[Contestant]:
        mapper_port = free_port()
        mapper = subprocess.Popen(["epmd", "-port", str(mapper_port), "-address", "127.0.0.1"], start_new_session=True)
        names = [f"bench{number}@localhost" for number in range(self.nodes)]
        try:
            with contextlib.ExitStack() as stack:
                nodes = []
                for number in range(self.nodes):
                    broker = _Peer(number, names, mapper_port)
                    directory = stack.enter_context(broker.directory(DATA))
                    nodes.append(stack.enter_context(broker.serving(directory)))
                # Whoever declares a queue has its leader on the node it is connected to.
                yield Contestant(nodes, nodes[0], "quorum")
        finally:
            mapper.kill()
            mapper.wait()
