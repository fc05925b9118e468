"""Messages that do not fit: into a client's frames, and into what a connection may have begun."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import ASSEMBLY_MAX_BYTES, FRAME_MAX_BYTES, FRAME_OVERHEAD_BYTES, HEADER_RESERVE_DIVISOR
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp091.states import State
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import BasicConsume, BasicGet, BasicPublish, BasicQos, QueueDeclare, QueueDeclareOk
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import TRANSIENT, Client, ClientChannel, Server
from tests.unit.protocol.amqp091.test_connection import frame

# A content header's payload may be so long, of which 12 bytes come before the properties.
ROOM = FRAME_MAX_BYTES - FRAME_OVERHEAD_BYTES
HEADER_MAX = ROOM - ROOM // HEADER_RESERVE_DIVISOR
PUBLISH = encode_method(BasicPublish(routing_key="q"))


def properties_of(size: int) -> bytes:
    """Properties that take so many bytes."""
    empty = len(encode_properties(Properties(headers={"k": ""})))
    return encode_properties(Properties(headers={"k": "x" * (size - empty)}))


def code_of(channel: ClientChannel) -> tuple[int, str]:
    reason = channel.closed
    assert isinstance(reason, ClosedByPeer)
    return reason.code, reason.text


def ready(channel: ClientChannel) -> int:
    (answer,) = channel.call(QueueDeclare(queue="q", durable=True, passive=True))
    assert isinstance(answer, QueueDeclareOk)
    return answer.message_count


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def publisher(server: Server) -> ClientChannel:
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q", durable=True))
    return channel


@pytest.fixture
def small(server: Server) -> ClientChannel:
    """A channel of a client that takes frames of 4,096 bytes."""
    return Client(server, tuning=Tuning(frame_max=4096)).channel()


def test_a_message_that_no_frame_of_its_consumer_holds(publisher: ClientChannel, small: ClientChannel) -> None:
    """Its channel is closed with 311 and the way out; the message stays for whoever takes larger frames."""
    publisher.publish("fits", properties=properties_of(4096 - 8 - 12))
    publisher.publish("large", properties=properties_of(4096 - 8 - 12 + 1))
    publisher.publish("behind")
    publisher.call()
    small.call(BasicConsume(queue="q"))
    assert small.deliveries() == [(1, "fits", False)]
    code, text = code_of(small)
    assert code == 311
    assert text.startswith("CONTENT_TOO_LARGE - a message of queue 'q' has 4077 bytes of properties")
    assert ready(publisher) == 3
    publisher.call(BasicConsume(queue="q"))
    assert [body for _, body, _ in publisher.deliveries()] == ["fits", "large", "behind"]


def test_other_consumers_are_served_meanwhile(publisher: ClientChannel, small: ClientChannel) -> None:
    """Where consumers take turns, the one that cannot take a message is closed, and the others get everything."""
    small.call(BasicConsume(queue="q"))
    publisher.call(BasicConsume(queue="q"))
    for number in range(10):
        publisher.publish(str(number), properties=properties_of(10_000))
    publisher.call()
    small.call()
    assert code_of(small)[0] == 311
    assert sorted(body for _, body, _ in publisher.deliveries()) == [str(number) for number in range(10)]


def test_an_auto_ack_consumer_loses_no_more_than_the_message(publisher: ClientChannel, small: ClientChannel) -> None:
    """It had taken the message by asking for no acknowledgements; what is behind it stays."""
    publisher.publish("large", properties=properties_of(10_000))
    publisher.publish("behind")
    publisher.call()
    small.call(BasicConsume(queue="q", no_ack=True))
    assert small.deliveries() == []
    assert code_of(small)[0] == 311
    assert ready(publisher) == 1


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_that_basic_get_cannot_answer_with(
    publisher: ClientChannel, small: ClientChannel, no_ack: bool
) -> None:
    """The same for basic.get, which the close names; and nothing is lost either way."""
    publisher.publish("large", properties=properties_of(10_000))
    publisher.call()
    small.call(BasicGet(queue="q", no_ack=no_ack))
    assert code_of(small)[0] == 311
    assert ready(publisher) == 1


def test_a_content_header_leaves_room_for_what_the_broker_adds(server: Server, publisher: ClientChannel) -> None:
    """The largest header that is taken still fits a frame with a stream's offset in it; one byte more is refused."""
    publisher.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    publisher.publish("most", "s", properties=properties_of(HEADER_MAX - 12))
    consumer = Client(server).channel()
    consumer.call(BasicQos(prefetch_count=1), BasicConsume(queue="s", arguments={"x-stream-offset": "first"}))
    publisher.call()
    consumer.call()
    ((_, properties, body),) = consumer.contents
    assert (body, len(properties) > HEADER_MAX - 12) == ("most", True)
    publisher.publish("more", "s", properties=properties_of(HEADER_MAX - 12 + 1))
    publisher.call()
    assert code_of(publisher) == (
        311,
        f"CONTENT_TOO_LARGE - a content header of {HEADER_MAX + 1} bytes: at most {HEADER_MAX} are taken",
    )


def begun(number: int, size: int) -> bytes:
    """A message of 16 MiB begun on a channel, with so much of its body."""
    parts = [
        frame(1, number, PUBLISH),
        frame(2, number, b"\0\x3c\0\0" + (16 * 1024 * 1024).to_bytes(8, "big") + TRANSIENT),
    ]
    while size > 0:
        parts.append(frame(3, number, bytes(min(size, 100_000))))
        size -= 100_000
    return b"".join(parts)


def test_what_is_begun_on_all_channels_together_is_bounded(server: Server) -> None:
    """Whole messages may be begun side by side up to a limit for the connection; beyond it ends with 506."""
    client = Client(server)
    channels = [client.channel() for _ in range(8)]
    engine = client.connection.engine
    share = ASSEMBLY_MAX_BYTES // 8
    for channel in channels[:7]:
        engine.receive(begun(int(channel.channel.number), share), 0.0)
    assert engine.state is State.OPEN
    engine.receive(begun(8, share + 100_000), 0.0)
    client.tick()
    reason = client.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 506
    assert "messages begun on all channels of this connection hold" in reason.text


def test_what_is_ended_or_given_up_no_longer_counts(server: Server) -> None:
    """A body that came whole, or whose channel we closed, makes room for others."""
    client = Client(server)
    engine = client.connection.engine
    for turn in range(12):
        channel = client.channel()
        number = int(channel.channel.number)
        engine.receive(begun(number, 15_000_000), 0.0)
        if turn % 2:
            engine.receive(frame(3, number, bytes(100_000)) * 17 + frame(3, number, bytes(77_216)), 0.0)
            channel.channel.close()
        else:
            client.connection.channels[number]._channel.close(406)
        client.tick()
    assert engine.state is State.OPEN
