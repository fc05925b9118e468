"""Messages that came by AMQP 1.0, as consumers of 0-9-1 get them."""

from flintmq.broker.message import Address, Message
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion.lossless import to_10
from flintmq.gateway.conversion.parts import HeaderFields, write_application, write_header, write_properties
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.chunk import decode_chunk
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    QueueDeclare,
    StreamFetch,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.sections import encode_amqp_value, encode_data
from flintmq.wire.amqp10.values import Symbol
from tests.unit.gateway.amqp091.pair import Client, Server

BARE = write_properties(Properties10(message_id="m", subject="s", content_type="text/plain")) + write_application(
    {"color": "red", "kind": Symbol("k")}
)
HEAD = write_header(HeaderFields(True, 5)) + BARE


def put(server: Server, queue: str, head: bytes = HEAD, body: bytes = b"") -> None:
    """Publish a message of AMQP 1.0 to a queue."""
    body = body or encode_data(b"hello")
    message = Message(Address("", queue), CODEC_10, head, body, CODEC_10.options(head), server.broker.now_ms, 7)
    server.vhost.deliver(message, [server.vhost.queues[queue]])


def said(encoded: bytes) -> Properties:
    """The properties without what is sent along for the way back."""
    properties = decode_properties(encoded)
    if properties.headers is not None:
        kept = {name: value for name, value in properties.headers.items() if not name.startswith("x-amqp-1.0-")}
        properties.headers = kept
    return properties


SAID = Properties(
    content_type="text/plain",
    headers={"color": "red", "kind": "k"},
    delivery_mode=2,
    priority=5,
    message_id="m",
)


def test_a_consumer_gets_it_converted() -> None:
    """Properties, headers and body are those of 0-9-1, and what came is all there for the way back."""
    server = Server()
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    put(server, "q")
    channel.call()
    ((_, properties, body),) = channel.contents
    assert (said(properties), body) == (SAID, "hello")
    assert to_10(properties, b"hello")[0].endswith(BARE)


def test_a_body_that_is_no_bytes_comes_encoded() -> None:
    """RabbitMQ's way: the type says what it is."""
    server = Server()
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    body = encode_amqp_value("text")
    put(server, "q", BARE, body)
    channel.call()
    ((_, properties, _),) = channel.contents
    assert (decode_properties(properties).type, channel.bodies) == ("amqp-1.0", [body])


def test_basic_get_converts_too() -> None:
    """And a redelivery says how often it came back."""
    server = Server()
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))
    put(server, "q")
    channel.call(BasicGet(queue="q"))
    ((answer, properties, _),) = channel.contents
    assert isinstance(answer, BasicGetOk)
    assert said(properties) == SAID
    channel.call(BasicNack(delivery_tag=answer.delivery_tag, requeue=True))
    channel.call(BasicGet(queue="q"))
    headers = decode_properties(channel.contents[-1][1]).headers
    assert headers is not None
    assert headers["x-delivery-count"] == 1


def test_ranges_of_a_stream_are_of_one_format() -> None:
    """Readers of ranges know 0-9-1 alone."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    put(server, "s")
    client.durable()
    channel.call(StreamFetch(queue="s", offset=0, end_offset=10))
    (record,) = decode_chunk(channel.bodies[0])
    assert (said(record.properties), record.body) == (SAID, b"hello")


def test_properties_that_no_frame_of_the_client_holds_close_the_channel() -> None:
    """Converted, they may be longer than they came."""
    server = Server()
    client = Client(server, tuning=Tuning(frame_max=4096))
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    put(server, "q", write_application({"long": "x" * 5000}))
    channel.call()
    assert "bytes of properties" in str(channel.closed)


def test_what_went_along_stays_behind_where_it_is_too_long() -> None:
    """The message itself fits: its properties stand there twice, once as headers and once encoded."""
    server = Server()
    channel = Client(server, tuning=Tuning(frame_max=4096)).channel()
    channel.call(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    put(server, "q", write_application({"long": Symbol("x" * 3000)}))
    channel.call()
    ((_, properties, _),) = channel.contents
    assert decode_properties(properties).headers == {"long": "x" * 3000}


def test_sections_that_cannot_be_read_harm_nobody() -> None:
    """They go along as they are; selectors, dead letters and consumers see none of it."""
    server = Server()
    channel = Client(server).channel()
    broken = b"\x00\x53\x74\xc1\x03\x02\xff\xff"
    channel.call(
        QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
        QueueDeclare(queue="dead"),
        BasicConsume(queue="q", no_ack=True, arguments={"x-selector": "color = 'red'"}),
    )
    put(server, "q", broken)
    assert channel.deliveries() == []
    channel.call(BasicGet(queue="q"))
    channel.call(BasicNack(delivery_tag=1, requeue=False))
    channel.call(BasicGet(queue="dead", no_ack=True))
    assert channel.bodies[-1] == b"hello"
    assert to_10(channel.contents[-1][1], b"hello")[0].endswith(broken)


def test_dead_letters_of_both_protocols_meet() -> None:
    """A message of 1.0 that a consumer of 0-9-1 rejects has x-death for whoever gets it next."""
    server = Server()
    channel = Client(server).channel()
    channel.call(
        QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
        QueueDeclare(queue="dead"),
    )
    put(server, "q")
    channel.call(BasicGet(queue="q"))
    channel.call(BasicNack(delivery_tag=1, requeue=False))
    channel.call(BasicGet(queue="dead", no_ack=True))
    encoded = channel.contents[-1][1]
    headers = decode_properties(encoded).headers
    assert headers is not None
    assert str(headers["x-death"]).startswith("[{'count': 1, 'exchange': '', 'queue': 'q', 'reason': 'rejected'")
    assert headers["x-first-death-queue"] == "q"
    assert to_10(encoded, b"hello")[0].endswith(BARE)
