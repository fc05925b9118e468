"""Queues that are paused: they take what is published, and give nothing out."""

import pytest

from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import PAUSE, RESUME, Address, Message, MessageOptions
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.publish import STORED, TURNED_AWAY, UNDELIVERED, put, put_at_once
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.tick import EXPIRED, MAXLEN, Tick
from tests.unit.broker.memory import (
    HeaderCodec,
    MemoryDefinitions,
    MemoryJournal,
    MemoryStorage,
    MemoryStream,
    Taker,
    message,
    put_routed,
    run_due,
)


def make(**arguments: object) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", True, False, None, table, Tick(), journal), journal


def command(what: str, key: str = "q") -> Message:
    return Message(Address("", key), HeaderCodec(), b"", b"", MessageOptions(False, command=what), 0)


def say(queue: Queue, journal: MemoryJournal, what: str) -> int:
    return put([queue], command(what), journal)


@pytest.mark.parametrize("chooses", [False, True])
def test_nothing_goes_out(chooses: bool) -> None:
    """Neither to consumers nor to who asks, and nothing counts as delivered at once; all of it once resumed."""
    queue, journal = make(paused=True)
    taker = Taker()
    taker.is_filtered = chooses
    queue.subscribe(taker, {})
    put([queue], message("a"), journal)
    assert not queue.dispatch()
    assert queue.get() is None
    assert put_at_once([queue], message("b"), journal) == UNDELIVERED
    assert queue.message_count == 1
    assert say(queue, journal, RESUME) == STORED
    queue.dispatch()
    assert taker.bodies == ["a"]
    assert put_at_once([queue], message("c"), journal) != UNDELIVERED


def test_a_command_is_no_message() -> None:
    """Nothing of it is put on the queue; a second one of the same kind changes nothing."""
    queue, journal = make()
    for _ in range(2):
        assert say(queue, journal, PAUSE) == STORED
        assert queue.settings.paused
    assert queue.message_count == 0
    assert queue.arguments == {"x-paused": True}


def test_resuming_wakes_the_queue() -> None:
    """Consumers get what waited at the end of the tick, without anything else happening to the queue."""
    queue, journal = make(paused=True)
    taker = Taker()
    queue.subscribe(taker, {})
    put([queue], message("a"), journal)
    queue.tick.ready.clear()
    queue.dispatched()
    queue.configure({})
    assert queue.tick.ready == [queue]


def test_other_rules_go_on() -> None:
    """Time to live and limits work as ever."""
    queue, journal = make(paused=True, message_ttl=10, max_length=1, dead_letter_exchange="amq.fanout")
    for body in ("a", "b"):
        put([queue], message(body), journal)
    queue.tick.now_ms = 10
    run_due(queue.tick, 10)
    assert [letter.reason for letter in queue.tick.dead_letters] == [MAXLEN, EXPIRED]


def test_streams_are_not_paused() -> None:
    """A command is refused there, and not written to the log."""
    log = MemoryStream()
    queue = StreamQueue(1, "/", "s", {}, Tick(), log, MemoryDefinitions())
    assert say(queue, MemoryJournal(), PAUSE) == TURNED_AWAY
    assert log.messages == []


def started(storage: MemoryStorage) -> Broker:
    broker = Broker(storage)
    broker.recover(storage.definitions.load())
    return broker


def test_a_pause_survives() -> None:
    """A durable queue is after a restart as it was, whether declared or told so; an exclusive one is not kept."""
    storage = MemoryStorage()
    broker = Broker(storage)
    vhost = broker.add_vhost("/")
    for name, owner in (("q", None), ("declared", None), ("own", object())):
        arguments: dict[str, object] = {"x-paused": True} if name == "declared" else {}
        vhost.declare_queue(name, True, owner is not None, False, arguments, owner)
    for key, what in (("q", PAUSE), ("declared", RESUME), ("own", PAUSE)):
        put_routed(vhost, Route(Address("", key)), command(what, key))
    broker.dispatch()
    assert "own" not in storage.memory_definitions.queues
    again = started(storage).vhosts["/"]
    assert again.queues["q"].settings.paused
    assert not again.queues["declared"].settings.paused
    # Whoever declares it did not pause it, and finds it the same all the same.
    again.declare_queue("q", True, False, False, {}, None)


def test_a_queue_that_went_meanwhile_is_not_kept() -> None:
    """Told to pause and deleted in one tick: nothing of it comes back."""
    storage = MemoryStorage()
    broker = Broker(storage)
    vhost = broker.add_vhost("/")
    queue = vhost.declare_queue("q", True, False, False, {}, None)
    put_routed(vhost, Route(Address("", "q")), command(PAUSE))
    vhost.remove_queue(queue)
    broker.dispatch()
    assert storage.memory_definitions.queues == {}


def test_a_policy_goes_first() -> None:
    """It pauses and resumes queues that are there; while it speaks of that, arguments and commands do not count."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    queue = vhost.declare_queue("q", False, False, False, {}, None)
    broker.put_rule(PolicyRecord("/", "p", "^q$", {"paused": True}))
    assert queue.settings.paused
    put_routed(vhost, Route(Address("", "q")), command(RESUME))
    broker.dispatch()
    assert queue.settings.paused
    broker.delete_rule(PolicyRecord("/", "p", "^q$", {"paused": True}))
    assert not queue.settings.paused
    broker.put_rule(PolicyRecord("/", "o", "^q$", {"paused": True}, operator=True))
    assert queue.settings.paused
