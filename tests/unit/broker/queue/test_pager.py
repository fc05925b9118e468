"""Queues of which a part is packed: what expires there, what cannot be read, and what is let go of."""

from functools import partial

import pytest

from flintmq.base.errors import InternalError, StorageError
from flintmq.broker.message import Entry
from flintmq.broker.ports import JournalRanges, Page
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, MemoryPages, Taker, message, purge, run_due

# What a queue keeps in memory before it packs, and what a page has.
LOOSE = 8 * 1024
PAGE = 1024


class BrokenPages(MemoryPages):
    """Pages that cannot be read while `is_broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def read(self, page: Page) -> list[Entry]:
        self._check()
        return super().read(page)

    def unpack(self, page: Page) -> list[Entry]:
        self._check()
        return super().unpack(page)

    def ranges(self, page: Page) -> JournalRanges:
        self._check()
        return super().ranges(page)

    def _check(self) -> None:
        if self.is_broken:
            raise StorageError("gone")


def made(pages: MemoryPages, arguments: dict[str, object] | None = None) -> ClassicQueue:
    tick = Tick()
    tick.pages = pages
    tick.now_ms = 1_000_000
    return ClassicQueue(1, "/", "q", "classic", True, False, None, arguments or {}, tick, MemoryJournal())


def fill(queue: ClassicQueue, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        queue.enqueue(message(str(number)))


def expiring(queue: ClassicQueue, first: int, count: int, every: int) -> None:
    """Messages of which each so-manieth has a second to live."""
    for number in range(first, first + count):
        queue.settings.ttl_ms = 1_000 if number % every == 0 else -1
        queue._arrange()
        queue.enqueue(message(str(number)))
    queue.settings.ttl_ms = -1


def taken(queue: ClassicQueue, count: int) -> list[Entry]:
    entries = [queue.get() for _ in range(count)]
    return [entry for entry in entries if entry is not None]


def test_a_page_of_which_nothing_is_left_is_gone() -> None:
    """All of one page expires; who browses then, and gives back, finds all that is left, in order."""
    pages = MemoryPages()
    queue = made(pages)
    fill(queue, LOOSE + 2 * PAGE)
    expiring(queue, LOOSE + 2 * PAGE, PAGE, 1)
    fill(queue, 2 * PAGE, LOOSE + 3 * PAGE)
    before = len(pages.kept)
    queue.tick.now_ms += 5_000
    run_due(queue.tick, queue.tick.now_ms)
    assert queue.message_count == LOOSE + 4 * PAGE
    assert len(pages.kept) == before - 1
    hands = taken(queue, LOOSE + 5)
    browser = Taker()
    queue.view().subscribe(browser, {})
    queue.requeue(hands[-3:])
    left = taken(queue, 10 * LOOSE)
    assert [entry.seq for entry in left[:5]] == [LOOSE + 2, LOOSE + 3, LOOSE + 4, LOOSE + 5, LOOSE + 6]
    assert len(left) == 4 * PAGE - 2
    assert queue.message_count == 0


def test_what_cannot_be_read_stays_where_it_is() -> None:
    """Getting and purging fail and say why, nothing is counted wrong, and all is there when it can be read again."""
    pages = BrokenPages()
    queue = made(pages)
    fill(queue, LOOSE + 10 * PAGE)
    hands = taken(queue, LOOSE)
    pages.is_broken = True
    for act in (queue.get, partial(purge, queue), queue._keep_in_memory):
        with pytest.raises(InternalError, match="gone"):
            act()
        assert queue.message_count == 10 * PAGE
    consumer = Taker()
    queue.subscribe(consumer, {})
    with pytest.raises(StorageError, match="gone"):
        # What it is told, it raises.
        queue.dispatch()
    queue.unsubscribe(consumer)
    queue.requeue(hands[:10])
    fill(queue, PAGE, LOOSE + 10 * PAGE)
    pages.is_broken = False
    assert [entry.message.body for entry in taken(queue, 12)] == [
        str(number).encode() for number in [*range(10), LOOSE, LOOSE + 1]
    ]
    assert purge(queue) == 11 * PAGE - 2
    assert not pages.kept


def test_a_queue_that_cannot_be_read_can_be_deleted() -> None:
    """There is no other way to be rid of it."""
    pages = BrokenPages()
    queue = made(pages)
    fill(queue, LOOSE + 3 * PAGE)
    pages.is_broken = True
    assert queue.delete() == LOOSE + 3 * PAGE
    assert not pages.kept


def test_pages_that_were_read_are_let_go_of() -> None:
    """Where messages live long and leave early, nothing of them is kept until they would have expired."""
    pages = MemoryPages()
    queue = made(pages, {"x-message-ttl": 86_400_000})
    fill(queue, LOOSE + PAGE)
    for number in range(100):
        fill(queue, PAGE, LOOSE + PAGE * (1 + number))
        taken(queue, PAGE)
    assert queue._pager is not None
    assert len(queue._pager._heap) < 80


def test_looking_at_pages_takes_turns() -> None:
    """A little that is over in each of many pages does not hold up everything else."""
    pages = MemoryPages()
    queue = made(pages)
    fill(queue, LOOSE + PAGE)
    expiring(queue, LOOSE + PAGE, 40 * PAGE, 500)
    count = queue.message_count
    over = len(range(0, 40 * PAGE, 500))
    queue.tick.now_ms += 60_000
    run_due(queue.tick, queue.tick.now_ms)
    gone = count - queue.message_count
    assert 0 < gone < over // 2
    for _ in range(10):
        queue.tick.now_ms += 100
        run_due(queue.tick, queue.tick.now_ms)
    assert over - 1 <= count - queue.message_count <= over + 1


@pytest.mark.parametrize("is_filtered", [False, True])
def test_what_is_over_in_a_page_is_never_delivered(is_filtered: bool) -> None:
    """Nor to consumers that choose, whose entries come from another place."""
    pages = MemoryPages()
    queue = made(pages)
    fill(queue, LOOSE + PAGE)
    expiring(queue, LOOSE + PAGE, 20 * PAGE, 100)
    queue.tick.now_ms += 60_000
    consumer = Taker()
    consumer.is_filtered = is_filtered
    queue.subscribe(consumer, {})
    while queue.dispatch():
        pass
    assert len(consumer.taken) > LOOSE + 19 * PAGE
    assert not [entry for entry in consumer.taken if entry.expires_ms]
