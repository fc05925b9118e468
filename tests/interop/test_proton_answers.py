"""Rejected messages and addresses for answers, as Proton sees them."""

import pika
from pika.adapters.blocking_connection import BlockingChannel
from proton import Link, Message, Terminus, symbol
from proton.utils import BlockingConnection

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess


class Volatile:
    """What RabbitMQ asks of a source for direct reply-to: the capability, settled deliveries, no life of its own."""

    def apply(self, link: Link) -> None:
        link.snd_settle_mode = Link.SND_SETTLED
        link.source.expiry_policy = Terminus.EXPIRE_WITH_LINK
        link.source.capabilities.put_object(symbol("rabbitmq:volatile-queue"))

    def test(self, link: Link) -> bool:
        return bool(link.is_receiver)


def opened(broker: BrokerProcess) -> BlockingConnection:
    return BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.port}", timeout=WAIT_SECONDS)


def test_a_message_that_was_rejected_before(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    """A dead letter that an AMQP 0-9-1 client rejected is not its receiver's first, and was delivered once before."""
    channel.queue_declare(f"{name}-dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.basic_publish("", name, b"bad", pika.BasicProperties(delivery_mode=2))
    method, _, _ = channel.basic_get(name)
    assert method is not None
    channel.basic_reject(method.delivery_tag, requeue=False)
    connection = opened(broker)
    receiver = connection.create_receiver(f"/queues/{name}-dead", credit=1)
    message = receiver.receive()
    receiver.accept()
    assert (message.first_acquirer, message.delivery_count) == (False, 1)
    connection.close()
    for queue in (name, f"{name}-dead"):
        channel.queue_delete(queue)


def test_an_address_for_answers(broker: BrokerProcess) -> None:
    """Direct reply-to: a dynamic source of this capability has an address that an answer comes by."""
    connection = opened(broker)
    receiver = connection.create_receiver(None, dynamic=True, credit=1, options=Volatile())
    address = receiver.link.remote_source.address
    assert address.startswith("/queues/amq.rabbitmq.reply-to.")
    connection.create_sender(address).send(Message("answer"))
    assert receiver.receive().body == "answer"
    connection.close()
