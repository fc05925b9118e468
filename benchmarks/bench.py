"""Measures FlintMQ, and RabbitMQ where it is installed, under the same loads in turn; prints one table.

Everything runs on loopback, on this machine, with fresh data on the disk of the checkout. The broker whose turn it is
not stands still. Absolute figures belong to the machine: compare the ratios.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import flintmq
from benchmarks.brokers import Broker, BrokerError, FlintMQ, RabbitMQ, Running
from benchmarks.loads import LOADS, Figure, Load, Step
from benchmarks.report import Row, as_json, table

_HERE: Final = Path(__file__).resolve().parent
_DATA: Final = _HERE.parent / ".bench-data"
_GENERATOR: Final = _HERE / "load" / "amqpload"
# Over whatever a slow broker needs to take in and give back what a timed step left.
_GRACE_SECONDS: Final = 300.0
_BOOT: Final = Figure("boot", "s", (), less_is_better=True)
_IDLE: Final = Figure("idle memory", "MB", (), less_is_better=True)


class BenchError(Exception):
    """A load could not be measured, or lost messages; the generator's words are in the text."""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    try:
        subprocess.run(["make", "-s", "-C", str(_GENERATOR.parent)], check=True)
        with contextlib.ExitStack() as stack:
            contestants = list(_contestants(options, stack))
            rows = measure(contestants, options.loads, options.runs, options.seconds)
    except (BenchError, BrokerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    names = [running.name for _, running in contestants]
    print(f"\n{_machine()}; medians of {options.runs} runs of {options.seconds:g} s\n\n{table(rows, names)}")
    if options.json:
        result = {"machine": _machine(), "runs": options.runs, "seconds": options.seconds, "rows": as_json(rows, names)}
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _end(*_: object) -> None:
    """However the bench ends, the brokers it started end with it; once is enough to say so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def measure(
    contestants: Sequence[tuple[Broker, Running]], loads: Sequence[Load], runs: int, seconds: float
) -> list[Row]:
    """Every load against every broker, `runs` times, alternating, so that a busy minute of the machine hits all."""
    rows: dict[str, Row] = {}
    for broker, running in contestants:
        for figure, value in ((_BOOT, running.boot_seconds), (_IDLE, running.idle_mb)):
            if value is not None:
                rows.setdefault(figure.name, Row(figure)).add(broker.name, value, "")
        running.pause()
    for run in range(1, runs + 1):
        for load in loads:
            for broker, running in contestants:
                if load.amqp10 and broker.address is None:
                    continue
                print(f"run {run} of {runs}: {load.name} ({load.what}), {broker.name}", file=sys.stderr)
                promise = (broker.quorum_confirm if load.quorum else broker.confirm) if load.confirms else ""
                with _turn(running):
                    for figure, value in _apply(load, broker, running, seconds):
                        rows.setdefault(figure.name, Row(figure)).add(broker.name, value, promise)
    return list(rows.values())


@contextlib.contextmanager
def _turn(running: Running) -> Iterator[None]:
    running.resume()
    try:
        yield
    finally:
        running.pause()


def _apply(load: Load, broker: Broker, running: Running, seconds: float) -> Iterator[tuple[Figure, float]]:
    for step in load.steps:
        arguments = [*step.arguments, "--queue", f"bench-{load.name}"]
        if load.quorum and isinstance(broker, RabbitMQ):
            arguments += ["--qtype", "quorum"]
        if load.amqp10 and broker.address is not None:
            arguments += ["--address", broker.address]
        if step is load.steps[-1]:
            arguments.append("--delete")
        report = _generate(arguments, step, running, seconds)
        for figure in step.figures:
            yield figure, figure.of(report)


def _generate(arguments: list[str], step: Step, running: Running, seconds: float) -> dict[str, Any]:
    command = [str(_GENERATOR), "--json", "--port", str(running.port), *arguments]
    if step.timed:
        command += ["--time", f"{seconds:g}"]
    if running.pid:
        command += ["--pid", str(running.pid)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds + _GRACE_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{running.name} did not finish in time: {' '.join(command)}") from error
    if ran.returncode != 0:
        raise BenchError(f"{running.name}: {' '.join(command)} ended with {ran.returncode}\n{ran.stderr}{ran.stdout}")
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


def _contestants(options: argparse.Namespace, stack: contextlib.ExitStack) -> Iterator[tuple[Broker, Running]]:
    brokers = [broker for broker in (FlintMQ(), RabbitMQ()) if broker.name.lower() in options.brokers]
    for broker in brokers:
        if isinstance(broker, FlintMQ) and options.port:
            yield broker, Running(broker.name, options.port)
        elif isinstance(broker, RabbitMQ) and not broker.installed():
            print("RabbitMQ is not installed: measuring FlintMQ alone", file=sys.stderr)
        else:
            if isinstance(broker, RabbitMQ):
                print(broker.says_of_10(), file=sys.stderr)
            yield broker, stack.enter_context(broker.running(_DATA))


def _machine() -> str:
    build = "compiled" if flintmq.compiled else "INTERPRETED"
    return (
        f"FlintMQ {flintmq.__version__} ({build}), Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--loads",
        type=lambda text: [_load(parser, name) for name in text.split(",")],
        default=list(LOADS.values()),
        help=f"which, separated by commas: {', '.join(LOADS)}",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each load, of which the median counts (3)")
    parser.add_argument("--seconds", type=float, default=5, help="how long a run is measured, after 1 s of warm-up (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to this file")
    parser.add_argument("--port", type=int, help="measure the broker that runs there, instead of starting FlintMQ")
    parser.add_argument(
        "--brokers",
        type=lambda text: text.lower().split(","),
        default=["flintmq", "rabbitmq"],
        help="which, separated by commas (flintmq,rabbitmq)",
    )
    return parser.parse_args()


def _load(parser: argparse.ArgumentParser, name: str) -> Load:
    if name not in LOADS:
        parser.error(f"there is no load {name}; there are {', '.join(LOADS)}")
    return LOADS[name]


if __name__ == "__main__":
    sys.exit(main())
