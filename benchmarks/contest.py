"""Brokers under the same loads in turn, each as a process of this machine that stands still while another is measured.

Everything runs on loopback, with fresh data on the disk of the checkout. A load that a broker fails, because it lost
messages or did not answer, is in the table with the words of the generator; the others are measured all the same.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import flintmq
from benchmarks import generator
from benchmarks.brokers import (
    Broker,
    BrokerError,
    FlintMQ,
    RabbitMQ,
    Running,
    make_certificate,
    resident_mb,
)
from benchmarks.generator import LoadError
from benchmarks.loads import Figure, Load, Step
from benchmarks.report import Row, as_json, failures, table

DATA: Final = Path(__file__).resolve().parent.parent / ".bench-data"
_FRESH: Final = DATA / "fresh"
# The generator holds 2,000 clients, and a broker as many and the files of 1,000 queues. Not more than needed: Erlang
# makes a table for as many as it may have.
_FILES: Final = 8192
# Over whatever a slow broker needs to take in and give back what a timed step left.
_GRACE_SECONDS: Final = 300.0
# What runs beside a step is at full speed before the step begins, and ends when it is told to.
_AHEAD_SECONDS: Final = 2.0
_QUEUE_BESIDE: Final = "bench-beside"
_BESIDE: Final = ("--time", "3600", "--warmup", "1", "--drain-timeout", "1", "--delete")

Contestant = tuple[Broker, Running]


def parser(prog: str, description: str | None, loads: Mapping[str, Load], option: str) -> argparse.ArgumentParser:
    """For the options that every contest has; `option` is the name of the one that chooses among `loads`."""
    options = argparse.ArgumentParser(prog=prog, description=description)

    def chosen(text: str) -> list[Load]:
        unknown = [name for name in text.split(",") if name not in loads]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(loads)}")
        return [loads[name] for name in text.split(",")]

    options.add_argument(
        f"--{option}",
        dest="loads",
        type=chosen,
        default=list(loads.values()),
        help=f"which, separated by commas: {', '.join(loads)}",
    )
    options.add_argument("--runs", type=int, default=3, help="runs of each load, of which the median counts (3)")
    options.add_argument(
        "--seconds", type=float, default=5, help="how long a run is measured, after 1 s of warm-up (5)"
    )
    options.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to this file")
    options.add_argument(
        "--brokers",
        type=lambda text: text.lower().split(","),
        default=["flintmq", "rabbitmq"],
        help="which, separated by commas (flintmq,rabbitmq)",
    )
    return options


@contextlib.contextmanager
def contestants(names: Sequence[str], port: int | None = None) -> Iterator[list[Contestant]]:
    """Start the brokers that `names` has and this machine too; all of them stand still, and are gone after the block.

    With a `port`, FlintMQ is the broker that runs there.

    Raises BrokerError if one does not start.
    """
    signal.signal(signal.SIGTERM, _end)
    _allow_files()
    generator.build()
    with contextlib.ExitStack() as stack:
        started: list[Contestant] = []
        for broker in (FlintMQ(), RabbitMQ()):
            if broker.name.lower() not in names:
                continue
            if isinstance(broker, FlintMQ) and port is not None:
                started.append((broker, Running(broker.name, port)))
            elif isinstance(broker, RabbitMQ) and not broker.installed():
                print("RabbitMQ is not installed: measuring FlintMQ alone", file=sys.stderr)
            else:
                if isinstance(broker, RabbitMQ):
                    print(broker.says_of_10(), file=sys.stderr)
                started.append((broker, stack.enter_context(broker.running(DATA))))
        if not started:
            raise BrokerError(f"none of {', '.join(names)} is there to be measured")
        for _, running in started:
            running.pause()
        yield started


def _allow_files() -> None:
    """Raise the limit that brokers and generators inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))


