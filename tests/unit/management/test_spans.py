"""Spans of messages, recorded in memory: whose trace they are in, and what goes out with the message."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind

from flintmq.broker.message import Address, Message
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.management.spans import Spans
from flintmq.wire.amqp091.methods import BasicConsume, BasicGet, QueueDeclare
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from flintmq.wire.amqp10.sections import decode_message_annotations, encode_application_properties, scan
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server
from tests.unit.gateway.amqp10 import pair as pair10

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
NOT_SAMPLED = f"00-{TRACE}-{PARENT}-00"
NOW_NS = 1_700_000_000_500_000_000


class Recorded:
    """A server, AMQP 0-9-1 or 1.0, whose messages leave spans."""

    def __init__(self, server: Server | pair10.Server, ratio: float = 1.0) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(ParentBased(TraceIdRatioBased(ratio)), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        server.broker.now_ms = NOW_NS // 1_000_000 - 500
        server.gateway.tracing.use(Spans(provider.get_tracer("test"), lambda: NOW_NS))

    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


def _channel(server: Server) -> ClientChannel:
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q"))
    return channel


def _parent_of(span: ReadableSpan) -> tuple[str, str]:
    assert span.parent is not None
    return f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}"


def _context_of(span: ReadableSpan) -> str:
    context = span.context
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_publishers_trace_goes_on() -> None:
    """Publish and delivery are spans of the trace that the message came with, and it leaves with that."""
    server = Server()
    recorded = Recorded(server)
    channel = _channel(server)
    properties = encode_properties(Properties(headers={"traceparent": SAMPLED, "tracestate": "a=b"}, message_id="m1"))
    channel.publish("body", "q", properties=properties)
    channel.call(BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    published, delivered = recorded.spans()
    assert _parent_of(published) == _parent_of(delivered) == (TRACE, PARENT)
    assert (published.name, published.kind) == ("publish amq.default", SpanKind.CONSUMER)
    assert (delivered.name, delivered.kind) == ("deliver q", SpanKind.PRODUCER)
    assert delivered.context is not None
    assert delivered.context.trace_state.get("a") == "b"
    assert published.attributes is not None
    assert published.attributes["messaging.message.id"] == "m1"
    assert published.attributes["messaging.rabbitmq.destination.routing_key"] == "q"
    assert published.attributes["flintmq.queues"] == ("q",)
    # As long as the broker had the message.
    assert (delivered.start_time, delivered.end_time) == (NOW_NS - 500_000_000, NOW_NS)
    ((_, sent, _),) = channel.contents
    assert sent == properties


def test_what_is_committed_in_stages_stays_in_its_trace() -> None:
    """A staged message gets its span at the commit; without a trace it gets none, because it is stored already."""
    server = Server()
    recorded = Recorded(server)
    _channel(server)
    stage = server.vhost.stages.open("tx", "u", "query")
    attempt = stage.begin(int(stage.epoch), (0, 0, 0))
    for headers in (None, {"traceparent": SAMPLED}):
        properties = encode_properties(Properties(headers=None if headers is None else {**headers}))
        message = Message(Address("e", "k"), CODEC_091, properties, b"m", CODEC_091.options(properties), 0)
        attempt.put(message, [server.vhost.queues["q"]])
    attempt.complete()
    stage.commit(int(stage.epoch), 0, {0: 0})
    server.broker.dispatch()
    (published,) = recorded.spans()
    assert (published.name, _parent_of(published)) == ("publish e", (TRACE, PARENT))


def test_a_message_without_a_trace_begins_one() -> None:
    """A message without a trace is delivered with the broker's, which its delivery belongs to; nothing else changes."""
    server = Server()
    recorded = Recorded(server)
    channel = _channel(server)
    channel.publish("body", "q", properties=encode_properties(Properties(headers={"n": 1}, delivery_mode=2)))
    channel.call(BasicGet(queue="q", no_ack=True))
    published, delivered = recorded.spans()
    assert _parent_of(delivered) == tuple(_context_of(published).split("-")[1:3])
    ((_, sent, _),) = channel.contents
    found = decode_properties(sent)
    assert found.headers == {"n": 1, "traceparent": _context_of(published)}
    assert found.delivery_mode == 2


@pytest.mark.parametrize("headers", [{"traceparent": NOT_SAMPLED}, {}])
def test_what_is_not_sampled_leaves_nothing(headers: dict[str, object]) -> None:
    """An unsampled message has neither spans nor headers, whether its publisher or the broker decides."""
    server = Server()
    recorded = Recorded(server, 0.0)
    channel = _channel(server)
    properties = encode_properties(Properties(headers=dict(headers)))
    channel.publish("body", "q", properties=properties)
    channel.call(BasicGet(queue="q", no_ack=True))
    assert recorded.spans() == []
    ((_, sent, _),) = channel.contents
    assert sent == properties


@pytest.mark.parametrize("value", ["garbage", 7, ""])
def test_a_trace_that_is_none(value: object) -> None:
    """An invalid trace context is ignored, and the message is delivered."""
    server = Server()
    recorded = Recorded(server)
    channel = _channel(server)
    channel.publish("body", "q", properties=encode_properties(Properties(headers={"traceparent": value})))
    channel.call(BasicGet(queue="q", no_ack=True))
    published, _ = recorded.spans()
    assert published.parent is None
    assert [body for _, _, body in channel.contents] == ["body"]


def test_amqp_10_with_a_trace() -> None:
    """An application property is a context as well."""
    server = pair10.Server()
    server.queue("q")
    recorded = Recorded(server)
    client = pair10.Client(server)
    client.sender().send("m", before=encode_application_properties({"traceparent": SAMPLED}))
    client.receiver()
    published, delivered = recorded.spans()
    assert _parent_of(published) == _parent_of(delivered) == (TRACE, PARENT)


def test_amqp_10_without_a_trace() -> None:
    """The broker's is an annotation: the bare message is its publisher's."""
    server = pair10.Server()
    server.queue("q")
    recorded = Recorded(server)
    client = pair10.Client(server)
    client.sender().send("m")
    receiver = client.receiver()
    published, delivered = recorded.spans()
    assert _parent_of(delivered) == tuple(_context_of(published).split("-")[1:3])
    ((_, payload),) = receiver.take()
    annotations = decode_message_annotations(payload, scan(payload).message_annotations)
    assert annotations["x-opt-traceparent"] == _context_of(published)
