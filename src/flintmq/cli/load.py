"""The load of `flintmq bench`: processes that publish to one queue and consume from it with FlintMQ's client.

The figures include the cost of the Python client. The programs in benchmarks/ measure the broker alone.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.synchronize import Event
from struct import Struct
from typing import Final

from flintmq import client

# The time at which a message was sent, in nanoseconds of a clock that all processes of a machine share.
_SENT: Final = Struct(">q")
SIZE_MIN_BYTES: Final = _SENT.size
# Messages in flight, and messages per batch.
_BATCH: Final = 1_000
# After this time without a delivery, a consumer checks whether the load is over.
_IDLE_SECONDS: Final = 0.5
# Interval of publishing at a given rate. A shorter one would cost processor time itself.
_PACE_SECONDS: Final = 0.005
_PERSISTENT: Final = 2


@dataclass(frozen=True)
class Load:
    """The parameters of a load. `size` is in bytes; `rate` is in messages per second of all publishers, or 0."""

    url: str
    queue: str
    size: int
    seconds: float
    publishers: int
    consumers: int
    persistent: bool
    rate: int


@dataclass(frozen=True)
class Figures:
    """The result. Rates are in messages per second; a latency is the time from a publish to its delivery."""

    published: int
    consumed: int
    publish_rate: float
    consume_rate: float
    latency_p50_ms: float
    latency_p99_ms: float


@dataclass(frozen=True)
class _Run:
    """The work of one process: messages, start and end in seconds, and sampled latencies in nanoseconds."""

    count: int
    began: float
    ended: float
    latencies: tuple[int, ...] = ()


_publishers_done: Event | None = None


def _prepare(done: Event) -> None:
    global _publishers_done  # noqa: PLW0603 - set once per process
    _publishers_done = done


def run(load: Load, tick: Callable[[], None]) -> Figures:
    """Run the load on a temporary queue, and call `tick` ten times per second. Raises the errors of the client."""
    with client.connect(load.url) as connection:
        channel = connection.channel()
        channel.declare_queue(load.queue, durable=load.persistent)
        try:
            return _figures(*_work(load, tick))
        finally:
            channel.delete_queue(load.queue)


def _work(load: Load, tick: Callable[[], None]) -> tuple[list[_Run], list[_Run]]:
    context = multiprocessing.get_context("spawn")
    done = context.Event()
    workers = load.publishers + load.consumers
    with ProcessPoolExecutor(workers, context, _prepare, (done,)) as pool:
        consuming = [pool.submit(_consume, load) for _ in range(load.consumers)]
        each = replace(load, rate=-(-load.rate // load.publishers))
        publishing = [pool.submit(_publish, each) for _ in range(load.publishers)]
        try:
            published = _results(publishing, tick)
        finally:
            done.set()
        return published, _results(consuming, tick)


def _results(working: list[Future[_Run]], tick: Callable[[], None]) -> list[_Run]:
    while not all(each.done() for each in working):
        time.sleep(0.1)
        tick()
    return [each.result() for each in working]


def _publish(load: Load) -> _Run:
    properties = client.encode_properties(client.Properties(delivery_mode=_PERSISTENT if load.persistent else None))
    rest = bytes(load.size - SIZE_MIN_BYTES)

    def publishes() -> Iterator[client.Publish]:
        while True:
            yield client.Publish("", load.queue, _SENT.pack(time.monotonic_ns()) + rest, properties)

    with client.connect(load.url) as connection:
        channel = connection.channel(confirms=True)
        source = publishes()
        began = time.monotonic()
        count = 0
        while (now := time.monotonic() - began) < load.seconds:
            wanted = min(int(now * load.rate) - count, _BATCH) if load.rate else _BATCH
            if wanted > 0:
                channel.publish_batch(islice(source, wanted))
                count += wanted
            else:
                time.sleep(_PACE_SECONDS)
        return _Run(count, began, time.monotonic())


def _consume(load: Load) -> _Run:
    assert _publishers_done is not None
    latencies: list[int] = []
    count = 0
    began = ended = 0.0
    with client.connect(load.url) as connection:
        channel = connection.channel()
        while True:
            was_done = _publishers_done.is_set()
            before = count
            for batch in channel.consume(load.queue, _BATCH, _BATCH, _IDLE_SECONDS, no_ack=not load.persistent):
                ended = time.monotonic()
                began = began or ended
                now = time.monotonic_ns()
                # The latencies of the first and the last message of each batch.
                latencies += [now - _SENT.unpack_from(batch.messages[at].body)[0] for at in (0, -1)]
                count += len(batch.messages)
                if load.persistent:
                    batch.ack()
            if was_done and count == before and not channel.declare_queue(load.queue, passive=True).message_count:
                return _Run(count, began, ended, tuple(latencies))


def _figures(published: list[_Run], consumed: list[_Run]) -> Figures:
    latencies = sorted(nanoseconds for each in consumed for nanoseconds in each.latencies)
    return Figures(
        sum(each.count for each in published),
        sum(each.count for each in consumed),
        _rate(published),
        _rate(consumed),
        _part(latencies, 0.5),
        _part(latencies, 0.99),
    )


def _rate(runs: list[_Run]) -> float:
    counting = [each for each in runs if each.count]
    if not counting:
        return 0.0
    seconds = max(each.ended for each in counting) - min(each.began for each in counting)
    return sum(each.count for each in counting) / seconds if seconds > 0 else 0.0


def _part(nanoseconds: list[int], part: float) -> float:
    return nanoseconds[min(int(len(nanoseconds) * part), len(nanoseconds) - 1)] / 1e6 if nanoseconds else 0.0
