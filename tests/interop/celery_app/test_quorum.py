"""An application on quorum queues: tasks whose time is to come wait in the broker, in queues that pass them on."""

# ruff: noqa: ANN401 - Celery has no types
import time
from collections.abc import Iterator
from typing import Any, Final

import celery
import pytest

import flintmq.client as fc
from tests.interop.celery_app import quorum
from tests.interop.celery_app.conftest import Ran
from tests.interop.celery_app.worker import WorkerProcess
from tests.servers import BrokerProcess

WAIT: Final = 60.0
TASKS: Final = "tests.interop.celery_app.app"


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Any]:
    """A client of the application that does not have its code."""
    app = celery.Celery("client", broker=broker.url, backend="rpc://")
    app.conf.update(quorum.SETTINGS)
    with app:
        yield app


@pytest.fixture(scope="module")
def worker(variables: dict[str, str]) -> Iterator[WorkerProcess]:
    with WorkerProcess("prefork", variables | {"INTEROP_QUORUM": "1"}, queues=quorum.QUEUE) as worker:
        yield worker
        worker.stop()


def test_results_and_retries(client: Any, worker: WorkerProcess) -> None:
    """Tasks go through a quorum queue, their results come back, and a retry waits in the broker."""
    results = [client.send_task(f"{TASKS}.add", (n, 1)) for n in range(20)]
    assert [result.get(timeout=WAIT) for result in results] == list(range(1, 21))
    assert client.send_task(f"{TASKS}.fails_first", (1,), {"countdown": 1}).get(timeout=WAIT) == 1


def test_countdowns(client: Any, worker: WorkerProcess, broker: BrokerProcess) -> None:
    """Every task comes when its time is over, and none is with the worker before."""
    seconds = (1, 2, 3, 5)
    start = time.time()
    results = [client.send_task(f"{TASKS}.now", countdown=countdown) for countdown in seconds]
    for countdown, result in zip(seconds, results, strict=True):
        assert start + countdown <= result.get(timeout=WAIT) < start + countdown + WAIT


def test_where_countdowns_wait(client: Any, worker: WorkerProcess, broker: BrokerProcess) -> None:
    """A task begins in the queue of the greatest power of two that its time has, and is not with the worker."""
    # Long enough for all of them to be there when they are looked at.
    for countdown in (1 * 1024, 2 * 1024, 3 * 1024, 5 * 1024):
        client.send_task(f"{TASKS}.now", countdown=countdown)
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        waiting = [channel.declare_queue(f"celery_delayed_{level}", passive=True).message_count for level in range(28)]
        for level in range(28):
            channel.purge_queue(f"celery_delayed_{level}")
    # 1; 2; the greater part of 3; and of 5.
    assert waiting == [*[0] * 10, 1, 2, 1, *[0] * 15]


def test_killed_broker(client: Any, worker: WorkerProcess, broker: BrokerProcess, ran: Ran) -> None:
    """Tasks that wait outlive the broker, each at the place that it has come to, and come at their time."""
    start = time.time()
    for number, countdown in enumerate((1, 3, 6)):
        client.send_task(f"{TASKS}.ran", (number,), countdown=countdown)
    ran.wait(lambda: ran.numbers() != [])
    broker.kill()
    broker.start()
    # The first may run again: its acknowledgement may have been on its way.
    ran.wait(lambda: set(ran.numbers()) == {0, 1, 2})
    assert time.time() >= start + 6
