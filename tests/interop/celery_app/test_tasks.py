"""What Celery's users do all day, with real workers: results, retries, times, chords, remote control."""

# ruff: noqa: ANN401 - Celery has no types
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import celery
import pytest
from celery.exceptions import TaskRevokedError

from tests.interop.celery_app.conftest import Ran
from tests.interop.celery_app.worker import WorkerProcess

WAIT: Final = 60.0


def test_results(tasks: Any, prefork: WorkerProcess) -> None:
    """Results and exceptions come back by rpc://, many at a time, to whom they are for."""
    results = [tasks.add.delay(n, 1) for n in range(50)]
    assert [result.get(timeout=WAIT) for result in results] == list(range(1, 51))
    with pytest.raises(ValueError, match="no luck"):
        tasks.fail.delay("no luck").get(timeout=WAIT)
    assert tasks.described.delay().get(timeout=WAIT) == {"priority": 0, "redelivered": False, "reply_to": True}


def test_retries(tasks: Any, prefork: WorkerProcess) -> None:
    """A task that asks for it is run again later, until it succeeds."""
    assert tasks.fails_first.delay(3).get(timeout=WAIT) == 3


def test_countdown_and_eta(tasks: Any, prefork: WorkerProcess) -> None:
    """Tasks run no earlier than they are told to, and one without a time runs before all that wait in the worker."""
    seconds = 12
    start = time.time()
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    # More than are fetched at once. A worker may take two seconds until it asks for more: hence so few, and so late.
    waiting = [tasks.now.apply_async(**when) for when in ({"countdown": seconds}, {"eta": at}) for _ in range(2)]
    soon = tasks.now.delay().get(timeout=WAIT)
    for delayed in [result.get(timeout=WAIT) for result in waiting]:
        assert delayed > soon
        assert delayed >= start + seconds


def test_rate_limit(tasks: Any, prefork: WorkerProcess) -> None:
    """A worker takes tasks of a kind no faster than it may, however many wait."""
    results = [tasks.now_and_then.delay() for _ in range(60)]
    ran = sorted(result.get(timeout=WAIT) for result in results)
    # Ten in a second. They may run all at once that were let through while their processes stood still.
    assert ran[-1] - ran[0] > 1


def test_expired_tasks_are_not_run(tasks: Any, prefork: WorkerProcess, ran: Ran) -> None:
    """A task that is not started in its time is dropped by the worker."""
    late = tasks.ran.apply_async((1,), countdown=0.6, expires=0.3)
    with pytest.raises(TaskRevokedError):
        late.get(timeout=WAIT)
    assert ran.numbers() == []


def test_canvas(stored_app: Any, threads: WorkerProcess) -> None:
    """Chains, groups and chords: what one task returns goes on to the next, and a chord's body waits for all."""

    def task(name: str, *arguments: int) -> Any:
        return stored_app.signature(f"tests.interop.celery_app.app.{name}", arguments, queue="slow")

    assert celery.chain(task("add", 1, 2), task("add", 3), task("add", 4))().get(timeout=WAIT) == 10
    group = celery.group(task("add", n, n) for n in range(10))()
    assert group.get(timeout=WAIT) == [2 * n for n in range(10)]
    chord = celery.chord((task("add", n, 1) for n in range(5)), task("total"))()
    assert chord.get(timeout=WAIT) == 15


def test_remote_control(tasks: Any, prefork: WorkerProcess, threads: WorkerProcess) -> None:
    """Every worker answers a ping and an inspection, by its reply queue."""
    pongs = tasks.app.control.ping(timeout=WAIT, limit=2)
    names = sorted(name.partition("@")[0] for pong in pongs for name in pong)
    assert names == ["prefork-tasks", "threads-slow"]
    assert all(answer == {"ok": "pong"} for pong in pongs for answer in pong.values())
    queues = tasks.app.control.inspect(timeout=WAIT, limit=2).active_queues()
    assert sorted(queue["name"] for served in queues.values() for queue in served) == ["slow", "tasks"]


def test_queues_are_added_and_cancelled(tasks: Any, prefork: WorkerProcess) -> None:
    """A worker that is told to consumes from another queue, and no more when told so."""
    (worker,) = [name for name in tasks.app.control.inspect(timeout=WAIT, limit=2).ping() if "prefork" in name]
    tasks.app.control.add_consumer("extra", destination=[worker], reply=True, timeout=WAIT, limit=1)
    assert tasks.add.apply_async((1, 2), queue="extra").get(timeout=WAIT) == 3
    tasks.app.control.cancel_consumer("extra", destination=[worker], reply=True, timeout=WAIT, limit=1)

    def served() -> list[str]:
        queues = tasks.app.control.inspect([worker], timeout=WAIT).active_queues()[worker]
        return [queue["name"] for queue in queues]

    # It answers before it does so.
    deadline = time.monotonic() + WAIT
    while served() != ["tasks"]:
        assert time.monotonic() < deadline, served()


def test_revoked(tasks: Any, prefork: WorkerProcess, ran: Ran) -> None:
    """A task that is revoked before it starts does not run; one that runs is ended."""
    # A worker that stood still for longer would find its time over.
    waiting = tasks.ran.apply_async((1,), countdown=10)
    tasks.app.control.revoke(waiting.id)
    running = tasks.rest.delay(60)
    ran.wait(lambda: ran.lines("resting") != [])
    tasks.app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    for revoked in (waiting, running):
        with pytest.raises(TaskRevokedError):
            revoked.get(timeout=WAIT)
    assert ran.numbers() == []


def test_events(tasks: Any, prefork: WorkerProcess) -> None:
    """Who watches events hears of a task's life, through the exchange that all workers publish to."""
    seen: list[str] = []
    with tasks.app.connection() as connection:
        receiver = tasks.app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
        events = receiver.itercapture(limit=None, timeout=WAIT, wakeup=False)
        next(events)
        task = tasks.add.delay(1, 2)
        while "task-succeeded" not in seen:
            next(events)
    assert task.get(timeout=WAIT) == 3
    assert {"task-sent", "task-received", "task-started", "task-succeeded"} <= set(seen)
