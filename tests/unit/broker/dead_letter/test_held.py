"""Dead letters whose targets are full, or missing: kept until each target has them, once, and without a busy loop."""

from itertools import pairwise

import pytest

from flintmq.base.limits import DEAD_LETTER_STEP_UNITS, DEAD_LETTER_WORK_UNITS
from flintmq.broker.broker import Broker
from flintmq.broker.message import Table
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.queue.base import Queue
from tests.unit.broker.memory import HeaderCodec, MemoryJournal, MemoryStorage, Taker, got, message
from tests.unit.broker.world import bodies

START = 1_000_000
INSISTING: Table = {"x-dead-letter-exchange": "dlx", "x-dead-letter-strategy": "at-least-once"}
SMALL: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}


class Node:
    """A queue `source` that dead-letters to the fanout exchange `dlx`."""

    def __init__(self, arguments: Table = INSISTING, persistent: bool = True) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.broker.now_ms = START
        self.vhost = self.broker.add_vhost("/")
        self.vhost.exchanges.declare("dlx", "fanout", True, False, False, {})
        self.source = self.queue("source", arguments)
        self.persistent = persistent

    @property
    def journal(self) -> MemoryJournal:
        return self.storage.memory_journal

    def queue(self, name: str, arguments: Table) -> Queue:
        return self.vhost.declare_queue(name, True, False, False, arguments, None)

    def target(self, name: str, arguments: Table | None = None) -> Queue:
        made = self.queue(name, arguments or {})
        self.vhost.exchanges.bind_queue(made, "dlx", "", {})
        return made

    def fill(self, queue: Queue, *bodies: str) -> None:
        for body in bodies:
            self.vhost.deliver(message(body, self.persistent), [queue])

    def reject(self, *bodies: str) -> None:
        """Let the source give up these messages, and the tick end."""
        self.fill(self.source, *bodies)
        for _ in bodies:
            entry = got(self.source)
            assert entry is not None
            self.source.reject(entry)
        self.settle_down()

    def settle_down(self, milliseconds: int = 0) -> int:
        """Ticks until nothing is left to do at this moment; returns how many there were."""
        self.broker.now_ms += milliseconds
        for count in range(1, 100):
            if not self.broker.dispatch() and not self.broker.has_ready:
                return count
        raise AssertionError("a busy loop")


def test_each_target_gets_a_letter_once() -> None:
    """Where one of several targets is full, the others have the letter at once and do not get it again with it."""
    node = Node()
    free, full = node.target("free"), node.target("full", SMALL)
    node.fill(full, "first")
    node.reject("letter")
    assert bodies(free) == ["letter"]
    # The original is in the journal, for as long as a target lacks it.
    assert sorted(node.journal.kept.values()) == [b"first", b"letter"]
    node.settle_down(60_000)
    assert bodies(free) == []
    assert bodies(full) == ["first"]
    node.settle_down()
    assert (bodies(full), bodies(free)) == (["letter"], [])
    node.settle_down(60_000)
    assert (bodies(full), bodies(free), node.journal.kept) == ([], [], {})


def test_it_goes_on_as_soon_as_there_is_room() -> None:
    """No time passes: what leaves a full queue lets in the next letter, in order, and later ones stay behind it."""
    node = Node()
    full = node.target("full", SMALL)
    node.fill(full, "0")
    node.reject("1", "2")
    node.reject("3")
    found = []
    for _ in range(5):
        found += bodies(full)
        node.settle_down()
    assert found == ["0", "1", "2", "3"]
    assert node.journal.kept == {}


def test_a_consumer_empties_all_of_it() -> None:
    """A consumer of the full queue gets every letter, however many wait."""
    node = Node()
    full = node.target("full", SMALL)
    node.reject(*[str(number) for number in range(50)])
    taker = Taker(no_ack=True)
    full.subscribe(taker, {})
    assert node.settle_down() < 100
    assert taker.bodies == [str(number) for number in range(50)]
    assert node.journal.kept == {}


def test_many_are_put_on_their_target_in_several_ticks() -> None:
    """If very many wait for a queue that gets much room at once, a tick puts a part of them there, in order."""
    node = Node()
    rule = PolicyRecord("/", "small", "full", {"max-length": 1})
    node.broker.put_rule(rule)
    full = node.target("full", {"x-overflow": "reject-publish"})
    per_tick = DEAD_LETTER_STEP_UNITS // DEAD_LETTER_WORK_UNITS
    letters = [str(number) for number in range(3 * per_tick)]
    node.fill(full, "first")
    node.reject(*letters)
    assert full.message_count == 1
    node.broker.delete_rule(rule)
    counts = [1]
    while node.broker.dispatch():
        counts.append(full.message_count)
    assert max(after - before for before, after in pairwise(counts)) <= per_tick
    assert len(counts) >= 3
    assert bodies(full) == ["first", *letters]


