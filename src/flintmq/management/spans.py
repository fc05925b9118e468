"""Spans of OpenTelemetry: one for each message that is taken in, and one for each delivery, in its publisher's trace.

The context of a message is its publisher's (W3C Trace Context: traceparent and tracestate, headers or application
properties), and stays so: consumers go on with the publisher's trace whether the broker records spans or not. A message
without one begins a trace here, and carries it from then on.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from flintmq.base.errors import FlintError
from flintmq.broker.message import Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.tap import Client, Tap
from flintmq.gateway.amqp10.codec import CODEC_10

_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
# What the broker says of a message of AMQP 1.0 are annotations; no other names than those with x- are headers.
_ANNOTATED: Final = "x-opt-"
_ENCODED_PARENT: Final = _PARENT.encode()
_EXPORT_SECONDS: Final = 5.0
_NS_PER_MS: Final = 1_000_000


@final
class Spans(Tap):
    """`now_ns` tells Unix time."""

    def __init__(self, tracer: Tracer, now_ns: Callable[[], int]) -> None:
        self._tracer = tracer
        self._now_ns = now_ns
        self._propagator = TraceContextTextMapPropagator()

    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        parent = self._parent(message)
        address = message.address
        span = self._tracer.start_span(
            f"publish {address.exchange or 'amq.default'}",
            parent,
            SpanKind.CONSUMER,
            {
                **_about(client, message),
                "messaging.operation.name": "publish",
                "messaging.operation.type": "receive",
                "messaging.destination.name": address.exchange or "amq.default",
                "flintmq.queues": [queue.name for queue in queues],
            },
            start_time=self._now_ns(),
        )
        if parent is None and span.is_recording():
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier, set_span_in_context(span, Context()))
            message = _carrying(message, carrier)
        span.end(self._now_ns())
        return message

    def released(self, client: Client, queue: Queue, message: Message) -> None:
        # It is stored, and takes no trace along any more: one that began here would have nothing else in it.
        if self._parent(message) is not None:
            self.published(client, message, [queue])

    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        message = entry.message
        span = self._tracer.start_span(
            f"deliver {queue.name}",
            self._parent(message) or Context(),
            SpanKind.PRODUCER,
            {
                **_about(client, message),
                "messaging.operation.name": "deliver",
                "messaging.operation.type": "send",
                "messaging.destination.name": queue.name,
                "flintmq.redelivered": entry.redelivered,
            },
            # As long as the broker had it.
            start_time=int(message.timestamp_ms) * _NS_PER_MS,
        )
        span.end(self._now_ns())

    def end_dispatch(self) -> None:
        """Spans are sent by a thread of their own."""

    def _parent(self, message: Message) -> Context | None:
        """Where the message says that it belongs; None where it says nothing."""
        # A search that finds nothing is cheaper by far than decoding a table.
        if _ENCODED_PARENT not in message.properties:
            return None
        try:
            headers = message.codec.headers(message.properties)
        except FlintError:
            # Its publisher's own affair.
            return None
        for prefix in ("", _ANNOTATED):
            carrier = {
                name: value for name in (_PARENT, _STATE) if isinstance(value := headers.get(prefix + name), str)
            }
            if _PARENT in carrier:
                found = self._propagator.extract(carrier, Context())
                return found or None
        return None


def _about(client: Client, message: Message) -> Mapping[str, AttributeValue]:
    about: dict[str, AttributeValue] = {
        "messaging.system": "flintmq",
        "messaging.rabbitmq.destination.routing_key": message.address.routing_key,
        "messaging.message.body.size": len(message.body),
        "messaging.client.id": client.connection,
        "flintmq.vhost": client.vhost,
        "flintmq.channel": int(client.channel),
        "enduser.id": client.user,
    }
    message_id = _text(message, "message_id")
    if message_id:
        about["messaging.message.id"] = message_id
    correlation_id = _text(message, "correlation_id")
    if correlation_id:
        about["messaging.message.conversation_id"] = correlation_id
    return about


def _text(message: Message, name: str) -> str:
    try:
        return message.codec.property_text(message.properties, name)
    except FlintError:
        return ""


def _carrying(message: Message, carrier: Mapping[str, str]) -> Message:
    """The same message with its trace; the bare message of AMQP 1.0 stays as it is."""
    codec = message.codec
    prefix = _ANNOTATED if codec.format == CODEC_10.format else ""
    context: Table = {prefix + name: value for name, value in carrier.items()}
    try:
        properties = codec.annotated(message.properties, context)
    except FlintError:
        return message
    return Message(
        message.address, codec, properties, message.body, message.options, message.timestamp_ms, message.origin
    )


@final
class SpanExport:
    """Sends spans to a collector, in batches and from a thread of its own; what it cannot send is dropped.

    `endpoint` takes OTLP over HTTP. Of messages without a trace, so many as `ratio` says (0 to 1) begin one; others are
    in their publishers' traces, if these are sampled.
    """

    def __init__(self, endpoint: str, ratio: float, service: str, node: str, version: str) -> None:
        resource = Resource.create({"service.name": service, "service.instance.id": node, "service.version": version})
        self._provider = TracerProvider(ParentBased(TraceIdRatioBased(ratio)), resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint, timeout=_EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))

    @property
    def tracer(self) -> Tracer:
        return self._provider.get_tracer("flintmq")

    def close(self) -> None:
        """Send what there is, which may take seconds."""
        self._provider.shutdown()
