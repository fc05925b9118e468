"""What publishers notice while a node joins a cluster of two and copies gigabytes: how long confirms take.

One client publishes a message at a time, with a pause between them. The table has percentiles of the time from publish
to confirm, in milliseconds. Two rows tell what this machine does to a cluster in which nothing happens: while two other
programs keep two processors busy, and while one writes to the same disk. Nodes that share these get no better ones.
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, final

from benchmarks import generator
from benchmarks.brokers import BrokerError
from benchmarks.clusters import DATA, FlintNodes
from flintmq.wire.amqp091.methods import BasicAck, ConfirmSelect, ConfirmSelectOk, QueueDeclare, QueueDeclareOk
from tests.sockets import PERSISTENT, AmqpSocket, publish_frames

_FILLERS: Final = 4
_FILL_BYTES: Final = 16 * 1024
_LIVE_BYTES: Final = 1024
_PAUSE_SECONDS: Final = 0.001
_DISK_MB: Final = 1024
_BUSY: Final = [sys.executable, "-c", "while True: pass"]


@final
class _Publisher:
    """Publishes to a node, on a thread, within a `with` block."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends = threading.Event()
        # When each message was published, and the seconds until its confirm.
        self._found: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Publish meanwhile. Raises what the connection raises."""
        with ThreadPoolExecutor(1) as threads:
            publishing = threads.submit(self._publish)
            try:
                yield
            finally:
                self._ends.set()
            publishing.result()

    def _publish(self) -> None:
        frames = publish_frames(1, "", "live", b"x" * _LIVE_BYTES, PERSISTENT)
        with AmqpSocket(self._port) as socket:
            socket.open().open_channel(1)
            socket.call(1, QueueDeclare(queue="live", durable=True), QueueDeclareOk)
            socket.call(1, ConfirmSelect(), ConfirmSelectOk)
            while not self._ends.wait(_PAUSE_SECONDS):
                started = time.monotonic()
                socket.send(frames)
                socket.expect(BasicAck, 1)
                self._found.append((started, time.monotonic() - started))

    def milliseconds(self, start: float, end: float) -> list[float]:
        """How long the confirms took of what was published between two points of time."""
        return [took * 1000 for at, took in self._found if start <= at < end]


@contextlib.contextmanager
def _beside(command: list[str], count: int) -> Iterator[None]:
    """So many of these programs run meanwhile."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        yield


def _writing() -> list[str]:
    return ["dd", "if=/dev/zero", f"of={DATA / 'written'}", "bs=1M", "count=100000", "oflag=dsync"]


def _disk_speed() -> float:
    """How fast a file is written and synced in one go, in MB/s."""
    target = DATA / "written"
    start = time.monotonic()
    command = ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={_DISK_MB}", "conv=fdatasync"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    target.unlink()
    return _DISK_MB * 1024 * 1024 / 1e6 / seconds


def _fill(port: int, megabytes: int) -> None:
    count = megabytes * 1_000_000 // _FILL_BYTES // _FILLERS
    clients = ("--queue", "deep", "--producers", str(_FILLERS), "--consumers", "0")
    messages = ("--size", str(_FILL_BYTES), "--persistent", "--confirm", "200", "--count", str(count))
    generator.run(port, *clients, *messages)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(prog="joining", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=3000, help="how much the node has to copy (3000)")
    parser.add_argument("--seconds", type=float, default=6, help="how long each of the other rows is measured (6)")
    options = parser.parse_args()
    if shutil.which("etcd") is None:
        sys.exit("bench: etcd is not installed (apt-get install etcd-server)")
    generator.build()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    spans: dict[str, tuple[float, float]] = {}

    @contextlib.contextmanager
    def measured(name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        spans[name] = (start, time.monotonic())

    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, DATA, ignore_errors=True)
        nodes = FlintNodes(stack, 2)
        nodes.start(2)
        nodes.running()
        leader = nodes.leader()
        _fill(leader.port, options.megabytes)
        disk = _disk_speed()
        publisher = _Publisher(leader.port)
        with publisher.running():
            time.sleep(1)
            with measured("before"):
                time.sleep(options.seconds)
            with _beside(_BUSY, 2), measured("two processors are busy"):
                time.sleep(options.seconds)
            with _beside(_writing(), 1), measured("the disk is busy"):
                time.sleep(options.seconds)
            (DATA / "written").unlink()
            time.sleep(1)
            with measured("a node joins"):
                nodes.start(1)
                nodes.leader()
            time.sleep(1)
            with measured("afterwards"):
                time.sleep(options.seconds)
        copied = _size(nodes.directory(2))
        start, end = spans["a node joins"]
        print(f"\nFrom publish to confirm, while a node copies {copied / 1e6:,.0f} MB in {end - start:.1f} s:\n")
        print(f"| {'':<23} |  p50 ms |  p99 ms | p99 to before")
        before = _p99(publisher.milliseconds(*spans["before"]))
        for name, span in spans.items():
            found = publisher.milliseconds(*span)
            print(
                f"| {name:<23} | {statistics.median(found):>7.2f} | {_p99(found):>7.2f} | {_p99(found) / before:>13.2f}"
            )
        speed = copied / 1e6 / (end - start)
        print(f"\n{speed:,.0f} MB/s, {speed / disk:.2f} of what the disk takes in one go ({disk:,.0f} MB/s)")
    return 0


def _p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[-1]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
