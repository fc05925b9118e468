"""What listing 10,000 queues over HTTP costs consumers: how long deliveries take meanwhile, and without it.

One client publishes a message at a time and consumes it, with a pause between them; another process lists all queues
over and over, without and with sorting by a rate. Percentiles of the time from publish to delivery, in microseconds.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flintmq.wire.amqp091.methods import BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames

_QUEUES: Final = 10_000
_PAUSE_SECONDS: Final = 0.001
_TARGET: Final = 2.0
_LISTER: Final = """
import sys, time, httpx
url, path = sys.argv[1:]
with httpx.Client(base_url=url, auth=("guest", "guest"), timeout=120) as client:
    client.get("/api/whoami")
    print("ready", flush=True)
    while True:
        started = time.monotonic()
        count = len(client.get(path).content)
        print(f"{time.monotonic() - started:.2f} s, {count:,} bytes", flush=True)
"""
_LOADS: Final = {
    "all": "/api/queues",
    "sorted by a rate": "/api/queues?sort=message_stats.publish_details.rate&page=1&page_size=100",
}


def _declare(socket: AmqpSocket) -> None:
    for start in range(0, _QUEUES, 1000):
        names = range(start, start + 1000)
        socket.send_method(1, *(QueueDeclare(queue=f"other-{number}", no_wait=True) for number in names))
        socket.call(1, QueueDeclare(queue="bench"), QueueDeclareOk)
    socket.call(1, BasicConsume(queue="bench", no_ack=True), BasicConsumeOk)


def _latencies(socket: AmqpSocket, seconds: float) -> list[float]:
    frames = publish_frames(1, "", "bench", b"x" * 16)
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        started = time.perf_counter()
        socket.send(frames)
        assert socket.read_frame().kind == 1
        socket.read_content()
        found.append((time.perf_counter() - started) * 1e6)
    return found


@contextlib.contextmanager
def _listing(url: str, path: str) -> Iterator[list[str]]:
    """Somebody lists meanwhile; what each took is there when the block has ended."""
    said: list[str] = []
    with subprocess.Popen([sys.executable, "-c", _LISTER, url, path], stdout=subprocess.PIPE, text=True) as lister:
        assert lister.stdout is not None
        assert lister.stdout.readline() == "ready\n"
        try:
            yield said
        finally:
            lister.terminate()
            said += lister.stdout.read().splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(prog="listing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long each figure is measured (10)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory())
        broker = stack.enter_context(BrokerProcess(Path(data)))
        socket = stack.enter_context(AmqpSocket(broker.port))
        socket.open().open_channel(1)
        _declare(socket)
        _latencies(socket, 1)
        rows = [("idle", _latencies(socket, options.seconds), "")]
        for name, path in _LOADS.items():
            with _listing(broker.http_url, path) as said:
                found = _latencies(socket, options.seconds)
            rows.append((f"listing: {name}", found, said[-1] if said else "none was finished"))
    print(f"\nFrom publish to delivery, while {_QUEUES:,} queues are listed:\n")
    print(f"| {'':<26} |    p50 µs |    p99 µs | p99 to idle | a list takes")
    idle = _p99(rows[0][1])
    for name, found, took in rows:
        ratio = _p99(found) / idle
        print(f"| {name:<26} | {statistics.median(found):>9.0f} | {_p99(found):>9.0f} | {ratio:>11.2f} | {took}")
    slow = [name for name, found, _ in rows if _p99(found) > _TARGET * idle]
    if slow:
        print(f"bench: more than {_TARGET:.0f} times the p99 of idle: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


def _p99(found: list[float]) -> float:
    return statistics.quantiles(found, n=100)[-1]


if __name__ == "__main__":
    sys.exit(main())