def _end(*_: object) -> None:
    """However the bench ends, the brokers it started end with it; once is enough to say so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def measure(contestants: Sequence[Contestant], loads: Sequence[Load], runs: int, seconds: float) -> list[Row]:
    """Every load against every broker, `runs` times, alternating, so that a busy minute of the machine hits all."""
    rows: dict[str, Row] = {}
    for run in range(1, runs + 1):
        for load in loads:
            for broker, running in contestants:
                if load.amqp10 and broker.address is None:
                    continue
                print(f"run {run} of {runs}: {load.name} ({load.what}), {broker.name}", file=sys.stderr)
                promise = (broker.quorum_confirm if load.quorum else broker.confirm) if load.confirms else ""
                for figure in load.figures:
                    rows.setdefault(figure.name, Row(figure))
                try:
                    for figure, value in _measured(load, broker, running, seconds):
                        rows[figure.name].add(broker.name, value, promise)
                except BrokerError as error:
                    print(f"{broker.name} failed {load.name}: {error}", file=sys.stderr)
                    for figure in load.figures:
                        rows[figure.name].fail(broker.name, str(error))
    return list(rows.values())


def publish(rows: Sequence[Row], contestants: Sequence[Contestant], options: argparse.Namespace) -> None:
    """Print the table and what failed; write all samples where `options` asks for them."""
    names = [running.name for _, running in contestants]
    print(f"\n{_machine()}; medians of {options.runs} runs of {options.seconds:g} s\n\n{table(rows, names)}")
    if words := failures(rows):
        print(f"\n{words}")
    if options.json:
        result = {"machine": _machine(), "runs": options.runs, "seconds": options.seconds, "rows": as_json(rows, names)}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def _machine() -> str:
    build = "compiled" if flintmq.compiled else "INTERPRETED"
    return (
        f"FlintMQ {flintmq.__version__} ({build}), Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    )


def _measured(load: Load, broker: Broker, running: Running, seconds: float) -> Iterator[tuple[Figure, float]]:
    if load.fresh:
        yield from _fresh(load, broker, seconds)
        return
    running.resume()
    try:
        yield from _steps(load, broker, running, seconds)
    except LoadError:
        with contextlib.suppress(LoadError):
            _forget(load, running)
        raise
    finally:
        running.pause()


def _fresh(load: Load, broker: Broker, seconds: float) -> Iterator[tuple[Figure, float]]:
    # Of the same kind, with a port mapper and ports of its own.
    other = type(broker)()
    with other.directory(_FRESH) as directory:
        certificate = make_certificate(directory) if load.tls else None
        with other.serving(directory, certificate) as running:
            yield from _of_start(load.start, running)
            yield from _steps(load, other, running, seconds)
        if load.restart:
            with other.serving(directory, certificate) as running:
                yield from _of_start(load.restart, running)
                _drain(load, running)


def _of_start(figures: Sequence[Figure], running: Running) -> Iterator[tuple[Figure, float]]:
    for figure in figures:
        yield figure, figure.of(vars(running))


def _steps(load: Load, broker: Broker, running: Running, seconds: float) -> Iterator[tuple[Figure, float]]:
    for step in load.steps:
        arguments = [*step.arguments, "--queue", f"bench-{load.name}"]
        if load.quorum and isinstance(broker, RabbitMQ):
            arguments += ["--qtype", "quorum"]
        if load.amqp10 and broker.address is not None:
            arguments += ["--address", broker.address]
        if load.tls:
            arguments.append("--tls")
        # What a broker of its own is left with is measured, or gone with the broker.
        if step is load.steps[-1] and not load.fresh:
            arguments.append("--delete")
        if step.timed:
            arguments += ["--time", f"{seconds:g}"]
        before = _resident_mb(running)
        report = _stepped(step, arguments, running, seconds)
        time.sleep(step.rest_seconds)
        report["added_mb"] = _resident_mb(running) - before
        for figure in step.figures:
            yield figure, figure.of(report)


def _stepped(step: Step, arguments: list[str], running: Running, seconds: float) -> dict[str, Any]:
    if not step.beside:
        return _generate(arguments, running, seconds)
    beside = [*step.beside, *_BESIDE, "--queue", _QUEUE_BESIDE]
    with _started(beside, running) as process:
        time.sleep(_AHEAD_SECONDS)
        report = _generate(arguments, running, seconds)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        report["beside"] = generator.report(process, _GRACE_SECONDS)
    return report


def _drain(load: Load, running: Running) -> None:
    """All that the steps left has to be there after a restart."""
    published = sum(_option(step.arguments, "--count", 0) for step in load.steps)
    report = _generate(["--drain", "--queue", f"bench-{load.name}"], running, 0)
    if report["consumed"] != published:
        raise LoadError(f"{report['consumed']} of {published} messages were there after a restart")


def _forget(load: Load, running: Running) -> None:
    """Delete the queues that a failed run has left."""
    deleting = ["--consumers", "0", "--count", "1", "--delete"]
    for step in load.steps:
        queues = _option(step.arguments, "--queues", 1)
        _generate(["--queue", f"bench-{load.name}", "--queues", str(queues), *deleting], running, 0)
        if step.beside:
            _generate(["--queue", _QUEUE_BESIDE, *deleting], running, 0)


def _option(arguments: Sequence[str], name: str, default: int) -> int:
    """The number behind the first `name`."""
    return int(arguments[arguments.index(name) + 1]) if name in arguments else default


def _resident_mb(running: Running) -> float:
    return resident_mb(running.pid) if running.pid else 0.0


def _generate(arguments: list[str], running: Running, seconds: float) -> dict[str, Any]:
    """What the generator reports. Raises LoadError if it does not end well in time."""
    with _started(arguments, running) as process:
        return generator.report(process, seconds + _GRACE_SECONDS)


def _started(arguments: list[str], running: Running) -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    port = running.tls_port if "--tls" in arguments else running.port
    assert port is not None, "a load with TLS has a broker of its own, with a port for it"
    measured = ["--pid", str(running.pid)] if running.pid else []
    return generator.started(port, *arguments, *measured)
