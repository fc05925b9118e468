"""Queues that take a message once, in virtual time."""

import pytest

from flintmq.base.limits import DEDUP_DEFAULT_ENTRIES
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import PERSISTENT, Address, Entry, Message
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.dedup import Dedup
from flintmq.broker.queue.publish import ROUTED, STORED, TURNED_AWAY, put
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.tick import Tick
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.broker.memory import HeaderCodec, MemoryJournal, MemoryStorage, got, message, purge, put_routed, run_due


def make(durable: bool = True, **arguments: object) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", durable, False, None, table, Tick(), journal), journal


def remembering(queue: ClassicQueue) -> Dedup:
    assert queue.dedup is not None
    return queue.dedup


def publish(queue: ClassicQueue, journal: MemoryJournal, headers: str, persistent: bool = True) -> bool:
    """Whether the queue took it."""
    before = queue.message_count + queue.held_count
    assert put([queue], message("m", persistent, headers), journal) in (ROUTED, STORED)
    return queue.message_count + queue.held_count > before


def consume(queue: ClassicQueue) -> Entry:
    entry = got(queue)
    assert entry is not None
    queue.settle(entry)
    return entry


def pass_time(queue: ClassicQueue, now_ms: int) -> None:
    queue.tick.now_ms = now_ms
    run_due(queue.tick, now_ms)


def notes(journal: MemoryJournal) -> list[bytes]:
    """What the journal would tell a restarted queue beside its messages."""
    return [body for (queue_id, _), body in sorted(journal.kept.items()) if queue_id < 0]


def restarted(queue: ClassicQueue, journal: MemoryJournal, now_ms: int = 0) -> ClassicQueue:
    """The same queue with what the journal has of it."""
    tick = Tick()
    tick.now_ms = now_ms
    again = ClassicQueue(1, "/", "q", "classic", True, False, None, queue.arguments, tick, journal)
    for (queue_id, seq), body in sorted(journal.kept.items()):
        note = Message(Address("", ""), HeaderCodec(), b"message_id=live" if queue_id > 0 else b"", body, PERSISTENT, 0)
        entry = Entry(note, seq)
        entry.segment = 1
        (Recovery(again) if queue_id > 0 else remembering(again)).restore(entry)
    Recovery(again).start_at(100)
    remembering(again).start_at(100)
    return again


def test_a_message_id_is_taken_once() -> None:
    """Also when the first one has left the queue; what has no id is never a duplicate."""
    queue, journal = make(dedup_window=1000)
    assert publish(queue, journal, "message_id=a")
    assert not publish(queue, journal, "message_id=a")
    consume(queue)
    assert not publish(queue, journal, "message_id=a")
    assert publish(queue, journal, "message_id=b")
    assert publish(queue, journal, "")
    assert publish(queue, journal, "")


def test_producers_count() -> None:
    """Up to the highest number of its producer a message is a duplicate, whatever its id; each has its own numbers."""
    queue, journal = make(dedup_size=10)
    for producer, seq, taken in (("p", 5, True), ("p", 5, False), ("p", 4, False), ("q", 4, True), ("p", 6, True)):
        assert publish(queue, journal, f"message_id=same;x-producer-id={producer};x-producer-seq={seq}") == taken


@pytest.mark.parametrize(
    "headers",
    [
        "x-producer-id=p",
        "x-producer-seq=5",
        "x-producer-id=p;x-producer-seq=-1",
        "x-producer-id=5;x-producer-seq=5",
        f"x-producer-id=p;x-producer-seq={2**63}",
        f"x-producer-id={'p' * 256};x-producer-seq=5",
    ],
)
def test_what_is_no_producer_or_number_does_not_count(headers: str) -> None:
    """It is the id that does then, if there is one."""
    queue, journal = make(dedup_size=10)
    assert [publish(queue, journal, headers) for _ in range(2)] == [True, True]
    assert [publish(queue, journal, f"message_id=a;{headers}") for _ in range(2)] == [True, False]


def test_time_passes() -> None:
    """An id is forgotten when its time is up, and a duplicate does not give it more; a producer when it is silent."""
    queue, journal = make(dedup_window=100)
    publish(queue, journal, "message_id=a")
    publish(queue, journal, "x-producer-id=p;x-producer-seq=1")
    consume(queue)
    pass_time(queue, 60)
    assert not publish(queue, journal, "message_id=a")
    assert publish(queue, journal, "x-producer-id=p;x-producer-seq=2")
    pass_time(queue, 99)
    assert len(notes(journal)) == 1
    pass_time(queue, 100)
    assert notes(journal) == []
    assert publish(queue, journal, "message_id=a")
    assert not publish(queue, journal, "x-producer-id=p;x-producer-seq=2")
    pass_time(queue, 160)
    assert len(remembering(queue)) == 1
    pass_time(queue, 1000)
    assert len(remembering(queue)) == 0
    assert queue.tick.timers.next_ms == 0


