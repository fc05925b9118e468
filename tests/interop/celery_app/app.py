"""A Celery application as its users write one. Worker and tests share it: the environment says where they meet."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from kombu.entity import Queue

from tests.interop.celery_app import quorum

app = Celery("interop", broker=os.environ["INTEROP_BROKER"], backend=os.environ.get("INTEROP_BACKEND", "rpc://"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    # Four seconds, if nobody says otherwise.
    broker_connection_timeout=60,
    # A task that was sent is in the broker's journal: without this, what is under way dies with a broker.
    broker_transport_options={"confirm_publish": True},
    result_persistent=True,
    task_create_missing_queues=True,
    task_default_queue="tasks",
    task_queues=[Queue("tasks"), Queue("ranked", queue_arguments={"x-max-priority": 9}), Queue("slow")],
    task_send_sent_event=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
)
if "INTEROP_QUORUM" in os.environ:
    app.conf.update(quorum.SETTINGS)


def note(*words: object) -> None:
    """A line in the log of what ran: one write, whole beside other processes' lines."""
    with Path(os.environ["INTEROP_RAN"]).open("a") as log:
        log.write(" ".join(map(str, words)) + "\n")


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(bind=True, max_retries=5)
def fails_first(self: Task, times: int, countdown: float = 0.2) -> int:
    """Succeeds after so many retries; returns how many there were."""
    if self.request.retries < times:
        raise self.retry(countdown=countdown)
    return int(self.request.retries)


@app.task
def now() -> float:
    return time.time()


@app.task(rate_limit="10/s")
def now_and_then() -> float:
    return time.time()


def wait_at(gate: str) -> None:
    """Until somebody has made this file, which is noted; "" is none."""
    if gate and not Path(gate).exists():
        note("waits")
        while not Path(gate).exists():
            time.sleep(0.01)


@app.task
def rest(seconds: float) -> str:
    note("resting")
    time.sleep(seconds)
    return "rested"


@app.task(bind=True)
def ran(self: Task, number: int, gate: str = "") -> None:
    """Notes that it runs, once it may."""
    wait_at(gate)
    note("ran", number, self.request.delivery_info["redelivered"])


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def ran_late(self: Task, number: int, gate: str) -> None:
    """The same, acknowledged only when it is done."""
    wait_at(gate)
    note("ran", number, self.request.delivery_info["redelivered"])


@app.task(bind=True)
def described(self: Task) -> dict[str, Any]:
    """How this task came."""
    info = self.request.delivery_info
    return {"priority": info["priority"], "redelivered": info["redelivered"], "reply_to": bool(self.request.reply_to)}
