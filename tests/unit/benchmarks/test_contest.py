import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import contest, fair, generator
from benchmarks.brokers import Broker, FlintMQ, RabbitMQ, Running
from benchmarks.loads import LOADS, Figure, Load, Step

_GOOD = Load("good", "", (Step((), (Figure("good", "msg/s", ("rate",)),)),))
_BAD = Load("bad", "", (Step((), (Figure("bad", "msg/s", ("rate",)),)),))
# The one beside ends when it is told to; the other waits until it is there. A shell could not be told: it leaves a
# signal alone that is ignored when it starts, as it is in the background of a script.
_TWO_GENERATORS = f"""#!{sys.executable}
import pathlib, signal, sys, time
ready = pathlib.Path(sys.argv[0] + ".ready")
is_told = []
if "--flood" in sys.argv:
    signal.signal(signal.SIGINT, lambda *_: is_told.append(True))
    ready.touch()
    while not is_told:
        time.sleep(0.01)
    print('{{"rate":9}}')
else:
    while not ready.exists():
        time.sleep(0.01)
    print('{{"rate":1}}')
"""


def test_a_broker_that_fails_a_load_is_measured_under_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the load has the words; the other rows, and the other broker's figures, are as they would be."""

    def measured(load: Load, broker: Broker, running: Running, seconds: float) -> Iterator[tuple[Figure, float]]:
        if load is _BAD and broker.name == "RabbitMQ":
            raise generator.LoadError(f"{running.name} lost 3 messages")
        yield load.figures[0], seconds

    monkeypatch.setattr(contest, "_measured", measured)
    contestants = [(broker, Running(broker.name, 1)) for broker in (FlintMQ(), RabbitMQ())]
    bad, good = contest.measure(contestants, [_BAD, _GOOD], 2, 7)
    assert bad.samples == {"FlintMQ": [7, 7]}
    assert bad.failures == {"RabbitMQ": ["RabbitMQ lost 3 messages"] * 2}
    assert good.samples == {"FlintMQ": [7, 7], "RabbitMQ": [7, 7]}
    assert not good.failures


def test_a_generator_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it wrote to either output is in the error, with its command and status."""
    program = tmp_path / "amqpload"
    program.write_text("#!/bin/sh\necho broker hung up >&2\necho '{\"gaps\":3}'\nexit 3\n")
    program.chmod(0o700)
    monkeypatch.setattr(generator, "PROGRAM", program)
    with pytest.raises(generator.LoadError, match=r"load .*--port 7 --size 64 ended with 3\nbroker hung up\n.*gaps"):
        contest._generate(["--size", "64"], Running("FlintMQ", 7), 1)


def test_what_runs_beside_a_step_is_stopped_and_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The generator beside goes on until the step has ended, and its report is a part of the step's."""
    program = tmp_path / "amqpload"
    program.write_text(_TWO_GENERATORS)
    program.chmod(0o700)
    monkeypatch.setattr(generator, "PROGRAM", program)
    monkeypatch.setattr(contest, "_AHEAD_SECONDS", 0)
    step = Step((), (), beside=("--flood",))
    assert contest._stepped(step, [], Running("FlintMQ", 7), 1) == {"rate": 1, "beside": {"rate": 9}}


def test_an_unknown_load_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The names that there are stand in the complaint."""
    with pytest.raises(SystemExit):
        contest.parser("fair", "", fair.LOADS, "rows").parse_args(["--rows", "crowd,nonsense"])
    assert "there is no nonsense; there are polite-20, " in capsys.readouterr().err


def test_loads_are_told_apart_and_have_the_broker_that_they_need() -> None:
    """No two figures share a row; what a start, a certificate or freed memory belongs to has a broker of its own."""
    for loads in (LOADS, fair.LOADS):
        figures = [figure.name for load in loads.values() for figure in load.figures]
        assert len(figures) == len(set(figures))
        for load in loads.values():
            rests = any(step.rest_seconds for step in load.steps)
            assert load.fresh or not (load.start or load.restart or load.tls or rests)
            assert not load.restart or any("--count" in step.arguments for step in load.steps)


def test_a_fair_load_with_persistent_messages_says_what_its_confirms_promise() -> None:
    """And one with transient messages does not, for nothing is on a disk there."""
    for load in fair.LOADS.values():
        confirmed = any("--persistent" in step.arguments and "--confirm" in step.arguments for step in load.steps)
        assert load.confirms == (confirmed and not load.restart)
