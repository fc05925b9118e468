"""Three nodes of FlintMQ, and of RabbitMQ with a quorum queue, on this machine: persistent messages with confirms, and
how long nothing is confirmed when the leader is killed. Beside them, FlintMQ alone, and as a cluster of one.

Each contestant runs alone, with fresh data, and all of them in each run, so that a busy minute of the machine hits all.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import logging
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import pika
from pika.exceptions import AMQPError

from benchmarks.brokers import Broker, BrokerError, Certificate, FlintMQ, RabbitMQ, Running, free_port
from benchmarks.loads import DURABLE
from flintmq.cluster.coordinator import CoordinatorError
from flintmq.cluster.etcd import Etcd

_HERE: Final = Path(__file__).resolve().parent
_DATA: Final = _HERE.parent / ".bench-data" / "cluster"
_GENERATOR: Final = _HERE / "load" / "amqpload"
_LOADS: Final = {"b16": "16", "b1k": "1024"}
_READY_SECONDS: Final = 120.0
# The leader is killed after so long, and publishers have so long to go on.
_BEFORE_SECONDS: Final = 2.0
_AFTER_SECONDS: Final = 20.0


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
            with _Node(0, {}).running(_DATA) as alone:
                yield Contestant([alone], alone, "classic")
            return
        with contextlib.ExitStack() as stack:
            endpoint = stack.enter_context(_etcd(_DATA / "etcd"))
            settings = {
                "FLINTMQ_CLUSTER_NAME": "bench",
                "FLINTMQ_CLUSTER_ETCD": endpoint,
                "FLINTMQ_CLUSTER_MIN_IN_SYNC": str(min(self.nodes, 2)),
            }
            # They start at once, because the first one waits for the others.
            starting: list[_Start] = []
            for number in range(self.nodes):
                own = {"FLINTMQ_CLUSTER_NODE": str(number), "FLINTMQ_CLUSTER_PORT": str(free_port())}
                starting.append(_Start(stack, _Node(number, settings | own)))
            nodes = [start.result() for start in starting]
            leader = asyncio.run(_leader(endpoint, self.nodes))
            yield Contestant(nodes, nodes[int(leader)], "classic")


async def _leader(endpoint: str, count: int) -> str:
    """The node that leads, once all nodes are in sync."""
    coordinator = Etcd([endpoint], "bench")
    deadline = time.monotonic() + _READY_SECONDS
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(CoordinatorError):
                view = await coordinator.view()
                if view.leader is not None and len(view.in_sync) == count:
                    return view.leader.node
            await asyncio.sleep(0.1)
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
        directory = stack.enter_context(broker.directory(_DATA))
        serving = broker.serving(directory)
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
            "HOME": str(_DATA),
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
                    directory = stack.enter_context(broker.directory(_DATA))
                    nodes.append(stack.enter_context(broker.serving(directory)))
                # Whoever declares a queue has its leader on the node it is connected to.
                yield Contestant(nodes, nodes[0], "quorum")
        finally:
            mapper.kill()
            mapper.wait()


def _rate(contestant: Contestant, load: str, seconds: float) -> float:
    """Messages a second that were published, confirmed and consumed."""
    command = [str(_GENERATOR), "--json", "--port", str(contestant.leader.port), "--queue", load, "--delete"]
    command += [*DURABLE, "--size", _LOADS[load], "--time", f"{seconds:g}", "--qtype", contestant.queue_type]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=seconds + 120)
    return float(json.loads(done.stdout)["consume_rate"])


def _gap(contestant: Contestant) -> float:
    """The longest time between two confirms around the end of the leader, in seconds."""
    # The leader first, so that RabbitMQ's queue has its leader there.
    nodes = sorted(contestant.nodes, key=lambda node: node is not contestant.leader)
    addresses = [
        pika.ConnectionParameters("127.0.0.1", node.port, socket_timeout=1, stack_timeout=2, heartbeat=2)
        for node in nodes
    ]
    confirmed: list[float] = []
    ends = threading.Event()

    def publish() -> None:
        while not ends.is_set():
            try:
                connection = pika.BlockingConnection(addresses)
                channel = connection.channel()
                channel.queue_declare("gap", durable=True, arguments={"x-queue-type": contestant.queue_type})
                channel.confirm_delivery()
                while not ends.is_set():
                    channel.basic_publish("", "gap", b"x", pika.BasicProperties(delivery_mode=2))
                    confirmed.append(time.monotonic())
                connection.close()
            except (AMQPError, OSError):
                time.sleep(0.01)

    publisher = threading.Thread(target=publish)
    publisher.start()
    time.sleep(_BEFORE_SECONDS)
    killed = time.monotonic()
    assert contestant.leader.pid is not None
    os.killpg(contestant.leader.pid, signal.SIGKILL)
    while not any(moment > killed + 0.05 for moment in confirmed[-1:]) and time.monotonic() < killed + _AFTER_SECONDS:
        time.sleep(0.05)
    time.sleep(_BEFORE_SECONDS)
    ends.set()
    publisher.join()
    return max(later - earlier for earlier, later in itertools.pairwise(confirmed) if later > killed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of which the medians count (3)")
    parser.add_argument("--seconds", type=float, default=5, help="how long a load is measured (5)")
    options = parser.parse_args()
    # What the client says about the end of a node is expected.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    if shutil.which("etcd") is None:
        sys.exit("bench: etcd is not installed (apt-get install etcd-server)")
    subprocess.run(["make", "-s", "-C", str(_GENERATOR.parent)], check=True)
    contestants: list[Cluster] = [
        FlintCluster("FlintMQ alone", 0),
        FlintCluster("FlintMQ, a cluster of one", 1),
        FlintCluster("FlintMQ, three nodes", 3),
    ]
    if RabbitMQ.installed():
        contestants.append(RabbitCluster())
    else:
        print("RabbitMQ is not installed: measuring FlintMQ alone", file=sys.stderr)
    figures: dict[str, dict[str, list[float]]] = {each.name: {} for each in contestants}
    for run in range(1, options.runs + 1):
        for each in contestants:
            print(f"run {run} of {options.runs}: {each.name}", file=sys.stderr)
            shutil.rmtree(_DATA, ignore_errors=True)
            _DATA.mkdir(parents=True)
            with each.running() as contestant:
                for load in _LOADS:
                    figures[each.name].setdefault(load, []).append(_rate(contestant, load, options.seconds))
                if each.nodes > 1:
                    figures[each.name].setdefault("gap", []).append(_gap(contestant))
    shutil.rmtree(_DATA, ignore_errors=True)
    print(f"\nmedians of {options.runs} runs of {options.seconds:g} s\n")
    alone = figures[contestants[0].name]
    for name, found in figures.items():
        print(name)
        for load in _LOADS:
            rate = statistics.median(found[load])
            share = statistics.median(a / b for a, b in zip(found[load], alone[load], strict=True))
            bounds = f"{min(found[load]):,.0f} to {max(found[load]):,.0f}"
            print(f"  {load}: {rate:,.0f} msg/s ({bounds}), {share:.2f} of one node")
        if "gap" in found:
            gaps = found["gap"]
            median = statistics.median(gaps)
            print(f"  without confirms after kill -9 of the leader: {median:.2f} s (worst {max(gaps):.2f} s)")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
