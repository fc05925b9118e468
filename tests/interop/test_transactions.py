"""What a transaction promised, and queues that are deleted or unbound before it ends: by Proton, pika and HTTP."""

from collections.abc import Iterator
from typing import Final

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Delivery, Described, Link, Message, Terminus, symbol, ulong
from proton.utils import BlockingConnection, BlockingSender, SendException

from tests.interop.test_proton_answers import opened
from tests.interop.test_rabbitmq_behaviour import drained
from tests.servers import BrokerProcess

DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
ACCEPTED: Final = Described(ulong(0x24), [])


class ToCoordinator:
    """A sender's target is the coordinator of transactions."""

    def apply(self, link: Link) -> None:
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))

    def test(self, link: Link) -> bool:
        return bool(link.is_sender)


class Transaction:
    """One transaction of a connection."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self._control: BlockingSender = connection.create_sender(None, options=ToCoordinator())
        declared = self._control.send(Message(Described(symbol("amqp:declare:list"), [None])), error_states=[])
        assert declared.remote_state == DECLARED
        self._id = declared.remote.data[0]

    def post(self, sender: BlockingSender, body: str) -> object:
        """Send in the transaction; returns the outcome that is told for it."""
        delivery = sender.link.send(Message(body, durable=True))
        delivery.local.data = [self._id]
        delivery.update(TRANSACTIONAL)
        self._connection.wait(lambda: delivery.remote_state)
        assert delivery.remote_state == TRANSACTIONAL
        txn_id, outcome = delivery.remote.data
        assert txn_id == self._id
        delivery.settle()
        return outcome

    def discharge(self) -> Delivery:
        """Commit; raises SendException where that is refused."""
        return self._control.send(Message(Described(symbol("amqp:discharge:list"), [self._id, False])))


@pytest.fixture
def controller(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    connection = opened(broker)
    yield connection
    connection.close()


def bound(channel: BlockingChannel, exchange: str, *queues: str) -> None:
    channel.exchange_declare(exchange, "fanout", durable=True)
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange)


def test_the_only_queue_is_deleted(
    controller: BlockingConnection, channel: BlockingChannel, api: httpx.Client, name: str
) -> None:
    """The discharge is refused, also where a queue has the name again; nothing else of the transaction is done."""
    bound(channel, name, name)
    channel.queue_declare(f"{name}-other", durable=True)
    transaction = Transaction(controller)
    assert transaction.post(controller.create_sender(f"/queues/{name}-other"), "other") == ACCEPTED
    assert transaction.post(controller.create_sender(f"/exchanges/{name}"), "promised") == ACCEPTED
    assert api.delete(f"/api/queues/%2F/{name}").is_success
    assert api.put(f"/api/queues/%2F/{name}", json={"durable": True}).is_success
    with pytest.raises(SendException) as refused:
        transaction.discharge()
    assert refused.value.state == Delivery.REJECTED
    assert drained(channel, name) == drained(channel, f"{name}-other") == []


def test_one_queue_of_two_is_deleted(
    controller: BlockingConnection, channel: BlockingChannel, api: httpx.Client, name: str
) -> None:
    """The discharge is accepted, for the message is on the other one."""
    bound(channel, name, name, f"{name}-other")
    transaction = Transaction(controller)
    assert transaction.post(controller.create_sender(f"/exchanges/{name}"), "promised") == ACCEPTED
    assert api.delete(f"/api/queues/%2F/{name}").is_success
    assert transaction.discharge().remote_state == Delivery.ACCEPTED
    assert len(drained(channel, f"{name}-other")) == 1


def test_the_queue_is_unbound(controller: BlockingConnection, channel: BlockingChannel, name: str) -> None:
    """The message is where its sender was told that it goes."""
    bound(channel, name, name)
    transaction = Transaction(controller)
    assert transaction.post(controller.create_sender(f"/exchanges/{name}"), "promised") == ACCEPTED
    channel.queue_unbind(name, name)
    assert transaction.discharge().remote_state == Delivery.ACCEPTED
    assert len(drained(channel, name)) == 1


def test_the_exchange_is_deleted(controller: BlockingConnection, channel: BlockingChannel, name: str) -> None:
    """Either the discharge is refused, or the message is on its queue: never accepted and nowhere."""
    bound(channel, name, name)
    transaction = Transaction(controller)
    assert transaction.post(controller.create_sender(f"/exchanges/{name}"), "promised") == ACCEPTED
    channel.exchange_delete(name)
    try:
        transaction.discharge()
        count = 1
    except SendException:
        count = 0
    assert len(drained(channel, name)) == count


def test_the_queue_is_full(controller: BlockingConnection, channel: BlockingChannel, name: str) -> None:
    """A queue that refuses what it has no room for by then refuses the discharge, and nothing of it is done."""
    channel.queue_declare(name, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_declare(f"{name}-other", durable=True)
    transaction = Transaction(controller)
    for queue in (f"{name}-other", name):
        assert transaction.post(controller.create_sender(f"/queues/{queue}"), "promised") == ACCEPTED
    channel.basic_publish("", name, b"first")
    with pytest.raises(SendException) as refused:
        transaction.discharge()
    assert refused.value.state == Delivery.REJECTED
    assert drained(channel, name) == [b"first"]
    assert drained(channel, f"{name}-other") == []


@pytest.mark.parametrize("mandatory", [True, False], ids=["mandatory", "not mandatory"])
def test_a_queue_is_deleted_before_tx_commit(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str, *, mandatory: bool
) -> None:
    """tx.commit of AMQP 0-9-1 routes again: a mandatory message that no queue takes comes back, the rest is done."""
    bound(channel, name, name)
    channel.queue_declare(f"{name}-other", durable=True)
    channel.basic_publish("", f"{name}-other", b"taken")
    transactional = connection.channel()
    transactional.tx_select()
    returned: list[tuple[int, bytes]] = []
    transactional.add_on_return_callback(lambda _, method, __, body: returned.append((method.reply_code, body)))
    method, _, _ = transactional.basic_get(f"{name}-other")
    assert method is not None
    transactional.basic_ack(method.delivery_tag)
    transactional.basic_publish(name, "", b"for a queue that goes", mandatory=mandatory)
    transactional.basic_publish("", f"{name}-other", b"for a queue that stays", mandatory=mandatory)
    channel.queue_delete(name)
    transactional.tx_commit()
    connection.process_data_events()
    assert returned == ([(312, b"for a queue that goes")] if mandatory else [])
    transactional.close()
    assert drained(channel, f"{name}-other") == [b"for a queue that stays"]


def test_a_queue_of_its_name_comes_before_tx_commit(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """A queue that was deleted and declared again is the one that tx.commit finds; after a rollback nothing is."""
    channel.queue_declare(name, durable=True)
    transactional = connection.channel()
    transactional.tx_select()
    for number in (b"1", b"2"):
        transactional.basic_publish("", name, number, mandatory=True)
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True)
        if number == b"1":
            transactional.tx_commit()
            assert drained(channel, name) == [b"1"]
        else:
            transactional.tx_rollback()
            assert drained(channel, name) == []
