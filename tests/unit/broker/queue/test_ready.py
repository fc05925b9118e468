"""Stores of ready entries: order by position, whatever leaves from the middle and comes back."""

from random import Random

import pytest

from flintmq.broker.message import ACQUIRED, READY, Entry
from flintmq.broker.queue import ready
from flintmq.broker.queue.pager import Pager
from flintmq.broker.queue.ready import Fifo
from tests.unit.broker.memory import MemoryPages, message


def filled(count: int, pager: Pager | None = None) -> tuple[Fifo, list[Entry]]:
    store = Fifo(pager)
    shared = message("m")
    entries = [Entry(shared, seq) for seq in range(count)]
    for entry in entries:
        store.append(entry)
    return store, entries


def back(store: Fifo, entries: list[Entry]) -> None:
    for entry in entries:
        entry.state = READY
    store.put_back(entries)


def seqs(entries: list[Entry]) -> list[int]:
    return [int(entry.seq) for entry in entries]


@pytest.mark.parametrize("count", [100, 1500, 8000])
@pytest.mark.parametrize("seed", range(20))
def test_any_entries_leave_and_come_back_in_order(count: int, seed: int) -> None:
    """Takes, removals anywhere, returns of any that were taken: what is next is always the oldest that is ready."""
    random = Random(seed)  # noqa: S311 - a repeatable test
    store, live = filled(count)
    held: list[Entry] = []
    for _ in range(60):
        step = random.random()
        if step < 0.4:
            for _ in range(min(len(live), random.choice([1, 5, 1200]))):
                held.append(live.pop(0))
                assert store.take() is held[-1]
        elif step < 0.6:
            gone = set(random.sample(live, len(live) * random.randrange(10) // 10))
            live = [entry for entry in live if entry not in gone]
            for entry in gone:
                store.remove(entry)
        else:
            returned = random.sample(held, min(len(held), random.choice([1, 3, 100, 2000])))
            back_again = set(returned)
            held = [entry for entry in held if entry not in back_again]
            live = sorted([*live, *returned], key=lambda entry: entry.seq)
            back(store, returned)
        if random.random() < 0.3:
            assert store.peek() is (live[0] if live else None)
        assert store.count == len(live)
    assert seqs(store.entries()) == seqs(live)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_packed_keeps_its_place(seed: int) -> None:
    """The same where the middle is packed, by the depth of the queue or because memory is low."""
    random = Random(seed)  # noqa: S311 - a repeatable test
    pages = MemoryPages()
    store, entries = filled(25_000, Pager(pages, lambda part, count: None))
    assert 10 < len(pages.kept) < 20
    live = seqs(entries)
    held: list[Entry] = []
    number = len(live)
    for _ in range(80):
        step = random.random()
        if step < 0.4:
            for _ in range(min(len(live), random.choice([1, 5, 2500]))):
                held.append(store.take())
                assert held[-1].seq == live.pop(0)
        elif step < 0.6:
            for _ in range(random.choice([1, 1500])):
                store.append(Entry(message("m"), number))
                live.append(number)
                number += 1
        elif step < 0.75:
            store.page_out()
        else:
            returned = random.sample(held, min(len(held), random.choice([1, 3, 2000])))
            back_again = set(returned)
            held = [entry for entry in held if entry not in back_again]
            live = sorted([*live, *seqs(returned)])
            back(store, returned)
        assert store.count == len(live)
        first = store.peek()
        assert (None if first is None else first.seq) == (live[0] if live else None)
    assert sorted(int(entry.seq) for block in store.blocks() for entry in block) == live
    assert seqs(store.entries()) == live
    assert not pages.kept


def test_an_entry_is_packed_with_its_place_in_the_journal() -> None:
    """Which it gets behind its queues: packed without, it would come back after a restart, whoever acknowledged it."""
    store = Fifo(Pager(MemoryPages(), lambda part, count: None))
    shared = message("m")
    for seq in range(15_000):
        entry = Entry(shared, seq)
        store.append(entry)
        # As whoever publishes does, once every queue has its entry.
        entry.segment = 1
        entry.slot = seq
    assert [entry.seq for entry in store.entries() if entry.segment != 1] == []


def test_what_was_let_go_does_not_end_a_block() -> None:
    """Blocks end by the bytes of what is in them: those of what left from the middle do not count any more."""
    store, entries = filled(2 * 1024)
    large = message("m" * 10_000)
    beginning = [Entry(large, seq) for seq in range(2048, 2048 + 26)]
    for entry in beginning:
        store.append(entry)
    for entry in [*beginning, *entries[100:]]:
        store.remove(entry)
    blocks = len(store._middle)
    for seq in range(3000, 3026):
        store.append(Entry(large, seq))
    assert len(store._middle) == blocks


def test_what_comes_back_after_a_let_go_does_not_overtake() -> None:
    """The store was made anew from what is left: later returns still find their places among it."""
    store, entries = filled(6000)
    taken = [store.take() for _ in range(1000)]
    for entry in entries[1000:5500]:
        store.remove(entry)
    assert store._front == []
    back(store, [taken[7]])
    back(store, taken[900:902])
    assert seqs([store.take() for _ in range(5)]) == [7, 900, 901, 5500, 5501]


def test_give_and_take_after_a_let_go_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives back and takes the same entries again and again does not have the whole front sorted each time."""
    looks = [0]

    def counted(entry: Entry) -> int:
        looks[0] += 1
        return -entry.position

    monkeypatch.setattr(ready, "_position_downwards", counted)
    store, entries = filled(20_000)
    for entry in entries[100:12_000]:
        store.remove(entry)
    taken = [store.take() for _ in range(50)]
    # One that stood behind all of them.
    last = entries[-1]
    store.remove(last)
    last.state = ACQUIRED
    taken.append(last)
    back(store, taken)
    assert store.peek() is taken[0]
    looks[0] = 0
    for _ in range(100):
        again = [store.take() for _ in range(50)]
        back(store, again)
        assert store.peek() is again[0]
    assert looks[0] < 100 * 50 * 8
