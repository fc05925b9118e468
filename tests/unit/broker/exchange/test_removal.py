"""Deletion of a queue or an exchange with many bindings: they are gone at once, and exchanges forget them in steps."""

from contextlib import suppress
from itertools import count, pairwise

import pytest

from flintmq.base.errors import NotFound, PreconditionFailed
from flintmq.base.limits import STEP_UNITS
from flintmq.base.work import WORK
from flintmq.broker.broker import Broker
from flintmq.broker.dialect import STRICT
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address
from flintmq.broker.queue.base import Queue
from tests.unit.broker.memory import MemoryStorage, message

# Removing a binding takes four units.
PER_TICK = STEP_UNITS // 4
COUNT = 3 * PER_TICK
MATCHING = ["amq.direct", "amq.fanout", "amq.topic", "amq.headers"]
PICKING = ["x-consistent-hash", "x-modulus-hash", "x-random"]


class World:
    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.vhost = self.broker.add_vhost("/")
        self.exchanges = self.vhost.exchanges

    def queue(self, name: str) -> Queue:
        return self.vhost.declare_queue(name, True, False, False, {}, None)

    def bind(self, queue: Queue, source: str, count: int = COUNT) -> None:
        for number in range(count):
            self.exchanges.bind_queue(queue, source, f"k.{number}", {"h": number})

    def reached(self, source: str, number: int = 7) -> list[Queue]:
        """The queues of a message that one of the bindings matches."""
        route = Route(Address(source, f"k.{number}"))
        return self.vhost.queues_of(route, message(headers=f"h={number}"), None)

    def finish(self) -> None:
        while self.broker.dispatch():
            pass
        assert not self.broker.tick.steps
        assert not self.vhost.router.has_stale
        # Nothing is remembered of queues and exchanges that are gone.
        assert not [each for each in self.exchanges.bindings._sources if each.gone]


def test_bindings_are_forgotten_in_several_ticks() -> None:
    """However many bindings lead to a deleted queue, each tick removes some, and none is left in the end."""
    world = World()
    source = world.exchanges.find("amq.fanout")
    world.bind(world.queue("q"), "amq.fanout")
    world.vhost.remove_queue(world.vhost.queues["q"])
    matched = [len(source.match([""], None))]
    while world.broker.dispatch():
        matched.append(len(source.match([""], None)))
    matched.append(len(source.match([""], None)))
    assert len(matched) > 3
    assert max(before - after for before, after in pairwise(matched)) <= PER_TICK
    assert matched[-1] == 0
    world.finish()


@pytest.mark.parametrize("source", ["amq.direct", "amq.fanout", "amq.topic"])
def test_passing_over_them_is_work(source: str) -> None:
    """A message is compared with all bindings until the exchange has forgotten them, and pays for that."""
    world = World()
    queue = world.queue("q")
    for number in range(COUNT):
        world.exchanges.bind_queue(queue, source, "k.7", {"h": number})
    before = WORK.spent
    world.reached(source)
    cost = WORK.spent - before
    assert cost > COUNT // 16
    world.vhost.remove_queue(queue)
    before = WORK.spent
    world.reached(source)
    assert WORK.spent - before == cost
    world.finish()
    before = WORK.spent
    world.reached(source)
    assert WORK.spent - before == 0


@pytest.mark.parametrize("source", ["amq.headers", "amq.direct"])
def test_the_work_that_bindings_may_ask_for(source: str) -> None:
    """A queue that is made again has all of it at once, however much the deleted one had asked for."""
    world = World()
    asked = {"x-match": "all", **{f"h{number}": number for number in range(500)}}
    if source == "amq.direct":
        asked = {"x-selector": " AND ".join(f"h{number} = {number}" for number in range(80))}
    taken = 0
    queue = world.queue("q")
    with suppress(PreconditionFailed):
        for taken in count():
            world.exchanges.bind_queue(queue, source, "k", {**asked, "n": taken})
    assert taken > 0
    world.vhost.remove_queue(queue)
    again = world.queue("q")
    for number in range(taken):
        world.exchanges.bind_queue(again, source, "k", {**asked, "n": number})
    world.finish()
    with pytest.raises(PreconditionFailed):
        world.exchanges.bind_queue(again, source, "k", {**asked, "n": taken})


