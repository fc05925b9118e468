"""What depth and breadth cost: deep queues beside empty ones, many queues beside one, many publishers per sync.

Every figure is a ratio measured in one run on one broker, or a count; none depends on how fast the machine is.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks import generator
from benchmarks.brokers import BrokerError, FlintMQ, Running, resident_mb
from benchmarks.loads import DURABLE

_DATA: Final = Path(__file__).resolve().parent.parent / ".bench-data"
_MILLION: Final = 1_000_000
_QUEUES: Final = 1_000
_PUBLISHERS: Final = 64
_TRANSIENT: Final = ("--size", "16")
_PERSISTENT: Final = ("--size", "16", "--persistent", "--confirm", "1000")


class Bench:
    def __init__(self, running: Running, seconds: float) -> None:
        assert running.pid is not None
        self.pid = running.pid
        self._port = running.port
        self._seconds = seconds

    def load(self, *arguments: str) -> dict[str, Any]:
        return generator.run(self._port, *arguments)

    def publish(self, queue: str, count: int, kind: tuple[str, ...]) -> float:
        """Messages a second."""
        arguments = ("--keep", "--queue", queue, "--count", str(count), "--consumers", "0")
        return float(self.load(*arguments, *kind)["publish_rate"])

    def drain(self, queue: str, kind: tuple[str, ...]) -> float:
        acknowledged = ("--prefetch", "1000", "--ack", "100") if kind is _PERSISTENT else ()
        report = self.load("--drain", "--keep", "--queue", queue, "--size", "16", *acknowledged)
        return float(report["consume_rate"])

    def timed(self, *arguments: str) -> dict[str, Any]:
        return self.load("--time", f"{self._seconds:g}", "--delete", *arguments)

    @property
    def journal_writes(self) -> int:
        """Writes by all threads but the event loop's: no fewer than syncs, which come with a write or after one."""
        count = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            if task.name != str(self.pid):
                facts = dict(line.split(": ") for line in (task / "io").read_text().splitlines())
                count += int(facts["syscw"])
        return count


Row = tuple[str, str, str, str, bool]


def memory(seconds: float) -> Iterator[Row]:
    """Beside that of a broker that has just started."""
    for name, kind in (("transient", _TRANSIENT), ("persistent", _PERSISTENT)):
        with FlintMQ().running(_DATA) as running:
            bench = Bench(running, seconds)
            bench.publish("memory", _MILLION, kind)
            added = resident_mb(bench.pid) - (running.idle_mb or 0)
        yield f"1 M of 16 B queued, {name}: memory added", f"{added:.1f} MB", "", "32 MB at most", added <= 32


def depth(bench: Bench, millions: int, runs: int) -> Iterator[Row]:
    for name, kind in (("transient", _TRANSIENT), ("persistent", _PERSISTENT)):
        empty = [(bench.publish("empty", _MILLION, kind), bench.drain("empty", kind)) for _ in range(runs)]
        bench.publish("deep", millions * _MILLION, kind)
        published = statistics.median(bench.publish("deep", _MILLION, kind) for _ in range(runs))
        print(f"{name}, {millions} M deep: {resident_mb(bench.pid):.0f} MB", file=sys.stderr)
        drained = bench.drain("deep", kind)
        for what, deep, shallow in (
            ("publish", published, statistics.median(rate for rate, _ in empty)),
            ("drain", drained, statistics.median(rate for _, rate in empty)),
        ):
            yield _ratio(f"{what}, {name}, {millions} M deep, beside an empty queue", deep, shallow)


def breadth(bench: Bench, runs: int) -> Iterator[Row]:
    kind = (*DURABLE, "--size", "16")
    one = []
    many = []
    for _ in range(runs):
        one.append(float(bench.timed("--queue", "one", *kind)["consume_rate"]))
        many.append(float(bench.timed("--queue", "many", "--queues", str(_QUEUES), *kind)["consume_rate"]))
    yield _ratio(f"persistent, over {_QUEUES:,} queues, beside one", statistics.median(many), statistics.median(one))


def publishers(bench: Bench) -> Iterator[Row]:
    before = bench.journal_writes
    report = bench.timed(
        "--queue", "crowd", "--producers", str(_PUBLISHERS), "--size", "16", "--persistent", "--confirm", "1"
    )
    # The warm-up is not in the report, and takes a second.
    each = (bench.journal_writes - before) / (report["published"] * (1 + 1 / report["seconds"]))
    name = f"{_PUBLISHERS} publishers, each waiting for its confirm: syncs per message"
    yield name, f"{each:.3f}", f"{report['publish_rate']:,.0f} msg/s", "0.1 at most", each <= 0.1


def _ratio(name: str, deep: float, shallow: float) -> Row:
    ratio = deep / shallow
    return name, f"{ratio:.2f}", f"{deep:,.0f} / {shallow:,.0f} msg/s", "0.70 at least", ratio >= 0.7


def measure(options: argparse.Namespace) -> Iterator[Row]:
    yield from memory(options.seconds)
    with FlintMQ().running(_DATA) as running:
        bench = Bench(running, options.seconds)
        yield from breadth(bench, options.runs)
        yield from publishers(bench)
        yield from depth(bench, options.millions, options.runs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="depth", description=__doc__)
    parser.add_argument("--millions", type=int, default=10, help="how deep the deep queue is (10)")
    parser.add_argument("--runs", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--seconds", type=float, default=5, help="how long a timed run is measured (5)")
    options = parser.parse_args()
    generator.build()
    rows: list[Row] = []
    for row in measure(options):
        print(f"{row[0]}: {row[1]}", file=sys.stderr)
        rows.append(row)
    print("\n| | | | target |\n|---|---|---|---|")
    for name, value, facts, target, _ in rows:
        print(f"| {name} | {value} | {facts} | {target} |")
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
