"""Data directories of earlier releases, which let in over HTTP what no client of AMQP 0-9-1 can be told of."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pika
import pytest

from flintmq.app.runtime_environment import CODECS
from flintmq.base.limits import ARGUMENTS_MAX_BYTES, FRAME_MAX_BYTES
from flintmq.broker.broker import Broker
from flintmq.broker.message import Address, Message
from flintmq.broker.ports import BindingRecord, ExchangeRecord, QueueRecord
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.storage.node import NodeStorage
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.servers import BrokerProcess

GUEST = ("guest", "guest")
LONG = "n" * 300


@contextmanager
def offline(data: Path) -> Iterator[Broker]:
    """The broker of a stopped node, whose changes are on the disk afterwards."""
    storage = NodeStorage(data, CODECS, lambda: None)
    try:
        broker = Broker(storage)
        broker.recover(storage.definitions.load())
        yield broker
        storage.commit()
    finally:
        storage.close()


def store(broker: Broker, exchange: str, key: str, body: str, headers: dict[str, object] | None = None) -> None:
    """Past all doors."""
    vhost = broker.vhosts["/"]
    encoded = encode_properties(Properties(delivery_mode=2, headers=headers))
    message = Message(Address(exchange, key), CODEC_091, encoded, body.encode(), CODEC_091.options(encoded), 0)
    vhost.deliver(message, [vhost.queues["q"]])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A queue with messages that can be sent and others that cannot; things with names and arguments too long."""
    with BrokerProcess(tmp_path) as running:
        with httpx.Client(base_url=running.http_url, auth=GUEST, timeout=60) as client:
            client.put("/api/queues/%2F/q", json={"durable": True}).raise_for_status()
        assert running.stop() == 0
        with offline(tmp_path) as old:
            definitions = old.storage.definitions
            definitions.put_queue(QueueRecord(1000, "/", LONG, False, {LONG: "x" * ARGUMENTS_MAX_BYTES}))
            definitions.put_exchange(ExchangeRecord("/", LONG, "fanout", False, False, {}))
            definitions.put_binding(BindingRecord("/", LONG, "q", LONG, {}, "queue"))
            store(old, "", "q", "first")
            store(old, "amq.fanout", LONG, "long key")
            store(old, LONG, "k", "long exchange")
            store(old, "", "q", "large", {"h": "x" * FRAME_MAX_BYTES})
            store(old, "", "q", "last")
        running.start()
        yield running


@pytest.mark.parametrize("way", ["consume", "get"])
def test_what_cannot_be_sent_is_given_up(broker: BrokerProcess, way: str) -> None:
    """Clients get what is behind it, the log and the metrics tell of each, and nothing of it comes back."""
    with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()
        bodies = []
        if way == "consume":
            for method, _, body in channel.consume("q", inactivity_timeout=60):
                assert method is not None
                bodies.append(body)
                channel.basic_ack(method.delivery_tag)
                if len(bodies) == 2:
                    break
            channel.cancel()
        else:
            for _ in range(2):
                method, _, body = channel.basic_get("q")
                bodies.append(body)
                channel.basic_ack(method.delivery_tag)
        assert bodies == [b"first", b"last"]
        # Behind the acknowledgements on its channel.
        assert channel.queue_declare("q", passive=True).method.message_count == 0
    broker.wait_for_log("message given up", matches=lambda line: "properties" in line["reason"])
    assert "flintmq_messages_unsendable_total 3" in httpx.get(f"{broker.http_url}/metrics", auth=GUEST, timeout=60).text
    assert broker.stop() == 0
    broker.start()
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        assert client.get("/api/queues/%2F/q").json()["messages"] == 0


def test_what_is_named_too_long_can_be_deleted(broker: BrokerProcess) -> None:
    """It is listed and can be taken away; nothing is published to it any more."""
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        assert LONG in [queue["name"] for queue in client.get("/api/queues/%2F").json()]
        message = {"routing_key": "", "payload": "", "payload_encoding": "string", "properties": {}}
        assert client.post(f"/api/exchanges/%2F/{LONG}/publish", json=message).status_code == 400
        assert client.delete(f"/api/exchanges/%2F/{LONG}").status_code == 204
        assert client.delete(f"/api/queues/%2F/{LONG}").status_code == 204
