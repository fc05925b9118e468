"""Message groups: one consumer at a time, in order, spread over consumers, and cheap however many there are."""

from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message


def make() -> ClassicQueue:
    arguments: dict[str, object] = {"x-group-header": "g"}
    return ClassicQueue(1, "/", "q", "classic", True, False, None, arguments, Tick(), MemoryJournal())


def fill(queue: ClassicQueue, *bodies: str) -> None:
    """The group of a message is the letter it begins with; "-" is none."""
    for body in bodies:
        queue.enqueue(message(body, headers="" if body[0] == "-" else f"g={body[0]}"))


def test_group_is_with_one_consumer_while_that_holds_some_of_it() -> None:
    """Others get other groups, and what is in none; the group is free again when all of it is settled."""
    queue = make()
    first, second = Taker(credit=2), Taker(credit=4)
    queue.subscribe(first, {})
    queue.subscribe(second, {})
    fill(queue, "a1", "a2", "b1", "a3", "b2", "-1")
    queue.dispatch()
    assert (first.bodies, second.bodies) == (["a1", "a2"], ["b1", "b2", "-1"])
    queue.settle(first.taken[0])
    queue.dispatch()
    assert second.bodies == ["b1", "b2", "-1"]
    queue.settle(first.taken[1])
    queue.dispatch()
    assert second.bodies == ["b1", "b2", "-1", "a3"]


def test_groups_are_spread() -> None:
    """New groups go to consumers in turn."""
    queue = make()
    takers = [Taker() for _ in range(4)]
    for taker in takers:
        queue.subscribe(taker, {})
    fill(queue, *[f"{chr(97 + number % 16)}{number}" for number in range(160)])
    queue.dispatch()
    assert [len({body[0] for body in taker.bodies}) for taker in takers] == [4, 4, 4, 4]
    assert sum(len(taker.bodies) for taker in takers) == 160


def test_what_came_back_goes_first_and_in_order() -> None:
    """A consumer that goes away gives its groups back; the next holder gets them from where they stood."""
    queue = make()
    first, second = Taker(credit=3), Taker()
    queue.subscribe(first, {})
    fill(queue, "a1", "a2", "a3", "a4")
    queue.dispatch()
    queue.unsubscribe(first)
    queue.subscribe(second, {})
    queue.dispatch()
    assert second.bodies == []
    queue.requeue([first.taken[2], first.taken[0], first.taken[1]])
    queue.dispatch()
    assert second.bodies == ["a1", "a2", "a3", "a4"]


def test_rejected_and_expired_entries_free_their_group() -> None:
    """Whatever way an entry leaves its consumer's hands, its group is free then."""
    queue = make()
    first, second = Taker(credit=1), Taker()
    queue.subscribe(first, {})
    queue.subscribe(second, {})
    fill(queue, "a1", "a2")
    queue.dispatch()
    assert second.bodies == []
    queue.reject(first.taken[0])
    queue.dispatch()
    assert second.bodies == ["a2"]


def test_get_respects_groups() -> None:
    """basic.get gets nothing of a group that a consumer holds, and a consumer nothing of what basic.get holds."""
    queue = make()
    taker = Taker(credit=1)
    queue.subscribe(taker, {})
    fill(queue, "a1", "a2", "b1")
    queue.dispatch()
    got = queue.get()
    assert got is not None
    assert got.message.body == b"b1"
    assert queue.get() is None
    assert queue.message_count == 1
    taker.credit = 5
    fill(queue, "b2")
    queue.dispatch()
    assert taker.bodies == ["a1", "a2"]
    queue.settle(got)
    queue.dispatch()
    assert taker.bodies == ["a1", "a2", "b2"]


def test_no_ack_consumers_hold_nothing() -> None:
    """Whoever settles at once has no group to itself."""
    queue = make()
    takers = [Taker(no_ack=True), Taker(no_ack=True)]
    for taker in takers:
        queue.subscribe(taker, {})
    fill(queue, "a1", "a2", "a3", "a4")
    queue.dispatch()
    assert [taker.bodies for taker in takers] == [["a1", "a3"], ["a2", "a4"]]


def test_many_groups() -> None:
    """Any number of groups may wait, at a cost that the time a test has would not do for if it grew with them; groups
    that are done are forgotten.
    """
    queue = make()
    for number in range(20_000):
        queue.enqueue(message(str(number), headers=f"g=k{number}"))
        queue.enqueue(message(str(number), headers=f"g=k{number}"))
    takers = [Taker(credit=1000) for _ in range(10)]
    for taker in takers:
        queue.subscribe(taker, {})
    delivered = 0
    while queue.message_count > 0:
        queue.dispatch()
        for taker in takers:
            delivered += len(taker.taken)
            for entry in taker.taken:
                queue.settle(entry)
            taker.credit = 1000
            taker.taken = []
    assert delivered == 40_000
    assert queue.groups is not None
    assert len(queue.groups) == 0
