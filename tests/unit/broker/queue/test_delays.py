"""Messages a queue holds back, and how they are taken back, in virtual time."""

from flintmq.base.limits import DUE_STEP_MESSAGES
from flintmq.broker.message import TRANSIENT, Address, Entry, Message
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.delays import Delays
from flintmq.broker.queue.publish import ROUTED, STORED, TURNED_AWAY, put
from flintmq.broker.tick import Tick
from flintmq.broker.timers import NEVER, Timers
from tests.unit.broker.memory import HeaderCodec, MemoryJournal, message, purge, run_due


def make() -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    return ClassicQueue(1, "/", "q", "classic", True, False, None, {}, Tick(), journal), journal


def publish(queue: ClassicQueue, headers: str, body: str = "m") -> int:
    return put([queue], message(body, True, headers), queue.journal)


def pass_time(queue: ClassicQueue, now_ms: int) -> None:
    queue.tick.now_ms = now_ms
    run_due(queue.tick, now_ms)


def test_held_until_due() -> None:
    """A delayed message is counted as held, then as ready."""
    queue, _ = make()
    publish(queue, "delay=50")
    assert (queue.message_count, queue.held_count) == (0, 1)
    pass_time(queue, 49)
    assert queue.get() is None
    pass_time(queue, 50)
    assert (queue.message_count, queue.held_count) == (1, 0)


def test_cancelled_ones_never_come() -> None:
    """A command takes out all of its message-id, for good, and is itself on no queue and in no journal."""
    queue, journal = make()
    for name in ("a", "b", "a"):
        publish(queue, f"delay=50;message_id={name}", name)
    appended = len(journal.appends)
    assert publish(queue, "cancel=a") == STORED
    assert len(journal.appends) == appended
    assert list(journal.kept.values()) == [b"b"]
    assert queue.held_count == 1
    publish(queue, "delay=60;message_id=c", "c")
    assert publish(queue, "cancel=c") == STORED
    pass_time(queue, 100)
    assert queue.message_count == 1
    assert publish(queue, "cancel=b") == TURNED_AWAY


def test_there_may_be_nothing_to_cancel() -> None:
    """The publisher hears that nothing was taken back, on queues that never held anything as well."""
    queue, _ = make()
    assert publish(queue, "cancel=a") == TURNED_AWAY
    assert queue.message_count == 0


def test_a_named_user_s_message_is_that_user_s() -> None:
    """Who published with a user-id is the only one to take back; without, whoever may publish is."""
    queue, _ = make()
    publish(queue, "delay=50;message_id=a;user_id=ann")
    assert publish(queue, "cancel=a") == TURNED_AWAY
    assert publish(queue, "cancel=a;user_id=bob") == TURNED_AWAY
    assert publish(queue, "cancel=a;user_id=ann") == STORED


def test_purge_and_delete_include_what_is_held() -> None:
    """Both count it, and neither leaves it in the journal."""
    queue, journal = make()
    publish(queue, "delay=50")
    publish(queue, "")
    assert purge(queue) == 2
    assert not journal.kept
    publish(queue, "delay=50")
    assert queue.delete() == 1
    assert not journal.kept
    pass_time(queue, 100)
    assert queue.message_count == 0


def test_cancels_reach_every_queue_of_a_fan_out() -> None:
    """Of several queues each takes back its own copy; the answer is a no where none had one."""
    first, _ = make()
    second, _ = make()
    queues = [first, second]
    put(list(queues), message("m", False, "delay=50;message_id=a"), first.journal)
    assert put(list(queues), message("", False, "cancel=a"), first.journal) == STORED
    assert [queue.held_count for queue in queues] == [0, 0]
    for queue in queues:
        assert put([queue], message("m", False, "delay=50;message_id=b"), first.journal) == ROUTED
        assert put(list(queues), message("", False, "cancel=b"), first.journal) == STORED
        assert queue.held_count == 0
    assert put(list(queues), message("", False, "cancel=b"), first.journal) == TURNED_AWAY


def test_what_is_cancelled_is_let_go() -> None:
    """Cancelled entries do not fill memory until their time would have come."""
    delays = Delays(Timers(), lambda _: None)
    for number in range(5000):
        delays.hold(Entry(message("m", False, f"message_id=n{number}"), number), 10_000)
    for number in range(4999):
        assert len(delays.cancel(message("", False, f"cancel=n{number}"))) == 1
    assert len(delays) == 1
    assert len(delays._heap) < 2500


def test_some_of_those_that_are_due_at_once() -> None:
    """In a tick, so many entries become due, in order; the others follow from the next millisecond on."""
    due: list[Entry] = []
    timers = Timers()
    delays = Delays(timers, due.append)
    for number in range(3 * DUE_STEP_MESSAGES):
        delays.hold(Entry(message("m", False), number), 10)
    for turn in (1, 2, 3):
        timers.run(9 + turn)
        assert [entry.seq for entry in due] == list(range(turn * DUE_STEP_MESSAGES))
    assert timers.next_ms == NEVER


class CountingCodec(HeaderCodec):
    def __init__(self) -> None:
        self.reads = 0

    def property_text(self, properties: bytes, name: str) -> str:
        self.reads += 1
        return super().property_text(properties, name)


def test_what_has_one_name_is_looked_at_once() -> None:
    """However many have the same message-id, cancelling, due times, and vain tries to cancel take a look at each."""
    codec = CountingCodec()
    due: list[Entry] = []
    delays = Delays(Timers(), due.append)

    def hold(count: int, headers: str) -> None:
        for number in range(count):
            entry = Entry(Message(Address("", "q"), codec, headers.encode(), b"m", TRANSIENT, 0), number)
            delays.hold(entry, 10)

    hold(1000, "message_id=a")
    assert len(delays.cancel(message("", False, "cancel=a"))) == 1000
    hold(1000, "message_id=a;user_id=ann")
    for _ in range(1000):
        assert delays.cancel(message("", False, "cancel=a;user_id=bob")) == []
    while delays:
        delays.on_due(10)
    assert (len(due), len(delays)) == (1000, 0)
    assert delays.cancel(message("", False, "cancel=a;user_id=ann")) == []
    assert codec.reads <= 8000