def test_there_is_room_for_so_many() -> None:
    """The longest known goes first; without a number there is a limit all the same."""
    queue, journal = make(dedup_size=2)
    for name in "abc":
        publish(queue, journal, f"message_id={name}")
        consume(queue)
    assert [note.split()[1] for note in notes(journal)] == [b"mb", b"mc"]
    assert publish(queue, journal, "message_id=a")
    queue, journal = make(dedup_window=10**9)
    for number in range(DEDUP_DEFAULT_ENTRIES + 10):
        remembering(queue).remember(message(headers=f"message_id={number}"), 0)
    assert len(remembering(queue)) == DEDUP_DEFAULT_ENTRIES


def test_notes_are_written_when_messages_leave() -> None:
    """As long as a message is on the queue, it is its own note; of a producer the newest message or note says all."""
    queue, journal = make(dedup_size=10)
    for seq in (1, 2):
        publish(queue, journal, f"x-producer-id=p;x-producer-seq={seq}")
    assert notes(journal) == []
    consume(queue)
    assert notes(journal) == []
    consume(queue)
    assert notes(journal) == [b"2 pp"]
    publish(queue, journal, "x-producer-id=p;x-producer-seq=3")
    assert notes(journal) == []
    consume(queue)
    assert notes(journal) == [b"3 pp"]


def test_it_survives() -> None:
    """After a restart the ids of what is there and of what was there are known, for the rest of their time."""
    queue, journal = make(dedup_window=100)
    for headers in ("message_id=gone", "x-producer-id=p q;x-producer-seq=7", "message_id=live"):
        queue.tick.now_ms += 10
        publish(queue, journal, headers)
    consume(queue)
    consume(queue)
    again = restarted(queue, journal, 50)
    assert not publish(again, journal, "message_id=gone")
    assert not publish(again, journal, "message_id=live")
    assert not publish(again, journal, "x-producer-id=p q;x-producer-seq=7")
    assert publish(again, journal, "x-producer-id=p q;x-producer-seq=8")
    pass_time(again, 110)
    assert publish(again, journal, "message_id=gone")


def stored(body: bytes, properties: bytes, seq: int, timestamp_ms: int) -> Entry:
    entry = Entry(Message(Address("", ""), HeaderCodec(), properties, body, PERSISTENT, timestamp_ms), seq)
    entry.segment = 1
    return entry


def test_restart_forgets_the_longest_known() -> None:
    """Whichever the journal tells of first: notes of what was settled, or messages that consumers had for long."""
    queue, journal = make(dedup_size=2)
    dedup = remembering(queue)
    for seq in (2, 3):
        journal.kept[-1, seq] = b"0 m" + str(seq).encode()
        dedup.restore(stored(journal.kept[-1, seq], b"", seq, 102 + seq))
    for seq in (0, 1):
        journal.kept[1, seq] = b"m"
        Recovery(queue).restore(stored(b"m", f"message_id={seq}".encode(), seq, 100 + seq))
    dedup.start_at(10)
    Recovery(queue).start_at(10)
    assert notes(journal) == [b"0 m2", b"0 m3"]
    assert not publish(queue, journal, "message_id=2")
    assert not publish(queue, journal, "message_id=3")
    assert publish(queue, journal, "message_id=0")


def test_restart_begins_with_what_is_remembered() -> None:
    """A queue that lets go of entries when it starts takes notes of them: under numbers that no note has."""
    broker = Broker(MemoryStorage())
    queue = broker.add_vhost("/").declare_queue("q", True, False, False, {"x-dedup-size": 2}, None)
    found = Broker(MemoryStorage()).restore(broker.storage.definitions.load())
    assert list(found) == [-queue.id, queue.id]


def test_two_notes_of_one_producer_are_one() -> None:
    """A crash may leave a note beside the one that replaced it: the older goes."""
    queue, journal = make(dedup_size=10)
    for seq, body in enumerate([b"1 pp", b"3 pp", b"2 pp"]):
        journal.kept[-1, seq] = body
    again = restarted(queue, journal)
    assert notes(journal) == [b"3 pp"]
    assert not publish(again, journal, "x-producer-id=p;x-producer-seq=3")
    assert publish(again, journal, "x-producer-id=p;x-producer-seq=4")
    assert notes(journal) == []


def test_what_was_not_stored_is_not_confirmed_as_stored() -> None:
    """A persistent message is no duplicate of a transient one, which a crash may have taken."""
    queue, journal = make(dedup_size=10)
    for headers in ("message_id=a", "x-producer-id=p;x-producer-seq=1"):
        assert publish(queue, journal, headers, persistent=False)
        assert not publish(queue, journal, headers, persistent=False)
        assert publish(queue, journal, headers)
        assert not publish(queue, journal, headers)
        assert not publish(queue, journal, headers, persistent=False)