def test_nothing_is_done_while_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that wait cost a tick nothing: no target is asked, and nothing is encoded, again and again."""
    node = Node()
    full = node.target("full", SMALL)
    node.fill(full, "0")
    node.reject(*[str(number) for number in range(100)])
    encoded = 0
    original = HeaderCodec.edited

    def edited(codec: HeaderCodec, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        nonlocal encoded
        encoded += 1
        return original(codec, properties, headers, keeps_expiration)

    monkeypatch.setattr(HeaderCodec, "edited", edited)
    for _ in range(100):
        assert node.broker.dispatch() is False
    assert node.broker.next_due_ms >= START + 1_000
    for _ in range(10):
        node.broker.now_ms += 10_000
        assert node.broker.dispatch() is False
    assert encoded == 0


@pytest.mark.parametrize("bytes_of_room", [3, 9])
def test_room_is_counted_in_bytes_too(bytes_of_room: int) -> None:
    """A letter larger than what has left waits on."""
    node = Node()
    full = node.target("full", {"x-max-length-bytes": 12, "x-overflow": "reject-publish"})
    node.fill(full, "x" * bytes_of_room, "y" * (12 - bytes_of_room))
    node.reject("letter")
    entry = got(full)
    assert entry is not None
    node.settle_down()
    assert bodies(full) == (["y" * 9] if bytes_of_room == 3 else ["yyy", "letter"])


@pytest.mark.parametrize("later", ["consumer", "limit"])
def test_what_never_fits_lets_others_pass(later: str) -> None:
    """A letter larger than its target's limit waits for a higher one, or for a consumer; others do not wait for it."""
    node = Node()
    small = node.target("small", {"x-overflow": "reject-publish"})
    node.broker.put_rule(PolicyRecord("/", "p", "small", {"max-length-bytes": 3}, "queues"))
    node.reject("1", "large", "2", "3", "4")
    node.reject("5")
    found = bodies(small)
    for _ in range(3):
        node.settle_down()
        found += bodies(small)
    assert found == ["1", "2", "3", "4", "5"]
    node.settle_down(10_000)
    assert (bodies(small), list(node.journal.kept.values())) == ([], [b"large"])
    taker = Taker(no_ack=True)
    if later == "consumer":
        small.subscribe(taker, {})
    else:
        node.broker.put_rule(PolicyRecord("/", "p", "small", {"max-length-bytes": 5}, "queues"))
    node.settle_down(10_000)
    assert taker.bodies + bodies(small) == ["large"]
    assert node.journal.kept == {}


def test_what_never_fits_does_not_outlive_its_target() -> None:
    """A target that is deleted lacks nothing any more."""
    node = Node()
    free = node.target("free")
    small = node.target("small", {"x-max-length-bytes": 3, "x-overflow": "reject-publish"})
    node.reject("large")
    assert bodies(free) == ["large"]
    node.vhost.remove_queue(small)
    node.settle_down(10_000)
    assert node.journal.kept == {}


def test_several_full_targets_do_not_wait_for_each_other() -> None:
    """Each takes what it lacks when it can; the letter is settled with the last."""
    node = Node()
    one, two = node.target("one", SMALL), node.target("two", SMALL)
    for queue in (one, two):
        node.fill(queue, "0")
    node.reject("1", "2")
    bodies(two)
    node.settle_down()
    assert bodies(two) == ["1"]
    node.settle_down()
    assert bodies(two) == ["2"]
    assert b"1" in node.journal.kept.values()
    bodies(one)
    node.settle_down()
    assert bodies(one) == ["1"]
    node.settle_down()
    assert bodies(one) == ["2"]
    node.settle_down()
    assert (bodies(one), bodies(two), node.journal.kept) == ([], [], {})


def test_at_most_once_never_waits() -> None:
    """A letter that is not insisted on is dropped where it finds no room, and settled at once."""
    node = Node({"x-dead-letter-exchange": "dlx"})
    free, full = node.target("free"), node.target("full", SMALL)
    node.fill(full, "0")
    node.reject("1")
    assert bodies(free) == ["1"]
    assert list(node.journal.kept.values()) == [b"0"]
    bodies(full)
    node.settle_down(60_000)
    assert (bodies(full), node.journal.kept) == ([], {})


