"""Deliveries by tag, as they are settled one by one, together, and by transactions."""

from flintmq.broker.message import Entry
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from flintmq.gateway.amqp091.unacked import Delivery, Unacked
from tests.unit.broker.memory import MemoryJournal, message


def filled(count: int) -> tuple[Unacked, list[Delivery]]:
    queue = ClassicQueue(1, "/", "q", "classic", False, False, None, {}, Tick(), MemoryJournal())
    unacked = Unacked()
    deliveries = [Delivery(Entry(message("m"), number), queue, None, 1, 0) for number in range(count)]
    assert [unacked.add(delivery) for delivery in deliveries] == list(range(1, count + 1))
    return unacked, deliveries


def test_a_commit_drops_what_it_settles_and_nothing_else() -> None:
    """Wherever among the others it stands, and however many of these were settled and forgotten before."""
    unacked, deliveries = filled(5000)
    unacked.take(1500, True)
    unacked.drop_staged(deliveries[1502:1504])
    unacked.drop_staged(deliveries[1500:1502])
    unacked.drop_staged([])
    assert unacked.span == 5000 - 1504
    assert unacked.add(None) == 5001
    assert unacked.add(deliveries[0]) == 5002
    unacked.drop_staged([deliveries[0], deliveries[4000]])
    assert unacked.take_all() == deliveries[1504:4000] + deliveries[4001:]
    assert unacked.span == 0