@pytest.mark.parametrize("source", MATCHING)
def test_they_are_gone_at_once(source: str) -> None:
    """Nobody finds a binding of a deleted queue, and no message is routed by it, before exchanges have forgotten it."""
    world = World()
    world.bind(world.queue("q"), source)
    assert [queue.name for queue in world.reached(source)] == ["q"]
    world.vhost.remove_queue(world.vhost.queues["q"])
    exchange = world.exchanges.find(source)
    assert world.reached(source) == []
    assert (exchange.binding_count, list(exchange.each_binding()), len(exchange.bindings)) == (0, [], 0)
    assert world.storage.memory_definitions.bindings == []
    world.finish()
    assert world.reached(source) == []


@pytest.mark.parametrize("source", MATCHING)
def test_another_queue_of_the_same_name(source: str) -> None:
    """A queue that is made meanwhile has the bindings that it is given, and keeps them."""
    world = World()
    world.bind(world.queue("q"), source)
    world.vhost.remove_queue(world.vhost.queues["q"])
    again = world.queue("q")
    assert world.reached(source) == []
    world.bind(again, source, 10)
    other = world.queue("other")
    world.exchanges.bind_queue(other, source, "k.8", {"h": 8})
    for _ in range(2):
        assert world.reached(source) == ([again, other] if source == "amq.fanout" else [again])
        assert set(world.reached(source, 8)) == {again, other}
        assert world.exchanges.find(source).binding_count == len(world.storage.memory_definitions.bindings) == 11
        world.finish()


def test_a_binding_of_the_deleted_queue_cannot_be_removed() -> None:
    """unbind of a queue that was made again finds none of the old bindings, and removes its own."""
    world = World()
    world.vhost.dialect = world.exchanges.dialect = STRICT
    world.bind(world.queue("q"), "amq.direct")
    world.vhost.remove_queue(world.vhost.queues["q"])
    again = world.queue("q")
    with pytest.raises(NotFound):
        world.exchanges.unbind_queue(again, "amq.direct", "k.7", {"h": 7})
    world.bind(again, "amq.direct", 10)
    world.exchanges.unbind_queue(again, "amq.direct", "k.7", {"h": 7})
    world.finish()
    assert world.reached("amq.direct", 8) == [again]
    assert world.reached("amq.direct") == []


@pytest.mark.parametrize("kind", PICKING)
def test_an_exchange_that_picks_one(kind: str) -> None:
    """It never picks a binding to a deleted queue: each message goes to another one."""
    world = World()
    world.exchanges.declare("x", kind, True, False, False, {})
    queue, other = world.queue("q"), world.queue("other")
    for weight in range(1, 300):
        world.exchanges.bind_queue(queue, "x", str(weight), {})
    world.exchanges.bind_queue(other, "x", "1", {})
    world.vhost.remove_queue(queue)
    assert [world.reached("x", number) for number in range(50)] == [[other]] * 50
    world.finish()


def test_an_auto_delete_exchange() -> None:
    """It is deleted at once with the queue that all its bindings led to, and with an exchange."""
    world = World()
    for name in ("a", "b"):
        world.exchanges.declare(name, "direct", True, True, False, {})
    world.exchanges.bind_exchange("b", "a", "k.7", {})
    world.bind(world.queue("q"), "b")
    world.vhost.remove_queue(world.vhost.queues["q"])
    assert not {"a", "b"} & set(world.exchanges.by_name)
    world.finish()


def test_a_deleted_exchange() -> None:
    """Its bindings are gone at once at both ends, in whichever order the ends go, and a new one has none of them."""
    world = World()
    world.exchanges.declare("x", "direct", True, False, False, {})
    queues = [world.queue(f"q{number}") for number in range(4)]
    for queue in queues:
        world.bind(queue, "x", PER_TICK)
    world.exchanges.bind_exchange("x", "amq.fanout", "", {})
    assert world.reached("amq.fanout") == queues
    world.exchanges.delete("x", False)
    assert world.reached("amq.fanout") == []
    assert world.exchanges.bindings.to(queues[0]) == []
    world.vhost.remove_queue(queues[0])
    world.exchanges.declare("x", "direct", True, False, False, {})
    assert world.reached("x") == []
    world.exchanges.bind_queue(queues[1], "x", "k.7", {})
    world.broker.dispatch()
    world.vhost.remove_queue(queues[2])
    world.finish()
    assert world.reached("x") == [queues[1]]
    assert len(world.exchanges.bindings.to(queues[1])) == 1
    world.vhost.remove_queue(queues[1])
    assert world.exchanges.find("x").binding_count == 0
    world.finish()
