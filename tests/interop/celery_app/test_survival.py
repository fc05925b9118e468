"""What is left of a Celery application's tasks when workers and brokers end, in order or not."""

# ruff: noqa: ANN401 - Celery has no types
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.celery_app.conftest import Ran
from tests.interop.celery_app.worker import WorkerProcess
from tests.servers import BrokerProcess

WAIT: Final = 60.0


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that the later ones of 60 tasks wait for, so that somebody is amid them until it is there."""
    return tmp_path / "gate"


def gate_of(number: int, gate: Path) -> str:
    return str(gate) if number >= 15 else ""


def test_priorities(tasks: Any, variables: dict[str, str], ran: Ran) -> None:
    """Of tasks that wait, the worker gets those of higher priority first, and equal ones in order."""
    for number in range(12):
        tasks.ran.apply_async((number,), queue="ranked", priority=number % 4 * 3)
    with WorkerProcess("solo", variables, queues="ranked") as worker:
        ran.wait(lambda: len(ran.numbers()) == 12)
        worker.stop()
    assert ran.numbers() == [3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8]


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_worker_restart(pool: str, tasks: Any, variables: dict[str, str], ran: Ran, gate: Path) -> None:
    """A worker that is stopped while tasks wait and run, and another after it, run all of them.

    Celery may end without acknowledging what its pool finishes last: that comes again, flagged as redelivered.
    """
    for number in range(60):
        tasks.ran.delay(number, gate_of(number, gate))
    worker = WorkerProcess(pool, variables)
    with worker:
        ran.wait(lambda: ran.lines("waits") != [])
        worker.stop(gate.touch)
        assert len(ran.numbers()) < 60
        worker.start()
        ran.wait(lambda: set(ran.numbers()) == set(range(60)))
        worker.stop()
    again = [words[1] for words in ran.lines()].count("True")
    # No more than it had in hand.
    assert len(ran.numbers()) - 60 <= again <= 4


def test_killed_worker(tasks: Any, variables: dict[str, str], ran: Ran, gate: Path) -> None:
    """Tasks that are acknowledged late run again when their worker is killed, flagged as redelivered: none is lost."""
    for number in range(60):
        tasks.ran_late.delay(number, gate_of(number, gate))
    worker = WorkerProcess("prefork", variables)
    with worker:
        ran.wait(lambda: ran.lines("waits") != [])
        worker.kill()
        assert len(ran.numbers()) < 60
        gate.touch()
        worker.start()
        ran.wait(lambda: set(ran.numbers()) == set(range(60)))
        worker.stop()
    again = [words[1] for words in ran.lines()].count("True")
    # What two processes had in hand, and what was fetched for them ahead.
    assert 1 <= again <= 4


def test_killed_broker(tasks: Any, variables: dict[str, str], broker: BrokerProcess, ran: Ran, gate: Path) -> None:
    """A broker that is killed has all tasks when it is back, and its worker finds it again and runs them."""
    with WorkerProcess("prefork", variables) as worker:
        assert tasks.add.delay(1, 2).get(timeout=WAIT) == 3
        for number in range(60):
            tasks.ran_late.delay(number, gate_of(number, gate))
        ran.wait(lambda: ran.lines("waits") != [])
        broker.kill()
        assert len(ran.numbers()) < 60
        broker.start()
        gate.touch()
        ran.wait(lambda: set(ran.numbers()) == set(range(60)))
        worker.stop()
