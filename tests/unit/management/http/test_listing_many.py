"""Ten thousand queues are listed while messages are delivered: in slices, with the loop's turns between them."""

import asyncio
from itertools import count

import httpx
import pytest

from flintmq.broker.message import Address, Entry, Message
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.management import slices
from tests.unit.gateway.amqp091.pair import TRANSIENT
from tests.unit.management.fake_node import Api

QUEUES = 10_000
# What a slice may do at most, where each look at the clock finds that its time is up.
OBJECTS_PER_SLICE = 256


class Taker(Consumer):
    """Takes everything, and counts it."""

    def __init__(self) -> None:
        super().__init__("t", True, False)
        self.taken = 0

    def can_take(self) -> bool:
        return True

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self.taken += 1

    def cancelled(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


@pytest.mark.parametrize(
    "path",
    ["/api/queues", "/api/queues?sort=messages&page=1&page_size=100", "/api/queues?page=1&name=q99", "/api/bindings"],
)
def test_deliveries_go_on(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns of the loop no more than a few hundred objects are looked at, whatever their number is."""
    api = Api()
    vhost = api.broker.vhosts["/"]
    for number in range(QUEUES):
        vhost.declare_queue(f"q{number}", True, False, False, {}, None)
    queue = vhost.queues["q0"]
    taker = Taker()
    queue.subscribe(taker, {})
    # A clock on which every look is a slice later: how fast the machine is decides nothing.
    clock = count()
    monkeypatch.setattr(slices, "perf_counter", lambda: next(clock) * slices.SLICE_SECONDS)
    message = Message(Address("", "q0"), CODEC_091, TRANSIENT, b"m", CODEC_091.options(TRANSIENT), 0)
    turns = 0

    async def deliver() -> None:
        nonlocal turns
        while True:
            vhost.deliver(message, [queue])
            api.broker.dispatch()
            turns += 1
            await asyncio.sleep(0)

    async def ask() -> httpx.Response:
        delivering = asyncio.create_task(deliver())
        try:
            async with httpx.AsyncClient(transport=api.transport, base_url="http://localhost", timeout=60) as client:
                return await client.get(path, auth=("admin", "admin"))
        finally:
            delivering.cancel()

    response = asyncio.run(ask())
    assert response.status_code == 200
    assert turns >= QUEUES // OBJECTS_PER_SLICE
    assert taker.taken == turns


def test_sampling_is_done_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at all counts takes its turns, too, and sees them all."""
    api = Api()
    vhost = api.broker.vhosts["/"]
    for number in range(QUEUES):
        vhost.declare_queue(f"q{number}", True, False, False, {}, None)
    clock = count()
    monkeypatch.setattr(slices, "perf_counter", lambda: next(clock) * slices.SLICE_SECONDS)
    turns = 0

    async def sample() -> None:
        nonlocal turns
        sampling = asyncio.create_task(api.stats.sample())
        while not sampling.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(sample())
    assert turns >= QUEUES // OBJECTS_PER_SLICE
    assert api.stats.total.latest
