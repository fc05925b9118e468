"""The client's AMQP 1.0, blocking and asyncio, against a broker."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from flintmq.base.errors import FlintError
from flintmq.wire.amqp091.properties import decode_properties
from tests.integration.conftest import Connect10
from tests.servers import BrokerProcess

# How long nothing may come before we believe that nothing will.
SILENCE = 0.3


@pytest.fixture
def connection(broker: BrokerProcess, connect_10: Connect10) -> Iterator[amqp.Connection]:
    with connect_10(broker.url) as made:
        yield made


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[fc.Channel]:
    with fc.connect(broker.url) as made, made.channel(confirms=True) as channel:
        yield channel


@pytest.fixture
def queue(request: pytest.FixtureRequest, channel: fc.Channel) -> Iterator[str]:
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())
    channel.declare_queue(name)
    yield name
    channel.delete_queue(name)


def test_a_message_there_and_back(connection: amqp.Connection, queue: str) -> None:
    """A message that was accepted is received as it was sent."""
    sender = connection.sender(f"/queues/{queue}")
    properties = amqp.Properties(message_id="id", subject="subject", correlation_id=b"c")
    sent = amqp.Message({"key": [1, 2.5]}, properties, {"n": 1}, annotations={"x-opt-mine": True})
    assert sender.send(sent) == amqp.Accepted()
    receiver = connection.receiver(f"/queues/{queue}")
    delivery = receiver.receive(timeout=60.0)
    assert delivery is not None
    message = delivery.message
    assert (message.body, message.properties, message.application_properties) == (
        sent.body,
        properties,
        sent.application_properties,
    )
    assert message.annotations["x-opt-mine"] is True
    assert message.header.durable
    receiver.accept(delivery)
    assert receiver.receive(timeout=SILENCE) is None


def test_batches(connection: amqp.Connection, queue: str) -> None:
    """Thousands of messages are sent and received, in their order, with far less credit."""
    sender = connection.sender(f"/queues/{queue}")
    assert sender.send_batch(amqp.Message(b"%d" % number) for number in range(5000)) == 5000
    receiver = connection.receiver(f"/queues/{queue}", credit=200)
    got: list[object] = []
    for batch in receiver.batches(batch_size=150, timeout=60.0):
        assert len(batch.messages) <= 150
        got += [delivery.message.body for delivery in batch.messages]
        batch.accept()
        if len(got) >= 5000:
            break
    assert got == [b"%d" % number for number in range(5000)]


def test_a_message_that_no_queue_wants(connection: amqp.Connection) -> None:
    """It is released; in a batch, its position is told."""
    sender = connection.sender("/exchanges/amq.direct/nowhere")
    assert sender.send(amqp.Message(b"x")) == amqp.Released()
    with pytest.raises(amqp.SendFailed, match="released") as raised:
        sender.send_batch([amqp.Message(b"x"), amqp.Message(b"y")])
    assert raised.value.refused == [(0, amqp.Released()), (1, amqp.Released())]


def test_outcomes(connection: amqp.Connection, channel: fc.Channel, queue: str) -> None:
    """A message is released, modified and rejected: it comes again, comes again changed, and is a dead letter."""
    arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.declare_queue(f"{queue}-work", arguments=arguments)
    connection.sender(f"/queues/{queue}-work").send(amqp.Message(b"work"))
    receiver = connection.receiver(f"/queues/{queue}-work")
    counts = []
    for turn in range(3):
        delivery = receiver.receive(timeout=60.0)
        assert delivery is not None
        counts.append(delivery.message.header.delivery_count)
        if turn == 0:
            receiver.release(delivery)
        elif turn == 1:
            receiver.modify(delivery, annotations={"x-opt-tried": True})
        else:
            assert delivery.message.annotations["x-opt-tried"] is True
            receiver.reject(delivery, error=amqp.Error("app:broken", "of no use"))
    assert counts == [0, 0, 1]
    dead = connection.receiver(f"/queues/{queue}")
    letter = dead.receive(timeout=60.0)
    assert letter is not None
    assert letter.message.body == b"work"
    dead.accept(letter)
    channel.delete_queue(f"{queue}-work")


def test_credit_by_hand(connection: amqp.Connection, queue: str) -> None:
    """A receiver without credit of its own gets what it asks for, and a drain says when there is no more."""
    connection.sender(f"/queues/{queue}").send_batch(amqp.Message(b"%d" % number) for number in range(5))
    receiver = connection.receiver(f"/queues/{queue}", credit=0)
    assert receiver.receive(timeout=SILENCE) is None
    receiver.grant(2)
    got = [receiver.receive(timeout=60.0) for _ in range(2)]
    assert receiver.receive(timeout=SILENCE) is None
    receiver.grant(100)
    receiver.drain()
    while (delivery := receiver.receive(timeout=0.0)) is not None:
        got.append(delivery)
    assert [delivery.message.body for delivery in got if delivery is not None] == [b"0", b"1", b"2", b"3", b"4"]


def test_settled_links(connection: amqp.Connection, queue: str) -> None:
    """Where nobody asks for outcomes, there are none."""
    sender = connection.sender(f"/queues/{queue}", settled=True)
    assert sender.send(amqp.Message(b"x")) is None
    receiver = connection.receiver(f"/queues/{queue}", settled=True)
    delivery = receiver.receive(timeout=60.0)
    assert delivery is not None
    assert delivery.is_settled


def test_large_messages(connection: amqp.Connection, queue: str) -> None:
    """A message of many frames, more than the output takes at once, arrives whole."""
    body = bytes(range(256)) * 50_000
    assert connection.sender(f"/queues/{queue}").send(amqp.Message(body)) == amqp.Accepted()
    receiver = connection.receiver(f"/queues/{queue}", credit=1)
    delivery = receiver.receive(timeout=60.0)
    assert delivery is not None
    assert delivery.message.body == body
    receiver.accept(delivery)


def test_a_selector_and_a_browser(connection: amqp.Connection, queue: str) -> None:
    """A selector chooses; a browser takes nothing."""
    sender = connection.sender(f"/queues/{queue}")
    sender.send_batch(amqp.Message(b"%d" % n, application_properties={"n": n}) for n in range(6))
    browse = amqp.Source(f"/queues/{queue}", distribution_mode=amqp.COPY)
    with connection.receiver(browse, filters=amqp.selector("n > 3")) as browser:
        for body in (b"4", b"5"):
            seen = browser.receive(timeout=60.0)
            assert seen is not None
            assert seen.message.body == body
            browser.accept(seen)
    with connection.receiver(f"/queues/{queue}") as receiver:
        batch = next(iter(receiver.batches(timeout=60.0)))
        assert batch.messages[0].message.body == b"0"


def test_transactions(connection: amqp.Connection, channel: fc.Channel, queue: str) -> None:
    """What was sent and accepted in it is done when it is committed; after a rollback nothing is."""
    sender, receiver = connection.sender(f"/queues/{queue}"), connection.receiver(f"/queues/{queue}")
    with connection.transaction() as transaction:
        sender.send(amqp.Message(b"committed"), transaction)
        assert receiver.receive(timeout=SILENCE) is None
    delivery = receiver.receive(timeout=60.0)
    assert delivery is not None
    transaction = connection.transaction()
    receiver.accept(delivery, transaction=transaction)
    sender.send(amqp.Message(b"rolled back"), transaction)
    transaction.roll_back()
    receiver.close()
    with connection.receiver(f"/queues/{queue}") as again:
        delivery = again.receive(timeout=60.0)
        assert delivery is not None
        assert delivery.message.body == b"committed"
        with connection.transaction() as transaction:
            again.accept(delivery, transaction=transaction)
    channel.publish(b"last", routing_key=queue)
    channel.wait_for_confirms()
    with connection.receiver(f"/queues/{queue}") as last:
        delivery = last.receive(timeout=60.0)
        assert delivery is not None
        assert delivery.message.body == b"last"
        last.accept(delivery)


def test_a_dynamic_node(connection: amqp.Connection) -> None:
    """The server makes a node and says its address."""
    with connection.receiver(amqp.Source(dynamic=True)) as receiver:
        source = receiver.server.source
        assert source is not None
        assert source.address
        connection.sender(source.address).send(amqp.Message(b"reply"))
        delivery = receiver.receive(timeout=60.0)
        assert delivery is not None
        receiver.accept(delivery)


def test_a_link_that_is_refused(connection: amqp.Connection) -> None:
    """It says why, and the connection goes on."""
    for _ in range(2):
        with pytest.raises(amqp.LinkDetached, match="amqp:not-found"):
            connection.sender("/queues/no-such-queue")
        with pytest.raises(amqp.LinkDetached, match="amqp:not-found"):
            connection.receiver("/queues/no-such-queue")
    assert connection.is_open


def test_a_link_that_is_resumed(broker: BrokerProcess, connect_10: Connect10, queue: str) -> None:
    """What a durable link had not settled when its connection was lost is settled over the next one."""
    source = amqp.Source(f"/queues/{queue}", amqp.DURABLE_UNSETTLED_STATE, amqp.EXPIRE_NEVER)
    lost = connect_10(broker.url, container_id=queue)
    lost.sender(f"/queues/{queue}").send_batch(amqp.Message(b"%d" % number) for number in range(3))
    receiver = lost.receiver(source, name="resumed", credit=10)
    deliveries = [receiver.receive(timeout=60.0) for _ in range(3)]
    found = [delivery for delivery in deliveries if delivery is not None]
    receiver.accept(found[0])
    with connect_10(broker.url, container_id=queue) as connection:
        # The link is the same, so it is taken from the first connection.
        connection.resume(receiver)
        receiver.accept(found[1])
        receiver.release(found[2])
        again = receiver.receive(timeout=60.0)
        assert again is not None
        assert again.message.body == b"2"
        receiver.accept(again)
        assert receiver.receive(timeout=SILENCE) is None
        receiver.close()
    lost.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logins(broker: BrokerProcess, connect_10: Connect10, mechanism: str) -> None:
    """The right password comes in by any mechanism; the wrong one is refused."""
    with connect_10(broker.url, mechanism=mechanism) as connection:
        assert connection.server.container_id
    with pytest.raises(fc.LoginRefused):
        connect_10(broker.url.replace("guest:guest", "guest:wrong"), mechanism=mechanism)


def test_a_virtual_host_that_does_not_exist(broker: BrokerProcess, connect_10: Connect10) -> None:
    """The connection ends, and says why."""
    with pytest.raises(amqp.ConnectionEnded, match="no-such-host"):
        connect_10(broker.url.replace("%2f", "no-such-host")).sender("/queues/q")


def test_closed_links_are_let_go(connection: amqp.Connection, queue: str) -> None:
    """A connection that has many links, one after the other, holds those that are open."""
    kept = connection.sender(f"/queues/{queue}")
    for _ in range(3):
        connection.sender(f"/queues/{queue}").close()
        connection.receiver(f"/queues/{queue}").detach()
    assert connection._core._links == [kept.core]


def test_a_stream_of_both_protocols_is_fetched_in_one(connection: amqp.Connection, channel: fc.Channel) -> None:
    """Ranges of a stream have the messages of AMQP 1.0 among the others, in their order, as AMQP 0-9-1 has them."""
    channel.declare_queue("mixed", arguments={"x-queue-type": "stream"})
    sender = connection.sender("/queues/mixed")
    for n in range(0, 30, 3):
        channel.publish_batch([("", "mixed", b"%d" % n), ("", "mixed", b"%d" % (n + 1))])
        sender.send(amqp.Message(b"%d" % (n + 2), properties=amqp.Properties(message_id=f"id-{n}")))
    for size in (1, 100, 1 << 20):
        records = [
            record for chunk in channel.stream_chunks("mixed", 0, 30, max_bytes=size) for record in chunk.records
        ]
        assert [(record.offset, record.body) for record in records] == [(n, b"%d" % n) for n in range(30)]
        assert decode_properties(records[2].properties).message_id == "id-0"
    channel.delete_queue("mixed")


def test_a_broker_that_stops_says_so(tmp_path: Path) -> None:
    """Clients are told that it is the broker's doing, as RabbitMQ tells them."""
    with BrokerProcess(tmp_path / "data") as broker:
        connection = amqp.connect(broker.url)
        receiver = connection.receiver(amqp.Source(dynamic=True))
        assert broker.stop() == 0
        with pytest.raises(FlintError, match="broker forced connection closure with reason 'shutdown'"):
            receiver.receive(timeout=60.0)
