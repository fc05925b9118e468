"""OpenTelemetry spans: one for each message that is published, and one for each delivery, in the publisher's trace.

The trace context of a message is its publisher's (W3C Trace Context: traceparent and tracestate, as headers or
application properties) and is never replaced: consumers continue the publisher's trace whether or not the broker
records spans. A message without a context starts a trace here, and carries it from then on.
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
# The broker's own fields of an AMQP 1.0 message are message annotations; of other annotations, only those with x-
# become headers.
_ANNOTATED: Final = "x-opt-"
_ENCODED_PARENT: Final = _PARENT.encode()
_EXPORT_SECONDS: Final = 5.0
_NS_PER_MS: Final = 1_000_000


@final
class Spans(Tap):
    """Records spans. `now_ns` returns Unix time in ns."""

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
            message = _with_context(message, carrier)
        span.end(self._now_ns())
        return message

    def committed(self, client: Client, queue: Queue, message: Message) -> None:
        # The message is stored already and cannot get a trace context any more; a trace that began here would have one
        # span only.
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
            # The span begins when the broker received the message.
            start_time=int(message.timestamp_ms) * _NS_PER_MS,
        )
        span.end(self._now_ns())

    def end_dispatch(self) -> None:
        """Do nothing: a thread of its own sends the spans."""

    def _parent(self, message: Message) -> Context | None:
        """The trace context of a message; None if it has none."""
        # A search in the encoded properties is much cheaper than decoding a table.
        if _ENCODED_PARENT not in message.properties:
            return None
        try:
            headers = message.codec.headers(message.properties)
        except FlintError:
            # A malformed table is the publisher's problem.
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


def _with_context(message: Message, carrier: Mapping[str, str]) -> Message:
    """A copy of the message with a trace context; the bare message of AMQP 1.0 does not change."""
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
    """Sends spans to a collector, in batches and in a thread of its own. Spans that cannot be sent are dropped.

    `endpoint` accepts OTLP over HTTP. `ratio` (0 to 1) is the share of messages without a trace that start one; other
    messages belong to their publishers' traces, if these are sampled.
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
        """Send the remaining spans, which may take seconds."""
        self._provider.shutdown()
