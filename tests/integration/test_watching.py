"""The audit log and the firehose of a broker that runs, by whichever way it is administered."""

import json
from pathlib import Path

import httpx
import pika

from tests.servers import BrokerProcess


def test_acts_of_all_interfaces_are_in_one_file(tmp_path: Path) -> None:
    """By AMQP and by HTTP, done and refused, in their order, and never with a password."""
    file = tmp_path / "audit.log"
    with BrokerProcess(tmp_path / "data", FLINTMQ_LOG_AUDIT_FILE=str(file)) as broker:
        with pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection:
            connection.channel().queue_declare("orders", durable=True)
        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client:
            client.put("/api/users/ann", json={"password": "planted-secret", "tags": "management"})
            client.get("/api/users")
        httpx.delete(f"{broker.http_url}/api/users/guest", auth=("ann", "planted-secret"), timeout=60)
    text = file.read_text()
    assert "planted-secret" not in text
    acts = [json.loads(line) for line in text.splitlines()]
    assert [(act["user"], act["interface"], act["name"], act["result"] == "done") for act in acts] == [
        ("guest", "amqp 0-9-1", "queue 'orders'", True),
        ("guest", "http", "ann", True),
        ("ann", "http", "guest", False),
    ]
    assert all(act["peer"].startswith("127.0.0.1:") for act in acts)


def test_the_firehose_is_turned_on_over_http(tmp_path: Path) -> None:
    """From then on what is published is copied, and no more once it is off."""
    with (
        BrokerProcess(tmp_path) as broker,
        httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client,
        pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("traces")
        channel.queue_bind("traces", "amq.rabbitmq.trace", "publish.#")
        for tracing in (True, False):
            assert client.put("/api/vhosts/%2F", json={"tracing": tracing}).is_success
            assert client.get("/api/vhosts/%2F").json()["tracing"] is tracing
            channel.basic_publish("amq.fanout", "key", str(tracing).encode())
        method, properties, body = channel.basic_get("traces", auto_ack=True)
        assert method is not None
        assert (method.routing_key, body) == ("publish.amq.fanout", b"True")
        assert properties.headers is not None
        assert properties.headers["routing_keys"] == ["key"]
        assert channel.basic_get("traces", auto_ack=True)[0] is None