def test_a_letter_that_leads_nowhere_waits_for_a_way() -> None:
    """Bindings that come later are found; until then it stays in the journal."""
    node = Node()
    node.reject("letter")
    node.settle_down(60_000)
    assert list(node.journal.kept.values()) == [b"letter"]
    late = node.target("late")
    node.settle_down(10_000)
    assert bodies(late) == ["letter"]
    assert node.journal.kept == {}


def test_a_full_target_that_is_taken_off_no_longer_counts() -> None:
    """A letter is not kept for a queue that it would not go to any more, and goes where it leads now."""
    node = Node()
    free, full = node.target("free"), node.target("full", SMALL)
    node.fill(full, "0")
    node.reject("1")
    node.vhost.exchanges.unbind_queue(full, "dlx", "", {})
    other = node.target("other")
    node.settle_down(10_000)
    assert (bodies(free), bodies(other)) == (["1"], ["1"])
    assert list(node.journal.kept.values()) == [b"0"]


@pytest.mark.parametrize("others", [0, 1])
def test_a_full_target_that_is_deleted(others: int) -> None:
    """Where another has the letter, that is all; where none has, it is routed again."""
    node = Node()
    full = node.target("full", SMALL)
    free = [node.target("free") for _ in range(others)]
    node.fill(full, "0")
    node.reject("1")
    node.vhost.remove_queue(full)
    node.settle_down()
    assert list(node.journal.kept.values()) == [b"1"]
    late = node.target("late")
    node.settle_down(10_000)
    assert bodies(late) == ([] if others else ["1"])
    assert [bodies(queue) for queue in free] == [["1"]] * others
    assert node.journal.kept == {}


def test_a_deleted_source_takes_its_letters_along() -> None:
    """What waits is dropped with the queue it came from."""
    node = Node()
    full = node.target("full", SMALL)
    node.fill(full, "0")
    node.reject("1")
    node.vhost.remove_queue(node.source)
    node.settle_down(10_000)
    bodies(full)
    node.settle_down(10_000)
    assert (bodies(full), node.journal.kept) == ([], {})


def test_a_limit_that_is_lifted_is_room() -> None:
    """So is a policy that gives the full queue more of it."""
    node = Node()
    full = node.target("full", {"x-overflow": "reject-publish"})
    node.broker.put_rule(PolicyRecord("/", "p", "full", {"max-length": 1}, "queues"))
    node.fill(full, "0")
    node.reject("1")
    node.broker.put_rule(PolicyRecord("/", "p", "full", {"max-length": 2}, "queues"))
    node.settle_down()
    assert bodies(full) == ["0", "1"]


def test_a_queue_that_passes_on_what_it_refuses_has_taken_it() -> None:
    """Its own dead letter exchange has the letter then, once."""
    node = Node()
    arguments = {**SMALL, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "beyond"}
    full = node.target("full", arguments)
    node.vhost.exchanges.declare("beyond", "fanout", True, False, False, {})
    beyond = node.queue("beyond", {})
    node.vhost.exchanges.bind_queue(beyond, "beyond", "", {})
    node.fill(full, "0")
    node.reject("1")
    node.settle_down(60_000)
    assert (bodies(beyond), bodies(full)) == (["1"], ["0"])
    assert node.journal.kept == {}


def test_a_consumer_is_room_for_a_queue_that_holds_nothing() -> None:
    """A full queue of length none hands letters to a consumer that comes later."""
    node = Node()
    full = node.target("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    node.reject("1", "2")
    taker = Taker(no_ack=True)
    full.subscribe(taker, {})
    node.settle_down(10_000)
    node.settle_down(10_000)
    assert taker.bodies == ["1", "2"]


def test_a_withdrawn_exchange_lets_letters_go() -> None:
    """Without a dead letter exchange there is nothing to wait for."""
    node = Node({})
    policy = PolicyRecord(
        "/", "p", "source", {"dead-letter-exchange": "dlx", "dead-letter-strategy": "at-least-once"}, "quorum_queues"
    )
    source = node.queue("source.q", {"x-queue-type": "quorum"})
    node.source = source
    node.broker.put_rule(policy)
    full = node.target("full", SMALL)
    node.fill(full, "0")
    node.reject("1")
    assert len(node.journal.kept) == 2
    node.broker.delete_rule(policy)
    node.settle_down(10_000)
    assert list(node.journal.kept.values()) == [b"0"]
