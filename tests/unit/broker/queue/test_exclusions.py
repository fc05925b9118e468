"""What consumers rejected and do not get again: in whose way it is, and in which order it is kept."""

from flintmq.base.limits import DISPATCH_BURST_MESSAGES
from flintmq.base.work import WORK
from flintmq.broker.message import Entry
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.exclusions import Exclusions
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message


class Counting(Taker):
    """Counts how often it is asked whether it can take anything."""

    def __init__(self, credit: int, context: object) -> None:
        super().__init__(credit)
        self.context = context
        self.asked = 0

    def can_take(self) -> bool:
        self.asked += 1
        return super().can_take()


def test_the_oldest_is_in_front_however_it_came() -> None:
    """Alone, with many others, or with few beside many that are there."""
    withheld = Exclusions(lambda: None)
    entries = [Entry(message("m"), number) for number in range(1000)]
    withheld.withhold(entries[1:900:2], ("a",))
    withheld.withhold([entries[0]], ("b",))
    withheld.withhold(entries[2:40:2], ("c",))
    withheld.withhold(entries[40:900:2], ("a",))
    withheld.withhold(entries[900:], ("a",))
    assert [entry for entry, _ in withheld._withheld] == entries
    assert withheld.take("b") is entries[1]
    assert withheld.take("a") is entries[0]


def test_consumers_are_not_asked_about_each_message_they_rejected() -> None:
    """Once a dispatch is enough, and the one that may have what they rejected gets it in order."""
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {}, Tick(), MemoryJournal())
    rejecters = [Counting(100, "rejecters") for _ in range(5)]
    queue.subscribe(rejecters[0], {})
    for number in range(100):
        queue.enqueue(message(str(number)))
    queue.dispatch()
    rejecters[0].credit = 1
    queue.requeue_excluding(rejecters[0].taken, "rejecters")
    for rejecter in rejecters[1:]:
        queue.subscribe(rejecter, {})
    for rejecter in rejecters:
        rejecter.asked = 0
    other = Counting(40, "other")
    queue.subscribe(other, {})
    queue.dispatch()
    assert other.bodies == [str(number) for number in range(40)]
    assert queue.message_count == 60
    assert [rejecter.asked for rejecter in rejecters] == [1] * 5


def test_what_is_withheld_lives_no_longer_for_that() -> None:
    """A message that waits for another consumer than the one that rejected it is not given to one that comes late."""
    tick = Tick()
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {"x-message-ttl": 10}, tick, MemoryJournal())
    rejecter = Counting(2, "rejecter")
    queue.subscribe(rejecter, {})
    for number in range(2):
        queue.enqueue(message(str(number)))
    queue.dispatch()
    queue.requeue_excluding(rejecter.taken, "rejecter")
    tick.now_ms = 11
    assert queue.get("other") is None
    assert queue.message_count == 0


def test_the_last_withheld_message_expires_in_a_dispatch() -> None:
    """A consumer gets what came after a message that only it could not have, and that has expired meanwhile."""
    tick = Tick()
    tick.now_ms = 1_000
    queue = ClassicQueue(
        1, "/", "q", "classic", True, False, None, {"x-message-ttl": 10}, tick, MemoryJournal(), ranks_all=False
    )
    link = Taker()
    link.context = "link"
    queue.subscribe(link, {})
    queue.enqueue(message("m"))
    queue.dispatch()
    (entry,) = link.taken
    queue.exclude(entry, "link")
    queue.release([entry])
    tick.now_ms += 100
    queue.enqueue(message("n"))
    queue.dispatched()
    assert not queue.dispatch()
    assert link.bodies == ["m", "n"]


def test_to_offer_what_is_withheld_has_a_bound() -> None:
    """Of tens of thousands, a dispatch offers as many as it has time for, and all of them are offered, in order."""
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {}, Tick(), MemoryJournal())
    rejecter = Counting(100_000, "rejecter")
    queue.subscribe(rejecter, {})
    count = 2 * DISPATCH_BURST_MESSAGES
    for number in range(count):
        queue.enqueue(message(str(number)))
    while queue.dispatch():
        pass
    queue.requeue_excluding(rejecter.taken, "rejecter")
    other = Counting(100_000, "other")
    queue.subscribe(other, {})
    spent = []
    more = True
    while more:
        before = WORK.spent
        more = queue.dispatch()
        spent.append(WORK.spent - before)
    assert max(spent) <= DISPATCH_BURST_MESSAGES + 1
    assert other.bodies == [str(number) for number in range(count)]


def _rejected(count: int) -> tuple[ClassicQueue, Taker]:
    """A queue with so many messages that its consumer, which could take others, has rejected."""
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {}, Tick(), MemoryJournal())
    rejecter = Counting(count, "rejecter")
    queue.subscribe(rejecter, {})
    for number in range(count):
        queue.enqueue(message(str(number)))
    _run(queue)
    rejecter.credit = 1
    queue.requeue_excluding(rejecter.taken, "rejecter")
    return queue, rejecter


def _once(queue: ClassicQueue) -> bool:
    """One dispatch, as a tick has it; whether there has to be another one."""
    queue.dispatched()
    return queue.dispatch() or queue.is_due


def _run(queue: ClassicQueue) -> None:
    while _once(queue):
        pass


def test_a_consumer_that_comes_while_they_are_offered_is_offered_all() -> None:
    """What had been offered before it came is offered once more."""
    queue, _ = _rejected(DISPATCH_BURST_MESSAGES + 100)
    assert _once(queue)
    newcomer = Counting(DISPATCH_BURST_MESSAGES + 100, "newcomer")
    queue.subscribe(newcomer, {})
    _run(queue)
    assert queue.message_count == 0
    assert len(newcomer.bodies) == DISPATCH_BURST_MESSAGES + 100


def test_a_consumer_that_has_credit_again_while_they_are_offered_is_offered_all() -> None:
    """It may have acknowledged everything by the end of that, and never be heard of again."""
    queue, _ = _rejected(DISPATCH_BURST_MESSAGES + 100)
    other = Counting(10, "other")
    queue.subscribe(other, {})
    assert _once(queue)
    assert other.bodies == [str(number) for number in range(10)]
    other.credit = DISPATCH_BURST_MESSAGES + 100
    _run(queue)
    assert queue.message_count == 0


def test_what_is_rejected_while_they_are_offered_is_offered() -> None:
    """It goes in front, among those that were offered before; whoever had not rejected that one may have it."""
    queue, rejecter = _rejected(DISPATCH_BURST_MESSAGES + 100)
    other = Counting(1, "other")
    queue.subscribe(other, {})
    assert _once(queue)
    assert other.bodies == ["0"]
    queue.requeue_excluding(other.taken, "other")
    _run(queue)
    assert rejecter.bodies[-1] == "0"
    assert rejecter.credit == 0


def test_what_is_taken_out_moves_those_that_are_offered_next() -> None:
    """Of those that were not offered yet, none is left out; where somebody rejected no more, all are offered again."""
    withheld = Exclusions(lambda: None)
    entries = [Entry(message("m"), number) for number in range(10)]
    entries[1].expires_ms = entries[8].expires_ms = 5
    withheld.withhold(entries[:9], ("a",))
    withheld.withhold(entries[9:], ("a", "b"))
    withheld._offered = 5
    assert withheld.take_expired(5) == [entries[1], entries[8]]
    assert withheld._withheld[withheld._offered][0] is entries[5]
    assert withheld.take("b") is entries[0]
    assert withheld._withheld[withheld._offered][0] is entries[5]
    withheld.context_ended("b")
    assert withheld._offered == 0