def test_without_durability_it_is_memory() -> None:
    """A queue that does not survive remembers as well, and writes nothing."""
    queue, journal = make(durable=False, dedup_size=10)
    assert publish(queue, journal, "message_id=a")
    assert not publish(queue, journal, "message_id=a")
    consume(queue)
    assert not publish(queue, journal, "message_id=a")
    assert journal.kept == {}


def test_what_is_refused_is_not_remembered() -> None:
    """A full queue does not take a message, and takes it when it comes again; a duplicate is confirmed even then."""
    queue, journal = make(dedup_size=10, max_length=1, overflow="reject-publish")
    put([queue], message("a", True, "message_id=a"), journal)
    assert put([queue], message("b", True, "message_id=b"), journal) == TURNED_AWAY
    assert put([queue], message("a", True, "message_id=a"), journal) == STORED
    consume(queue)
    assert publish(queue, journal, "message_id=b")


def test_a_cancelled_message_may_come_again() -> None:
    """What was taken back before its time was never delivered."""
    queue, journal = make(dedup_size=10)
    assert publish(queue, journal, "message_id=a;delay=100")
    assert not publish(queue, journal, "message_id=a;delay=50")
    put([queue], message("", False, "cancel=a"), journal)
    assert publish(queue, journal, "message_id=a")


def test_replaced_messages_are_remembered() -> None:
    """On a last-value queue, too: what a newer one replaced is not taken once more."""
    queue, journal = make(dedup_size=10, last_value_key="k")
    publish(queue, journal, "message_id=a;k=1")
    publish(queue, journal, "message_id=b;k=1")
    assert not publish(queue, journal, "message_id=a;k=1")
    publish(queue, journal, "message_id=c")
    assert notes(journal) == [b"0 ma"]


@pytest.mark.parametrize("end", ["purge", "delete", "policy"])
def test_memory_is_let_go_of(end: str) -> None:
    """Purging, deleting and no longer asking for it forget everything, the journal included."""
    queue, journal = make(dedup_window=1000)
    for name in "abc":
        publish(queue, journal, f"message_id={name}")
    consume(queue)
    if end == "purge":
        purge(queue)
        assert len(remembering(queue)) == 0
        assert publish(queue, journal, "message_id=a")
        purge(queue)
    elif end == "delete":
        held = got(queue)
        assert held is not None
        queue.delete()
        queue.settle(held)
    else:
        queue.configure({})
        assert publish(queue, journal, "message_id=a")
        purge(queue)
    assert journal.kept == {}
    assert queue.tick.timers.next_ms == 0


def test_a_policy_begins_with_what_is_there() -> None:
    """The messages on the queue are known from the first moment; later ones under the policy's bounds."""
    storage = MemoryStorage()
    broker = Broker(storage)
    vhost = broker.add_vhost("/")
    queue = vhost.declare_queue("q", True, False, False, {}, None)
    assert isinstance(queue, ClassicQueue)
    publish(queue, storage.memory_journal, "message_id=a")
    broker.put_rule(PolicyRecord("/", "p", "^q$", {"dedup-window": 100, "dedup-size": 2}))
    assert not publish(queue, storage.memory_journal, "message_id=a")
    broker.put_rule(PolicyRecord("/", "p", "^q$", {"dedup-window": 200}))
    broker.tick.timers.run(150)
    assert not publish(queue, storage.memory_journal, "message_id=a")
    consume(queue)
    again = Broker(storage)
    assert again.recover(storage.definitions.load()) == 0


def published(broker: Broker, message_id: str, queue: str = "q") -> None:
    encoded = encode_properties(Properties(message_id=message_id, delivery_mode=2))
    sent = Message(Address("", queue), CODEC_091, encoded, b"", CODEC_091.options(encoded), broker.now_ms)
    put_routed(broker.vhosts["/"], Route(sent.address), sent)


def test_dead_letters() -> None:
    """A dead letter is a duplicate of what its queue has seen; one that comes back to where it was is none."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    dead = {"x-dedup-size": 10, "x-dead-letter-exchange": ""}
    queue = vhost.declare_queue("q", True, False, False, {**dead, "x-dead-letter-routing-key": "dead"}, None)
    graves = vhost.declare_queue("dead", True, False, False, {**dead, "x-dead-letter-routing-key": "q"}, None)
    published(broker, "a")
    for there, other in ((queue, graves), (graves, queue), (queue, graves)):
        entry = got(there)
        assert entry is not None
        there.reject(entry)
        broker.dispatch()
        assert (there.message_count, other.message_count) == (0, 1)
    published(broker, "a")
    assert queue.message_count == 0
    vhost.declare_queue("other", True, False, False, {**dead, "x-dead-letter-routing-key": "dead"}, None)
    published(broker, "a", queue="other")
    other = vhost.queues["other"]
    entry = got(other)
    assert entry is not None
    other.reject(entry)
    broker.dispatch()
    assert graves.message_count == 1
    assert entry.segment == 0
