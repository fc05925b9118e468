"""Work in slices: others have their turn between them, and nothing is lost or out of order."""

import asyncio
import gc
import os
import random
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flintmq.management import slices
from flintmq.management.http.listing import Pieces, encoded_list
from flintmq.management.messages.browse import BrowsedMessage, browse
from flintmq.management.messages.selection import Selection
from flintmq.management.metrics.exposition import GAUGE, Family, each_of
from flintmq.management.slices import SLICE_SECONDS, Slice, drained, each, filtered, gathered, sorted_by
from tests.unit.broker.memory import message
from tests.unit.management.fake_node import Api

T = TypeVar("T")
ITEMS = list(range(3_000))
DOCUMENT = Path(__file__).parents[3] / "docs/http-api.md"


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is over as soon as it is looked at."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(slices, "OTHERS_SHARE", 0.0)


def turns_of(work: Awaitable[T]) -> tuple[T, int]:
    """Run work, and return its result and the number of times that other work ran meanwhile."""

    async def watched() -> tuple[T, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        other = asyncio.create_task(count())
        made = await work
        other.cancel()
        return made, turns

    return asyncio.run(watched())


def test_results_in_their_order() -> None:
    """Work on many objects is done in many slices, in order."""
    made, turns = turns_of(each(ITEMS, lambda number: number * 2))
    assert made == [number * 2 for number in ITEMS]
    assert turns >= 300
    assert turns_of(gathered(iter(ITEMS)))[0] == ITEMS


@pytest.mark.parametrize("reverse", [False, True])
def test_sorting(reverse: bool) -> None:
    """A long list is sorted in runs that are merged, and keys need no order beyond their own."""
    shuffled = [{"number": number // 2} for number in ITEMS]
    random.Random(7).shuffle(shuffled)  # noqa: S311 - any order will do
    expected = sorted((item["number"] for item in shuffled), reverse=reverse)
    made, turns = turns_of(sorted_by(shuffled, lambda item: item["number"], reverse=reverse))
    assert [item["number"] for item in made] == expected
    assert turns >= 300


def test_a_list_that_is_drained() -> None:
    """Each item leaves the list when it comes."""
    items = list(range(5))
    assert [(item, len(items)) for item in drained(items)] == [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)]


def test_keys_are_freed_one_by_one() -> None:
    """The keys by which a list was sorted are freed as it is merged: all at once would be more than a slice."""

    class Key(str):
        __slots__ = ("__weakref__",)

    known: list[weakref.ref[Key]] = []
    alive: list[int] = []

    def key(item: int) -> Key:
        made = Key(f"{item:05}")
        known.append(weakref.ref(made))
        return made

    async def sort() -> list[int]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(0)
                alive.append(sum(ref() is not None for ref in known))

        watching = asyncio.create_task(watch())
        made = await sorted_by(ITEMS[:], key)
        watching.cancel()
        return made

    assert asyncio.run(sort()) == ITEMS
    assert any(0 < count < len(ITEMS) // 2 for count in alive[len(alive) // 2 :])


def test_what_is_wanted() -> None:
    """A filter works in slices even if almost nothing matches."""
    made, turns = turns_of(filtered(ITEMS, lambda number: number == 2_999))
    assert made == [2_999]
    assert turns >= 300


def test_a_tick_has_its_turn_before_the_next_slice() -> None:
    """A callback caused by a socket during a slice runs before the next slice."""
    seen: list[str] = []

    async def work() -> None:
        now = Slice()
        loop = asyncio.get_running_loop()
        for _ in range(50):
            seen.append("slice")
            # As a transport does: it reads in one turn, and the broker asks for its tick.
            loop.call_soon(loop.call_soon, seen.append, "tick")
            await now.pause()

    asyncio.run(work())
    assert seen == ["slice", "tick"] * 50


def test_the_processor_is_offered_before_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process on the same processor that was sent something runs before the next slice."""
    seen: list[str] = []
    monkeypatch.setattr(os, "sched_yield", lambda: seen.append("offered"))

    def work(number: int) -> int:
        seen.append("worked")
        return number

    asyncio.run(each(ITEMS[:5], work))
    assert seen == ["worked", "offered"] * 5


def test_one_slice_at_a_time() -> None:
    """However many requests there are, two of their slices have a turn of the loop between them; all get on."""
    turn = 0
    at: list[tuple[int, int]] = []

    async def count() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def work(number: int) -> None:
        now = Slice()
        await now.pause()
        for _ in range(20):
            at.append((turn, number))
            await now.pause()

    async def together() -> None:
        other = asyncio.create_task(count())
        await asyncio.gather(*map(work, range(5)))
        other.cancel()

    asyncio.run(together())
    turns = [turn for turn, _ in at]
    assert all(after - before >= 2 for before, after in pairwise(turns))
    # One after the other, in the order in which they came.
    assert [number for _, number in at] == [0, 1, 2, 3, 4] * 20


def test_who_gives_up_while_it_waits() -> None:
    """A request whose client has gone takes nobody's turn."""

    async def work() -> list[int]:
        waiting = asyncio.create_task(gathered(iter(repeat(0))))
        other = asyncio.create_task(each(ITEMS, int))
        await asyncio.sleep(0.01)
        waiting.cancel()
        return await other

    assert asyncio.run(work()) == ITEMS


def clock(monkeypatch: pytest.MonkeyPatch, step_seconds: float) -> list[float]:
    """A clock that advances by a fixed step with every reading; its entry is the time, and can be set."""
    at = [0.0]

    def look() -> float:
        at[0] += step_seconds
        return at[0]

    monkeypatch.setattr(slices, "perf_counter", look)
    return at


def test_work_is_followed_by_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a millisecond of work the loop has nothing to do for one, so that the process sleeps."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.000_1)
    at = clock(monkeypatch, 0.0)
    pauses: list[float] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        wait = loop.call_later

        def call_later(seconds: float, *rest: Any) -> asyncio.TimerHandle:  # noqa: ANN401 - as the loop's
            pauses.append(seconds)
            # And it comes when that is over.
            at[0] += seconds
            return wait(0, *rest)

        monkeypatch.setattr(loop, "call_later", call_later)
        now = Slice()
        for _ in range(95):
            at[0] += 0.000_1
            assert now.is_over
            await now.pause()

    asyncio.run(work())
    assert pauses == [slices.PAUSE_SECONDS] * 9


def test_slices_among_long_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy broker a slice may take a quarter of what the others took, so that work ends; a millisecond at most."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.000_1)
    monkeypatch.setattr(slices, "OTHERS_SHARE", 0.25)
    at = clock(monkeypatch, 0.0)

    async def work(others_seconds: float) -> float:
        now = Slice()

        def tick() -> None:
            at[0] += others_seconds

        asyncio.get_running_loop().call_soon(tick)
        await now.pause()
        began = at[0]
        while not now.is_over:
            at[0] += 0.000_01
        # In steps of ten microseconds.
        return round(at[0] - began, 4)

    assert asyncio.run(work(0.000_01)) == 0.000_1
    assert asyncio.run(work(0.002)) == 0.000_5
    assert asyncio.run(work(0.1)) == 0.001


def pauses_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[list[float]], Awaitable[object]]) -> int:
    """How often all others wait while it gets on; it is given the time, which nobody else moves but in pauses."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.000_1)
    at = clock(monkeypatch, 0.0)
    pauses = 0

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        wait = loop.call_later

        def call_later(seconds: float, *rest: Any) -> asyncio.TimerHandle:  # noqa: ANN401 - as the loop's
            nonlocal pauses
            pauses += 1
            at[0] += seconds
            return wait(0, *rest)

        monkeypatch.setattr(loop, "call_later", call_later)
        await work(at)
        # What it owes now, somebody else has to wait for.
        await Slice().pause()

    asyncio.run(watched())
    return pauses


def test_a_client_that_takes_its_time_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nine seconds pass until it takes a piece of its list, or of metrics, nobody owes a rest."""
    families = [Family[str]("", name, GAUGE, "", len) for name in ("one", "other")]

    async def read(at: list[float]) -> None:
        async def send(_message: object) -> None:
            at[0] += 9

        async def receive() -> dict[str, object]:
            return {}

        await Pieces([b"1", b"2", b"3"])({"type": "http"}, receive, send)
        async for _ in each_of("", families, ["a", "b"], lambda name: {"name": name}):
            at[0] += 9

    assert pauses_of(monkeypatch, read) == 0


def test_what_takes_slices_of_its_own_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are large are shown in slices, which are not counted again as one."""
    api = Api()
    api.put("/api/queues/%2F/q", {"durable": True})
    vhost = api.broker.vhosts["/"]
    queue = vhost.queues["q"]
    for _ in range(4):
        vhost.deliver(message(), [queue])

    async def look(at: list[float]) -> None:
        async def facts(_seen: BrowsedMessage, _truncate: int) -> dict[str, object]:
            at[0] += 9
            return {}

        async def rows() -> AsyncIterator[object]:
            for number in range(4):
                at[0] += 9
                yield number

        monkeypatch.setattr(BrowsedMessage, "facts", facts)
        assert len((await browse(queue, "", Selection(), 10, 100))["messages"]) == 4
        await encoded_list(rows())

    assert pauses_of(monkeypatch, look) == 0


def test_one_slice_owes_no_more_than_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slice of nine seconds, other work waits at most ten milliseconds longer."""

    async def work(at: list[float]) -> None:
        now = Slice()
        at[0] += 9
        await now.pause()

    assert pauses_of(monkeypatch, work) == 10


def test_waiting_makes_no_slice_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice ends at its time even if `waited` was called without a wait."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.000_1)
    at = clock(monkeypatch, 0.0)

    async def work() -> int:
        now = Slice()
        steps = 0
        while not now.is_over:
            at[0] += 0.000_03
            now.waited()
            steps += 1
        return steps

    assert asyncio.run(work()) == 4


def test_a_loop_that_has_ended_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed event loop is released, also if its work was cancelled: programs may have many loops."""
    at = clock(monkeypatch, 0.0)

    def used() -> "weakref.ref[asyncio.AbstractEventLoop]":
        loop = asyncio.new_event_loop()

        async def work() -> None:
            await each(range(10), int)
            # It owes a rest that does not end, for time stands still.
            now = Slice()
            at[0] += 9
            given_up = asyncio.create_task(now.pause())
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)

        loop.run_until_complete(work())
        loop.close()
        return weakref.ref(loop)

    ended = [used() for _ in range(3)]
    gc.collect()
    assert [loop() for loop in ended] == [None] * 3


def test_the_document_says_how_long_a_slice_is() -> None:
    """The documentation has the length of a slice, which other work waits for on an idle broker."""
    assert f"slices of {SLICE_SECONDS * 1_000:g} ms" in DOCUMENT.read_text()
