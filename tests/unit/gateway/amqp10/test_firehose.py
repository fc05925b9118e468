"""The firehose for links of AMQP 1.0; what copies say is tested with AMQP 0-9-1."""

from flintmq.wire.amqp091.properties import Properties, decode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp10.pair import Client, Server


def test_links_are_traced() -> None:
    """A publish and a delivery by links are copied, with the properties as AMQP 0-9-1 has them, and the bare body."""
    server = Server()
    server.queue("q")
    server.queue("traces")
    traces = server.vhost.queues["traces"]
    server.vhost.exchanges.bind_queue(traces, "amq.rabbitmq.trace", "#", {})
    server.gateway.tracing.trace(server.vhost, True)
    client = Client(server)
    client.sender().send("hello", properties=Properties10(message_id="m1"))
    client.tick()
    assert client.receiver().bodies() == ["hello"]
    found = []
    while (entry := got(traces)) is not None:
        headers = decode_properties(entry.message.properties).headers or {}
        found.append((entry.message.address.routing_key, entry.message.body, headers))
    (published, delivered) = found
    assert published[:2] == ("publish.", b"hello")
    assert delivered[:2] == ("deliver.q", b"hello")
    assert published[2]["routed_queues"] == ["q"]
    assert published[2]["connection"] == "test:1"
    described = published[2]["properties"]
    assert isinstance(described, dict)
    assert Properties(**described).message_id == "m1"
    assert delivered[2]["redelivered"] == 0
