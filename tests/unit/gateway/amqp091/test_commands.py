"""Messages that tell a queue what to do: who may say so, and where."""

from flintmq.wire.amqp091.methods import (
    BasicGet,
    BasicGetEmpty,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, Server


def command(what: object, **headers: object) -> bytes:
    return encode_properties(Properties(headers={"x-queue-command": what, **headers}))


def test_a_paused_queue_looks_empty() -> None:
    """The command is confirmed once it is durable; basic.get finds nothing until the queue is resumed."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True), ConfirmSelect())
    channel.publish("m")
    channel.publish("", properties=command("pause"))
    client.tick()
    assert channel.acks == []
    client.durable()
    assert channel.acks == [(2, True)]
    assert channel.call(BasicGet(queue="q")) == [BasicGetEmpty()]
    channel.publish("", properties=command("resume"))
    channel.call(BasicGet(queue="q"))
    assert [body for _, _, body in channel.contents] == ["m"]


def test_it_needs_configure() -> None:
    """Whoever may only publish may not stop a queue; this goes for queues that CC names as well."""
    server = Server()
    Client(server).channel().call(QueueDeclare(queue="q"), QueueDeclare(queue="mine"))
    client = Client(server)
    server.allow(configure="^mine$")
    for key, sent in (("q", command("pause")), ("mine", command("pause", CC=["q"]))):
        channel = client.channel()
        channel.publish("", key, properties=sent)
        client.tick()
        assert "403 ACCESS_REFUSED" in str(channel.closed)
        assert "configure access to queue 'q'" in str(channel.closed)
    channel = client.channel()
    channel.publish("", "mine", properties=command("pause"))
    client.tick()
    assert server.vhost.queues["mine"].settings.paused
    assert not server.vhost.queues["q"].settings.paused


def test_only_the_default_exchange_takes_it() -> None:
    """By other exchanges nobody could tell whose queues it comes to."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(
        QueueDeclare(queue="q"), ExchangeDeclare(exchange="x", type="fanout"), QueueBind(queue="q", exchange="x")
    )
    channel.publish("", exchange="x", properties=command("pause"))
    client.tick()
    assert "406 PRECONDITION_FAILED" in str(channel.closed)
    assert not server.vhost.queues["q"].settings.paused


def test_what_it_can_say() -> None:
    """Anything but pause and resume is refused by name."""
    client = Client(Server())
    for what in ("stop", "", 1):
        channel = client.channel()
        channel.publish("", properties=command(what))
        client.tick()
        assert str(channel.closed) == (
            "406 PRECONDITION_FAILED - invalid header 'x-queue-command': pause or resume is due"
        )


def test_exclusive_queues_obey_their_owner() -> None:
    """Nobody else can stop them."""
    server = Server()
    owner, stranger = Client(server), Client(server)
    mine, other = owner.channel(), stranger.channel()
    mine.call(QueueDeclare(queue="q", exclusive=True))
    other.publish("", properties=command("pause"))
    stranger.tick()
    assert "405 RESOURCE_LOCKED" in str(other.closed)
    mine.publish("", properties=command("pause"))
    owner.tick()
    assert server.vhost.queues["q"].settings.paused


def test_a_command_waits_for_its_transaction() -> None:
    """It holds from the commit on."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), TxSelect())
    channel.publish("", properties=command("pause"))
    client.tick()
    assert not server.vhost.queues["q"].settings.paused
    channel.call(TxCommit())
    assert server.vhost.queues["q"].settings.paused
