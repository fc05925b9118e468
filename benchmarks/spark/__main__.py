"""Measures what Spark reads from FlintMQ and writes to it, and prints one table.

The ceiling is Spark itself: a Python data source that yields the same batch again and again, a sink that counts. The
floor is what people do without a connector. Broker, Spark and all data are on this machine; compare the ratios. With
--apart, the broker has one processor and Spark the other, as on two machines: what is compared then is Spark's alone.
"""

import argparse
import os
import platform
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import flintmq
from benchmarks import generator
from benchmarks.brokers import BrokerError, FlintMQ, Running
from benchmarks.spark.figures import Figure, table
from benchmarks.spark.runs import BODY_BYTES, Bench
from benchmarks.spark.session import session

_DATA: Final = Path(__file__).resolve().parents[2] / ".bench-data"


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    generator.build()
    work = _DATA / "spark"
    try:
        with ExitStack() as stack:
            running, spark = _started(stack, work, options)
            url = f"amqp://guest:guest@127.0.0.1:{running.port}/%2f"
            bench = Bench(spark, url, work, options.rows, options.tasks)
            figures = measure(bench, options.runs)
            print(f"\n{_machine()}; medians of {options.runs} runs of {options.rows:,} rows of {BODY_BYTES} bytes\n")
            print(table(figures, BODY_BYTES))
            print(f"\n| others, of {options.others:,} msg/s | msg/s | p50 µs | p99 µs |\n|---|---:|---:|---:|")
            for name, report in bench.others(running.port, options.others, options.seconds).items():
                latency = report["lat_us"]
                print(f"| {name} | {report['consume_rate']:,.0f} | {latency['p50']:,.0f} | {latency['p99']:,.0f} |")
    except BrokerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


def _started(stack: ExitStack, work: Path, options: argparse.Namespace) -> tuple[Running, SparkSession]:
    """Processes keep to the processors of the one that starts them."""
    broker_on, *others = sorted(os.sched_getaffinity(0))
    if options.apart:
        os.sched_setaffinity(0, {broker_on})
    running = stack.enter_context(FlintMQ().running(_DATA))
    if options.apart:
        os.sched_setaffinity(0, others[:1])
    return running, stack.enter_context(session(work, options.tasks))


def _end(*_: object) -> None:
    """However the bench ends, the broker it started ends with it; once is enough to say so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def measure(bench: Bench, runs: int) -> list[Figure]:
    """One run of each that does not count, for what is slow the first time; then all in turn."""
    bench.stream("stream")
    kinds = [*bench.reads(), *bench.writes()]
    for run in range(runs + 1):
        for figure, rate in kinds:
            rows = rate()
            print(f"run {run} of {runs}: {figure.name}: {rows:,.0f} rows/s", file=sys.stderr)
            if run:
                figure.samples.append(rows)
    return [figure for figure, _ in kinds]


def _machine() -> str:
    build = "compiled" if flintmq.compiled else "INTERPRETED"
    return (
        f"FlintMQ {flintmq.__version__} ({build}), Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="messages of each run (500000)")
    parser.add_argument("--runs", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--tasks", type=int, help="tasks at a time (2, and 1 with --apart)")
    parser.add_argument("--apart", action="store_true", help="a processor for the broker, and one for Spark")
    parser.add_argument("--others", type=int, default=5_000, help="messages a second of the other clients (5000)")
    parser.add_argument("--seconds", type=float, default=8, help="how long the other clients are measured (8)")
    options = parser.parse_args()
    if options.apart and len(os.sched_getaffinity(0)) == 1:
        parser.error("--apart needs two processors")
    options.tasks = options.tasks or (1 if options.apart else 2)
    return options


if __name__ == "__main__":
    sys.exit(main())
