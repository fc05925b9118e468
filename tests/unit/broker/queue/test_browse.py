"""Browsers: they see what a queue has, and nobody notices."""

import sys
from random import Random

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.browse import View
from flintmq.broker.queue.classic import ClassicQueue, view_of
from flintmq.broker.queue.publish import put
from flintmq.broker.queue.seen import Seen
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryDefinitions, MemoryJournal, MemoryStream, Taker, message, run_due


class Picky(Taker):
    """Wants one body, and at most so many bytes."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.is_filtered = True
        self._wanted = wanted

    def matches(self, message: object) -> bool:
        return bool(getattr(message, "body", b"") == self._wanted.encode())


def make(durable: bool = True, **arguments: object) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", durable, False, None, table, Tick(), journal), journal


def fill(queue: ClassicQueue, journal: MemoryJournal, *bodies: str, headers: str = "") -> None:
    for body in bodies:
        put([queue], message(body, True, headers), journal)


def browse(queue: ClassicQueue, taker: Taker) -> Queue:
    view = queue.view()
    view.subscribe(taker, {})
    return view


def take(queue: ClassicQueue) -> Entry:
    entry = queue.get()
    assert entry is not None
    return entry


def test_a_browser_sees_all_and_takes_nothing() -> None:
    """What is there, in order, and then what comes; all of it is still there, and as it was."""
    queue, journal = make()
    fill(queue, journal, "a", "b")
    browser = Taker()
    view = browse(queue, browser)
    assert queue.tick.ready == [view]
    assert not view.dispatch()
    assert browser.bodies == ["a", "b"]
    view.dispatched()
    queue.tick.ready.clear()
    fill(queue, journal, "c")
    assert queue.tick.ready == [view]
    view.dispatch()
    assert browser.bodies == ["a", "b", "c"]
    assert queue.message_count == 3
    entry = take(queue)
    assert not entry.redelivered
    assert entry.returns == 0
    assert entry is not browser.taken[0]


def test_nothing_a_browser_does_reaches_the_queue() -> None:
    """Neither settling nor rejecting nor giving back; the journal hears of nothing."""
    queue, journal = make(dead_letter_exchange="amq.fanout", group_header="g")
    fill(queue, journal, "a", headers="g=1")
    browser = Taker()
    view = browse(queue, browser)
    view.dispatch()
    held = take(queue)
    for _ in range(2):
        view.settle(browser.taken[0])
        view.reject(browser.taken[0])
        view.requeue(browser.taken)
        view.fail(browser.taken)
    fill(queue, journal, "b", headers="g=1")
    view.dispatch()
    assert browser.bodies == ["a", "b"]
    assert sorted(journal.kept) == [(1, 0), (1, 1)]
    assert not queue.tick.dead_letters
    assert queue.get() is not held
    assert (view.message_count, view.enqueue(message("m"))) == (0, None)


def test_what_others_took_is_not_shown() -> None:
    """Before the browser had room for it; what came back is shown in its place, and never twice."""
    queue, journal = make()
    fill(queue, journal, "a", "b", "c")
    browser = Taker(credit=1)
    view = browse(queue, browser)
    view.dispatch()
    assert browser.bodies == ["a"]
    first, second = take(queue), take(queue)
    queue.settle(second)
    queue.requeue([first])
    browser.credit = 9
    view.dispatch()
    assert browser.bodies == ["a", "c"]


def test_messages_that_went_are_let_go_of() -> None:
    """A browser that reads nothing does not keep alive what consumers settled."""
    queue, journal = make(durable=False)
    browser = Taker(credit=0)
    view = browse(queue, browser)
    sent = [message(str(number)) for number in range(3000)]
    unheld = sys.getrefcount(sent[0])
    for each in sent:
        put([queue], each, journal)
        queue.settle(take(queue))
    assert sum(sys.getrefcount(sent[number]) > unheld for number in range(3000)) < 1100
    fill(queue, journal, "last")
    browser.credit = 1
    view.dispatch()
    assert browser.bodies == ["last"]


def test_delays_are_not_looked_into() -> None:
    """What is held back is shown when it is due."""
    queue, journal = make()
    browser = Taker()
    view = browse(queue, browser)
    fill(queue, journal, "later", headers="delay=10")
    view.dispatch()
    assert browser.bodies == []
    queue.tick.now_ms = 10
    run_due(queue.tick, 10)
    view.dispatch()
    assert browser.bodies == ["later"]


def test_browsers_choose() -> None:
    """One that does not want all messages sees those that it wants."""
    queue, journal = make()
    fill(queue, journal, "a", "b", "c")
    picky = Picky("b")
    browse(queue, picky).dispatch()
    assert picky.bodies == ["b"]


def test_a_paused_queue_can_be_browsed() -> None:
    """That may be why it is paused."""
    queue, journal = make(paused=True)
    fill(queue, journal, "a")
    browser = Taker()
    browse(queue, browser).dispatch()
    assert browser.bodies == ["a"]


def test_browsers_are_no_consumers() -> None:
    """They exclude nobody, are excluded by nobody, are not counted; a single active consumer stays that."""
    queue, journal = make(single_active_consumer=True)
    browser, active = Taker(exclusive=True), Taker()
    view = browse(queue, browser)
    queue.subscribe(active, {})
    other = Taker(exclusive=True)
    assert browse(queue, other) is view
    fill(queue, journal, "a")
    assert queue.consumer_count == 1
    queue.dispatch()
    view.dispatch()
    assert (active.bodies, browser.bodies, other.bodies) == (["a"], [], [])


def test_the_last_browser_takes_the_view_along() -> None:
    """Afterwards messages take the short way again."""
    queue, journal = make()
    browser, other = Taker(), Taker()
    view = browse(queue, browser)
    browse(queue, other)
    view.unsubscribe(browser)
    fill(queue, journal, "a")
    view.dispatch()
    assert other.bodies == ["a"]
    assert browser.bodies == []
    view.unsubscribe(other)
    view.unsubscribe(other)
    assert queue.view() is not view


def test_a_deleted_queue_ends_its_browsers() -> None:
    """They are told, as consumers are."""
    queue, journal = make()
    fill(queue, journal, *[str(number) for number in range(2000)])
    browser = Taker()
    view = browse(queue, browser)
    assert queue.delete() == 2000
    assert browser.is_cancelled
    assert view.gone
    assert not view.dispatch()


def test_streams_are_not_browsed() -> None:
    """Nothing takes from a stream, and where to begin is said otherwise there."""
    queue = StreamQueue(1, "/", "s", {}, Tick(), MemoryStream(), MemoryDefinitions())
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-browse' for queue 's' in vhost '/' of queue type str"):
        view_of(queue)


def test_browsers_that_come_together_share_what_they_see() -> None:
    """Many of them on a long queue cost no more than one, and each goes at its own pace."""
    queue, journal = make()
    fill(queue, journal, *[str(number) for number in range(100)])
    browsers = [Taker(credit=number) for number in range(50)]
    view = queue.view()
    for browser in browsers:
        view.subscribe(browser, {})
        view.dispatch()
    assert isinstance(view, View)
    assert len(view._logs) == 1
    queue.settle(take(queue))
    late = Taker()
    browse(queue, late)
    assert len(view._logs) == 1
    fill(queue, journal, "new")
    for browser in browsers:
        browser.credit = 1000
    view.dispatch()
    everything = [str(number) for number in range(100)] + ["new"]
    assert [browser.bodies for browser in browsers] == [everything[1:]] + [everything] * 49
    assert late.bodies == everything[1:]
    assert not view._logs[0].entries


def test_who_comes_later_sees_what_came_back_meanwhile() -> None:
    """In its place, though those that came before do not see it again; what was seen by all is there for newcomers."""
    queue, journal = make()
    fill(queue, journal, "a", "b", "c")
    held = take(queue)
    first, second, third = Taker(), Taker(), Taker()
    view = browse(queue, first)
    queue.requeue([held])
    browse(queue, second)
    queue.settle(take(queue))
    view.dispatch()
    browse(queue, third)
    view.dispatch()
    assert (first.bodies, second.bodies, third.bodies) == (["b", "c"], ["b", "c"], ["b", "c"])
    queue.requeue([take(queue), take(queue)])
    fourth = Taker()
    browse(queue, fourth)
    view.unsubscribe(third)
    fill(queue, journal, "d")
    view.dispatch()
    assert (first.bodies, third.bodies, fourth.bodies) == (["b", "c", "d"], ["b", "c"], ["b", "c", "d"])


@pytest.mark.parametrize(("returns", "taken"), [(True, 6), (False, 60)])
def test_a_browser_sees_what_was_ready_when_it_came(returns: bool, taken: int) -> None:
    """And is there in its turn, whatever was taken, came back, or came, since it or another began to browse."""
    queue, journal = make()
    chance = Random(7)  # noqa: S311 - choices, not secrets
    held: list[Entry] = []
    fill(queue, journal, *[str(number) for number in range(4000)])
    to_see: list[tuple[Taker, list[Entry]]] = []
    view = queue.view()
    for _ in range(100):
        held.extend([take(queue) for _ in range(chance.randrange(taken))])
        if returns and chance.random() < 0.3:
            queue.requeue(held)
            held = []
        if chance.random() < 0.3:
            fill(queue, journal, "new")
            for _, entries in to_see:
                entries.append(queue.store.entries()[-1])
        browser = Taker(credit=chance.choice([0, 10, 5000]))
        to_see.append((browser, queue.store.entries()))
        view.subscribe(browser, {})
        if not returns and chance.random() < 0.1:
            view.dispatch()
    for browser, _ in to_see:
        browser.credit = 10_000
    while view.dispatch():
        pass
    ready = {entry.seq for entry in queue.store.entries()}
    for browser, entries in to_see:
        seen = [entry.seq for entry in browser.taken if entry.seq in ready]
        expected = [entry.seq for entry in entries if entry.seq in ready]
        if returns:
            # What was away when it came, and was back in its turn, may be among them.
            assert seen == sorted(set(seen))
            assert set(seen) >= set(expected)
        else:
            assert seen == expected


def test_a_browser_does_not_stop_at_what_others_took() -> None:
    """What it was to see next is with somebody else, and it goes on with the one behind."""
    queue, journal = make()
    fill(queue, journal, "one", "two", "three")
    taker = Taker(credit=1)
    view = browse(queue, taker)
    view.dispatch()
    assert taker.bodies == ["one"]
    taken = [take(queue), take(queue)]
    assert [entry.message.body for entry in taken] == [b"one", b"two"]
    taker.credit = 5
    view.dispatch()
    assert taker.bodies == ["one", "three"]


def test_a_browser_is_not_shown_what_it_has_seen() -> None:
    """One that comes back has a record of that, and adds to it."""
    queue, journal = make()
    fill(queue, journal, "one", "two", "three")
    taker = Taker()
    taker.seen = Seen(queue.id)
    taker.seen.add(1)
    view = browse(queue, taker)
    view.dispatch()
    assert taker.bodies == ["one", "three"]
