"""/metrics of a broker that runs, with what only a running one has: ticks, syncs and a process."""

import time
from pathlib import Path

import httpx
import pika
from prometheus_client.parser import text_string_to_metric_families

from flintmq.client import amqp10
from tests.servers import BrokerProcess


def _plain(broker: BrokerProcess) -> dict[str, float]:
    response = httpx.get(f"{broker.http_url}/metrics", timeout=60)
    assert response.status_code == 200
    families = text_string_to_metric_families(response.text)
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples
        if not sample.labels or sample.labels == {"protocol": "amqp091"}
    }


def _global(broker: BrokerProcess, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one total that are not 0, by the protocol, and the type of queue where that is a label."""
    response = httpx.get(f"{broker.http_url}/metrics", timeout=60)
    return {
        tuple(sample.labels[label] for label in ("protocol", "queue_type") if label in sample.labels): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name == f"rabbitmq_global_{name}" and sample.value
    }


def test_what_is_published_is_seen(tmp_path: Path) -> None:
    """Counts of messages and connections, how long syncs took, and what the process uses; without a login."""
    with BrokerProcess(tmp_path, FLINTMQ_MANAGEMENT_OPEN_METRICS="true") as broker:
        with pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True)
            for _ in range(3):
                channel.basic_publish("", "q", b"body", pika.BasicProperties(delivery_mode=2))
            found = _plain(broker)
        assert found["rabbitmq_connections"] == 1
        assert found["rabbitmq_channels"] == 1
        assert found["rabbitmq_queues"] == 1
        assert found["rabbitmq_queue_messages_ready"] == 3
        assert found["rabbitmq_global_messages_received_total"] == 3
        assert found["rabbitmq_global_messages_confirmed_total"] == 3
        assert found["rabbitmq_global_messages_received_confirm_total"] == 3
        assert found["rabbitmq_global_publishers"] == 1
        assert found["rabbitmq_connection_incoming_bytes_total"] > 0
        assert found["rabbitmq_connection_outgoing_bytes_total"] > 0
        assert found["flintmq_sync_seconds_count"] >= 3
        assert found["flintmq_sync_seconds_sum"] > 0
        assert found["flintmq_tick_seconds_count"] >= 3
        # The event loop is measured from a tenth of a second after the start.
        while _plain(broker)["flintmq_loop_stall_seconds_count"] == 0:
            time.sleep(0.05)
        assert found["rabbitmq_process_open_fds"] > 0
        assert found["rabbitmq_process_resident_memory_bytes"] > 0
        assert httpx.get(f"{broker.http_url}/api/overview", timeout=60).status_code == 401


def test_totals_by_protocol_and_type_of_queue(tmp_path: Path) -> None:
    """RabbitMQ's labels: what came by either protocol, and went out by either from each type of queue; and it stays so
    when the queues are gone.
    """
    with (
        BrokerProcess(tmp_path, FLINTMQ_MANAGEMENT_OPEN_METRICS="true") as broker,
        pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection,
        amqp10.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}") as other,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in ("classic", "quorum"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            channel.basic_publish("", kind, b"body", pika.BasicProperties(delivery_mode=2))
        with other.sender("/queues/quorum") as sender, other.receiver("/queues/quorum") as receiver:
            sender.send(amqp10.Message(b"body"))
            received = [receiver.receive(60), receiver.receive(60)]
            receiver.accept(*[each for each in received if each is not None])
            assert _global(broker, "publishers") == {("amqp091",): 1, ("amqp10",): 1}
            assert _global(broker, "consumers") == {("amqp10",): 1}
        method, _, _ = channel.basic_get("classic")
        channel.basic_ack(method.delivery_tag)
        channel.basic_get("classic")
        for kind in ("classic", "quorum"):
            assert _global(broker, "messages_received_total") == {("amqp091",): 2, ("amqp10",): 1}
            assert _global(broker, "messages_routed_total") == {("amqp091",): 2, ("amqp10",): 1}
            assert _global(broker, "messages_confirmed_total") == {("amqp091",): 2, ("amqp10",): 1}
            by_10, by_091 = ("amqp10", "rabbit_quorum_queue"), ("amqp091", "rabbit_classic_queue")
            assert _global(broker, "messages_delivered_consume_manual_ack_total") == {by_10: 2}
            assert _global(broker, "messages_delivered_get_manual_ack_total") == {by_091: 1}
            assert _global(broker, "messages_get_empty_total") == {by_091: 1}
            assert _global(broker, "messages_delivered_total") == {by_10: 2, by_091: 1}
            assert _global(broker, "messages_acknowledged_total") == {by_10: 2, by_091: 1}
            channel.queue_delete(kind)


def test_connections_and_channels_one_by_one(tmp_path: Path) -> None:
    """Of either protocol, by the connection's name, its user and virtual host, and the channel's number."""
    with (
        BrokerProcess(tmp_path) as broker,
        pika.BlockingConnection(pika.ConnectionParameters(port=broker.port)) as connection,
        amqp10.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}") as link_connection,
    ):
        channel = connection.channel(7)
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"body")
        channel.basic_qos(prefetch_count=5, global_qos=True)
        channel.basic_consume("q", lambda *_: None)
        connection.process_data_events(1)
        with link_connection.sender("/queues/q") as sender:
            sender.send(amqp10.Message(b"two"))
            text = httpx.get(f"{broker.http_url}/metrics/per-object", auth=("guest", "guest"), timeout=60).text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "channel" in sample.labels:
                assert (sample.labels["user"], sample.labels["vhost"]) == ("guest", "/")
                assert " -> " in sample.labels["connection"]
                found.setdefault(sample.labels["channel"], {})[sample.name] = sample.value
    assert set(found) == {"0", "7"}
    assert found["7"]["rabbitmq_channel_messages_published_total"] == 1
    assert found["7"]["rabbitmq_channel_messages_delivered_ack_total"] >= 1
    assert found["7"]["rabbitmq_channel_consumers"] == 1
    assert found["7"]["rabbitmq_channel_prefetch"] == 5
    assert found["7"]["rabbitmq_channel_messages_unacked"] >= 1
    assert found["0"]["rabbitmq_channel_messages_published_total"] == 1
