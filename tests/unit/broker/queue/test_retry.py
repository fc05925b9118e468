"""Pauses before a message is tried again, in virtual time."""

import pytest

from flintmq.broker.message import Entry, Table
from flintmq.broker.queue.capacity import has_room
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.publish import put
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.queue.retry import pause_ms
from flintmq.broker.queue.settings import QueueSettings
from flintmq.broker.tick import DELIVERY_LIMIT, EXPIRED, Tick
from tests.unit.broker.memory import MemoryJournal, Taker, message, purge, run_due


def make(**arguments: object) -> tuple[ClassicQueue, MemoryJournal]:
    journal = MemoryJournal()
    table: Table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return ClassicQueue(1, "/", "q", "classic", True, False, None, table, Tick(), journal), journal


def put_one(queue: ClassicQueue, journal: MemoryJournal, headers: str = "") -> Entry:
    put([queue], message("m", True, headers), journal)
    entry = queue.get()
    assert entry is not None
    return entry


def pass_time(queue: ClassicQueue, now_ms: int) -> None:
    queue.tick.now_ms = now_ms
    run_due(queue.tick, now_ms)


@pytest.mark.parametrize(
    ("settings", "pauses"),
    [
        ({}, [1000, 2000, 3000, 4000]),
        ({"min": 100}, [100, 200, 300, 400]),
        ({"min": 100, "max": 250}, [100, 200, 250, 250]),
        ({"min": 100, "multiplier": 1}, [100, 100, 100, 100]),
        ({"min": 100, "multiplier": 3, "max": 1000}, [100, 300, 900, 1000]),
        ({"min": 100, "multiplier": 1_000_000}, [100, 100_000_000, 2**32 - 1, 2**32 - 1]),
        ({"min": 0}, [0, 0, 0, 0]),
        ({"min": 10**11, "max": 3 * 10**11}, [10**11, 2 * 10**11, 3 * 10**11, 3 * 10**11]),
        ({"min": 300, "max": 200}, [200, 200, 200, 200]),
    ],
)
def test_pauses_grow(settings: dict[str, int], pauses: list[int]) -> None:
    """Linearly, or by a multiplier; never beyond the greatest."""
    table: Table = {f"x-delayed-retry-{name}": value for name, value in settings.items()}
    found = QueueSettings(table, "classic")
    assert [pause_ms(found, returns) for returns in (1, 2, 3, 4)] == pauses
    assert pauses[-1] <= pause_ms(found, 2**31 - 1) <= 3 * 10**11


@pytest.mark.parametrize(
    ("kind", "failed", "returned"),
    [
        (None, False, False),
        ("disabled", False, False),
        ("all", True, True),
        ("failed", True, False),
        ("returned", False, True),
    ],
)
def test_what_is_paused(kind: str | None, failed: bool, returned: bool) -> None:
    """A type says whether what consumers reject pauses, or what comes back for other reasons, or both."""
    queue, journal = make(**({} if kind is None else {"delayed_retry_type": kind}))
    queue.fail([put_one(queue, journal)])
    assert queue.held_count == failed
    purge(queue)
    queue.requeue([put_one(queue, journal)])
    assert queue.held_count == returned


def test_it_comes_back_to_its_place() -> None:
    """After the pause, and before what is younger; flagged as redelivered; the next pause is longer."""
    queue, journal = make(delayed_retry_type="failed", delayed_retry_min=100)
    entry = put_one(queue, journal)
    put([queue], message("younger"), journal)
    queue.fail([entry])
    taker = Taker(credit=1)
    pass_time(queue, 99)
    assert queue.message_count == 1
    pass_time(queue, 100)
    queue.subscribe(taker, {})
    queue.dispatch()
    assert taker.taken == [entry]
    assert entry.redelivered
    queue.fail([entry])
    pass_time(queue, 299)
    assert queue.held_count == 1
    pass_time(queue, 300)
    assert queue.held_count == 0


def test_the_last_try_is_dead_lettered() -> None:
    """With a delivery limit there is an end: at once, without a last pause."""
    queue, journal = make(
        delayed_retry_type="all", delayed_retry_min=10, delivery_limit=1, dead_letter_exchange="amq.fanout"
    )
    entry = put_one(queue, journal)
    queue.fail([entry])
    pass_time(queue, 10)
    assert queue.get() is entry
    queue.fail([entry])
    assert [letter.reason for letter in queue.tick.dead_letters] == [DELIVERY_LIMIT]
    assert queue.held_count == 0


def test_expiry_ends_a_pause() -> None:
    """A time to live goes on while a message is held for its next try."""
    queue, journal = make(delayed_retry_type="all", delayed_retry_min=1000, dead_letter_exchange="amq.fanout")
    queue.fail([put_one(queue, journal, "ttl=50")])
    pass_time(queue, 49)
    assert not queue.tick.dead_letters
    pass_time(queue, 50)
    assert [letter.reason for letter in queue.tick.dead_letters] == [EXPIRED]


def test_pauses_survive() -> None:
    """How often a message came back is written down, and after a restart its pause begins anew."""
    queue, journal = make(delayed_retry_type="all", delayed_retry_min=100)
    entry = put_one(queue, journal)
    queue.fail([entry])
    assert journal.returns == {(1, 0): 1}
    found = Entry(entry.message, 0)
    found.returns = 2
    again, _ = make(delayed_retry_type="all", delayed_retry_min=100)
    Recovery(again).restore_all([found])
    pass_time(again, 199)
    assert again.message_count == 0
    pass_time(again, 200)
    assert again.get() is found


def test_bytes_are_those_that_are_ready() -> None:
    """A limit of bytes counts what is held for another try only once it is back."""
    queue, journal = make(
        delayed_retry_type="all", delayed_retry_min=100, max_length_bytes=1, overflow="reject-publish"
    )
    entry = put_one(queue, journal)
    queue.fail([entry])
    assert has_room(queue, [message("m")])
    pass_time(queue, 100)
    assert not has_room(queue, [message("m")])
