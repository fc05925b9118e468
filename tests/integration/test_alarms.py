"""A broker that runs low: publishers wait, consumers make room, and publishers go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.conformance.amqp091.pressure import BODY, Flood
from tests.hostile.test_greed import resident_bytes
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames
from tests.waiting import wait_until


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that wants more free disk space than there is."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_ALARMS_DISK_FREE_MIN_BYTES=str(1 << 60)) as broker:
        broker.wait_for_log("publishers have to wait", reason="low on disk")
        yield broker


def test_memory_alarm_comes_and_goes(tmp_path: Path) -> None:
    """Publishing into memory is stopped near the watermark, with connection.blocked; consuming makes it go on."""
    limit = 160_000_000
    with BrokerProcess(tmp_path / "data", FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK=str(limit)) as broker:
        with AmqpSocket(broker.port) as publisher, AmqpSocket(broker.port) as consumer:
            publisher.open(capabilities=["connection.blocked"]).open_channel()
            # Now, because a client that does not log in for ten seconds is hung up on.
            consumer.open().open_channel()
            # What is on a last-value queue stays in memory.
            declare = QueueDeclare(queue="q", arguments={"x-last-value-key": "k"})
            publisher.call(1, declare, QueueDeclareOk)
            flood = Flood(lambda: publisher.send(publish_frames(1, "", "q", BODY)))
            blocked = publisher.expect(ConnectionBlocked)
            flood.end(lambda: publisher.send(publish_frames(1, "", "q", b"last")))
            assert blocked == ConnectionBlocked(reason="low on memory")
            line = broker.wait_for_log("publishers have to wait", reason="low on memory")
            assert line["memory_bytes"] > line["memory_max_bytes"] == limit
            consumer.send_method(1, BasicConsume(queue="q", no_ack=True))
            consumer.expect(BasicConsumeOk, 1)
            body = b""
            while body != b"last":
                consumer.read_frame()
                body = consumer.read_content()[1]
            publisher.expect(ConnectionUnblocked)
            publisher.call(1, declare, QueueDeclareOk)
        assert broker.stop() == 0


def test_a_queue_is_deeper_than_the_memory(tmp_path: Path) -> None:
    """Far more than fits is taken without a consumer, and comes back in order, priority and all."""
    limit = 300_000_000
    with BrokerProcess(tmp_path / "data", FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK=str(limit)) as broker:
        with fc.connect(broker.url) as connection:
            channel = connection.channel(confirms=True)
            queue = channel.declare_queue("deep", arguments={"x-max-priority": 1}).name
            for number in range(5_000):
                channel.publish(number.to_bytes(4) + BODY, "", queue, fc.Properties(priority=number % 2))
            channel.wait_for_confirms()
            # On a slow disk, what is to be written waits in the memory for a while.
            wait_until(lambda: resident_bytes(broker.process.pid) < limit)
            assert list((tmp_path / "data" / "pages").iterdir())
            for number in [*range(1, 5_000, 2), *range(0, 5_000, 2)]:
                message = channel.get(queue, no_ack=True)
                assert message is not None
                assert message.body[:4] == number.to_bytes(4)
        assert broker.stop() == 0


def test_disk_alarm_stops_publishers_only(full_disk: BrokerProcess) -> None:
    """A client learns from `blocked` why its publishes wait; another one declares and consumes as ever."""
    with fc.connect(full_disk.url) as connection, fc.connect(full_disk.url) as other:
        channel = connection.channel()
        queue = other.channel().declare_queue("q").name
        channel.publish(b"waits", "", queue)
        _wait_until_blocked(connection)
        assert other.channel().get(queue) is None
        assert other.blocked is None


def test_a_blocked_connection_lives_on_heartbeats(full_disk: BrokerProcess) -> None:
    """Not being read from costs no connection: for more intervals of silence than are allowed, in both directions."""
    # Long enough for this process, or the broker's, to stand still for a while.
    with fc.connect(full_disk.url + "?heartbeat=6") as connection:
        channel = connection.channel()
        channel.publish(b"waits", "", "nowhere")
        _wait_until_blocked(connection)
        connection.process(14)
        assert connection.blocked == "low on disk"
        assert connection.is_open
        ended = [line for line in full_disk.log if line["event"] == "connection ended"]
        assert not ended


def test_a_broker_with_a_blocked_publisher_stops_in_order(full_disk: BrokerProcess) -> None:
    """Its answer to our close stands behind what it sent before, and is found."""
    with fc.connect(full_disk.url) as connection:
        connection.channel().publish(BODY, "", "nowhere")
        _wait_until_blocked(connection)
        full_disk.process.terminate()
        wait_until(lambda: not _is_open(connection))
    assert full_disk.ended() == 0


def _wait_until_blocked(connection: fc.Connection) -> None:
    def is_blocked() -> bool:
        connection.process(0.05)
        return connection.blocked == "low on disk"

    wait_until(is_blocked)


def _is_open(connection: fc.Connection) -> bool:
    try:
        connection.process(0.1)
    except (fc.ConnectionClosed, fc.ConnectionLost):
        return False
    return connection.is_open
