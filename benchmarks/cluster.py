"""Three nodes of FlintMQ, and of RabbitMQ with a quorum queue, on this machine: persistent messages with confirms, and
how long nothing is confirmed when the leader is killed. Beside them, FlintMQ alone, and as a cluster of one.

Each contestant runs alone, with fresh data, and all of them in each run, so that a busy minute of the machine hits all.
"""

import argparse
import itertools
import logging
import os
import shutil
import signal
import statistics
import sys
import threading
import time
from typing import Final

import pika
from pika.exceptions import AMQPError

from benchmarks import generator
from benchmarks.brokers import BrokerError, RabbitMQ
from benchmarks.clusters import DATA, Cluster, Contestant, FlintCluster, RabbitCluster
from benchmarks.loads import DURABLE

_LOADS: Final = {"b16": "16", "b1k": "1024"}
# The leader is killed after so long, and publishers have so long to go on.
_BEFORE_SECONDS: Final = 2.0
_AFTER_SECONDS: Final = 20.0
# A load ends so long after it was to end, at the latest.
_GRACE_SECONDS: Final = 120.0


def _rate(contestant: Contestant, load: str, seconds: float) -> float:
    """Messages a second that were published, confirmed and consumed."""
    queue = ("--queue", load, "--qtype", contestant.queue_type, "--delete")
    messages = (*DURABLE, "--size", _LOADS[load], "--time", f"{seconds:g}")
    report = generator.run(contestant.leader.port, *queue, *messages, seconds=seconds + _GRACE_SECONDS)
    return float(report["consume_rate"])


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
    generator.build()
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
            shutil.rmtree(DATA, ignore_errors=True)
            DATA.mkdir(parents=True)
            with each.running() as contestant:
                for load in _LOADS:
                    figures[each.name].setdefault(load, []).append(_rate(contestant, load, options.seconds))
                if each.nodes > 1:
                    figures[each.name].setdefault("gap", []).append(_gap(contestant))
    shutil.rmtree(DATA, ignore_errors=True)
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
