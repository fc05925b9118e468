"""Spans of a broker that runs, as a collector gets them."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

pytest.importorskip("opentelemetry.proto", reason="the extra otel is not installed")

from tests.collector import Collector
from tests.servers import BrokerProcess


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_spans_get_to_the_collector(tmp_path: Path, collector: Collector) -> None:
    """What is published and delivered is there by the time that the broker has stopped, under the broker's name."""
    with BrokerProcess(tmp_path, FLINTMQ_TRACING_ENDPOINT=collector.endpoint) as broker:
        broker.wait_for_log("spans are sent")
        with pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"body")
            method, properties, _ = next(channel.consume("q", auto_ack=True, inactivity_timeout=60))
            assert method is not None
            assert properties.headers is not None
            trace = properties.headers["traceparent"].split("-")[1]
        assert broker.stop() == 0
    # Where the machine is slow, each may have come by itself.
    requests = [collector.requests.get_nowait() for _ in range(collector.requests.qsize())]
    spans = []
    for resource in [resource for request in requests for resource in request.resource_spans]:
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert named["service.name"] == "flintmq"
        spans += [span for scope in resource.scope_spans for span in scope.spans]
    assert [span.name for span in spans] == ["publish amq.default", "deliver q"]
    assert {span.trace_id.hex() for span in spans} == {trace}
