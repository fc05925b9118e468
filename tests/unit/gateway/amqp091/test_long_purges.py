"""A client purges a long queue: ticks drop the messages, and the answer comes when the last of them is gone."""

import pytest

from flintmq.base.limits import STEP_UNITS
from flintmq.wire.amqp091.methods import QueueDeclare, QueueDeclareOk, QueuePurge, QueuePurgeOk
from tests.unit.gateway.amqp091.test_expired import COUNT, Asking


@pytest.fixture
def asking() -> Asking:
    """A client of a queue with many messages, none of which has expired."""
    made = Asking()
    made.server.broker.now_ms -= 10_000
    return made


def test_the_answer_comes_at_the_end(asking: Asking) -> None:
    """It says how many there were. The client's next method waits, and others do not."""
    asking.send(QueuePurge(queue="q"), QueueDeclare(queue="next"))
    assert COUNT > asking.queue.message_count > 0
    assert asking.server.vhost.queues.keys() == {"q"}
    while asking.queue.message_count > 0:
        assert asking.came() == []
        asking.tick()
    asking.client.durable()
    answers = asking.came()
    assert answers[0] == QueuePurgeOk(message_count=COUNT)
    assert [type(answer) for answer in answers[1:]] == [QueueDeclareOk]


def test_no_answer_is_wanted(asking: Asking) -> None:
    """With no-wait, the next method waits all the same."""
    asking.send(QueuePurge(queue="q", no_wait=True), QueueDeclare(queue="q", passive=True))
    asking.counts()
    assert asking.came() == [QueueDeclareOk(queue="q", message_count=0)]


def test_the_client_goes_meanwhile(asking: Asking) -> None:
    """What it asked for is done."""
    asking.send(QueuePurge(queue="q"))
    asking.client.connection.engine.lost(None)
    asking.counts()
    assert asking.queue.message_count == 0
    assert not asking.server.broker.tick.steps


def test_a_fault_of_the_broker() -> None:
    """Messages that cannot be read are 541, as when the first step finds them."""
    asking = Asking(with_pages=True)
    asking.server.broker.now_ms -= 10_000
    asking.put(*["more"] * 20 * STEP_UNITS)
    asking.send(QueuePurge(queue="q"))
    assert asking.queue.message_count > 0
    assert asking.code_after_damage() == 541
