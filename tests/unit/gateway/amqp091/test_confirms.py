"""Confirms: in order, once what they speak of is safe, and nacks for what a queue did not take."""

import pytest

from flintmq.wire.amqp091.methods import BasicNack, ConfirmSelect, Method, QueueDeclare, QueueDeclareOk, QueueDelete
from tests.unit.gateway.amqp091.pair import TRANSIENT, Client, ClientChannel, Server

DURABLE_Q = QueueDeclare(queue="q", durable=True)


def refusing(name: str = "s", length: int = 1) -> QueueDeclare:
    arguments = {"x-max-length": length, "x-overflow": "reject-publish"}
    return QueueDeclare(queue=name, durable=True, arguments=arguments)


def confirming(server: Server, *queues: Method) -> tuple[Client, ClientChannel]:
    client = Client(server)
    channel = client.channel()
    channel.call(ConfirmSelect(), *queues)
    return client, channel


def nacks(methods: list[Method]) -> list[tuple[int, bool]]:
    return [(method.delivery_tag, method.multiple) for method in methods if isinstance(method, BasicNack)]


def test_full_queue_nacks_what_it_refused() -> None:
    """Each refused publish is nacked alone; those before and behind it are confirmed together."""
    _, channel = confirming(Server(), DURABLE_Q, refusing())
    for key in ("q", "s", "q", "s", "s", "q", "q"):
        channel.publish("m", key)
    assert nacks(channel.call()) == [(4, False), (5, False)]
    assert channel.acks == [(3, True), (7, True)]


def test_refused_first_and_last() -> None:
    """Nothing is confirmed around refused publishes where there is nothing."""
    _, channel = confirming(Server(), refusing(length=0))
    channel.publish("m", "s")
    channel.publish("m", "s", properties=TRANSIENT)
    assert nacks(channel.call()) == [(1, False), (2, False)]
    assert channel.acks == []


def test_refusals_wait_behind_confirms() -> None:
    """A nack does not overtake the confirm of an earlier publish that waits for the disk."""
    client, channel = confirming(Server(), DURABLE_Q, refusing(length=0))
    channel.publish("m", "q")
    client.tick()
    channel.publish("m", "s")
    client.tick()
    assert (channel.acks, nacks(channel.came())) == ([], [])
    client.durable()
    assert (channel.acks, nacks(channel.came())) == ([(1, False)], [(2, False)])


def test_batches_that_become_durable_at_once_keep_all_their_promises() -> None:
    """Neither replies nor nacks of a batch are lost when the next one is durable with it."""
    client, channel = confirming(Server(), DURABLE_Q, refusing(length=0))
    channel.send(QueueDeclare(queue="r", durable=True))
    client.tick()
    channel.publish("m", "q")
    channel.publish("m", "s")
    client.tick()
    channel.publish("m", "q")
    client.tick()
    channel.publish("m", "q")
    client.tick()
    client.durable()
    declared, nack = channel.came()
    assert isinstance(declared, QueueDeclareOk)
    assert nacks([nack]) == [(2, False)]
    assert channel.acks == [(1, False), (4, True)]


def test_one_full_queue_of_many_is_a_refusal() -> None:
    """A message is nacked when one of its queues refused it, although others took it (RabbitMQ)."""
    server = Server()
    _, channel = confirming(server, DURABLE_Q, refusing(length=0))
    vhost = server.vhost
    for name in ("q", "s"):
        vhost.exchanges.bind_queue(vhost.queues[name], "amq.fanout", "", {})
    channel.publish("m", exchange="amq.fanout")
    assert nacks(channel.call()) == [(1, False)]
    assert vhost.queues["q"].message_count == 1


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_dropped_is_confirmed_and_refused_is_not(overflow: str) -> None:
    """A queue that drops its head takes every message; the others tell the publisher."""
    arguments = {"x-max-length": 0, "x-overflow": overflow}
    _, channel = confirming(Server(), QueueDeclare(queue="s", durable=True, arguments=arguments))
    channel.publish("m", "s")
    refused = nacks(channel.call())
    assert (refused, channel.acks) == (([], [(1, False)]) if overflow == "drop-head" else ([(1, False)], []))


def test_refused_stays_refused_when_the_storage_fails() -> None:
    """A failure of the storage does not turn a refusal into a confirm."""
    server = Server()
    client, channel = confirming(server, refusing(length=0))
    server.storage.fence("the disk is gone")
    channel.publish("m", "s", properties=TRANSIENT)
    channel.publish("m", "nowhere", properties=TRANSIENT)
    client.tick()
    assert nacks(channel.came()) == [(1, False)]
    assert channel.acks == [(2, False)]


def test_message_dropped_into_dead_letters_is_confirmed_when_the_copy_is_durable() -> None:
    """Where a message is too large for its queue, its only copy is the dead letter: the confirm waits for that."""
    arguments = {"x-max-length-bytes": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    server = Server()
    client, channel = confirming(server, DURABLE_Q, QueueDeclare(queue="s", durable=True, arguments=arguments))
    channel.publish("too large", "s")
    client.tick()
    assert list(server.storage.memory_journal.kept.values()) == [b"too large"]
    assert channel.acks == []
    client.durable()
    assert channel.acks == [(1, False)]


def test_publishes_into_a_deleted_queue_are_confirmed() -> None:
    """Unroutable messages are confirmed at once, behind what waits."""
    _, channel = confirming(Server(), DURABLE_Q)
    channel.publish("m", "q")
    channel.send(QueueDelete(queue="q"))
    channel.publish("m", "q")
    channel.call()
    assert channel.acks == [(2, True)]
