"""Both clients against a running broker: what holds for one has to hold for the other."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import flintmq.client as fc
from tests.integration.conftest import WAYS, Connect, connecting
from tests.servers import BrokerProcess

STREAM = {"x-queue-type": "stream"}
PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))


@pytest.fixture
def connection(connect: Connect, broker: BrokerProcess) -> Iterator[fc.Connection]:
    with connect(broker.url) as made:
        yield made


@pytest.fixture
def queue(connection: fc.Connection) -> str:
    """A queue of this test alone."""
    return connection.channel().declare_queue(exclusive=True).name


# -- connecting -------------------------------------------------------------------------------------------------


def test_a_connection_knows_its_server(connection: fc.Connection) -> None:
    """The server's properties are there; nothing is blocked, and the connection is open until it is closed."""
    properties = connection.server_properties
    assert properties["product"] == "FlintMQ"
    assert {"host", "version", "platform", "copyright", "information"} <= set(properties)
    assert properties["capabilities"] == dict.fromkeys(
        (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
            "flintmq.stream",
            "flintmq.lease",
            "flintmq.lease.query",
            "flintmq.stage",
        ),
        True,
    )
    assert connection.blocked is None
    assert connection.is_open
    connection.close()
    assert not connection.is_open
    connection.close()
    with pytest.raises(fc.ConnectionClosed):
        connection.channel()


def test_a_refused_login_has_its_own_type(connect: Connect, broker: BrokerProcess) -> None:
    """Wrong passwords and unknown virtual hosts can be told apart, and neither takes until a timeout."""
    with pytest.raises(fc.LoginRefused) as refused:
        connect(f"amqp://guest:wrong@127.0.0.1:{broker.port}")
    assert refused.value.code == 403
    with pytest.raises(fc.ConnectionClosed, match="vhost nowhere not found") as unknown:
        connect(f"amqp://127.0.0.1:{broker.port}/nowhere")
    assert unknown.value.code == 530


def test_a_password_can_be_given_again(connection: fc.Connection) -> None:
    """update_secret is answered, and the connection goes on."""
    connection.update_secret("guest", "renewed")
    connection.channel().close()


def test_nobody_there_is_an_error_with_the_address(connect: Connect) -> None:
    """A refused connection says where nobody listened."""
    with pytest.raises(fc.ConnectFailed, match="127.0.0.1:1: "):
        connect("amqp://127.0.0.1:1")
    with pytest.raises(fc.ConnectFailed, match="no host can have this name"):
        connect("amqp://" + "a" * 70)


# -- exchanges, queues, bindings --------------------------------------------------------------------------------


def test_what_is_declared_routes(connection: fc.Connection) -> None:
    """Exchanges, queues and bindings come and go, and messages follow the bindings."""
    with connection.channel(confirms=True) as channel:
        channel.declare_exchange("client-topic", "topic", durable=False, auto_delete=False)
        info = channel.declare_queue("client-declared", durable=False)
        assert info == fc.QueueInfo("client-declared", 0, 0)
        channel.bind("client-declared", "client-topic", "a.*")
        sent = [("client-topic", "a.1", b"in"), ("client-topic", "b.1", b"out")]
        assert channel.publish_batch(sent) == 2
        assert channel.declare_queue("client-declared", passive=True).message_count == 1
        channel.unbind("client-declared", "client-topic", "a.*")
        channel.publish_batch(sent)
        assert channel.purge_queue("client-declared") == 1
        channel.publish_batch([("", "client-declared", b"1")])
        assert channel.delete_queue("client-declared") == 1
        channel.delete_exchange("client-topic")
        with pytest.raises(fc.ChannelClosed) as closed:
            channel.declare_exchange("client-topic", passive=True)
    assert closed.value.code == 404
    assert "no exchange 'client-topic'" in closed.value.text
    assert connection.is_open


# -- publishing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4088, 65_536, 131_064, 131_065, 3_000_000])
def test_bodies_of_any_size_come_back_whole(connection: fc.Connection, queue: str, size: int) -> None:
    """At, below and above the size of a frame, and of what is sent without copying."""
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    with connection.channel(confirms=True) as channel:
        channel.publish(body, routing_key=queue)
        channel.wait_for_confirms()
        delivery = channel.get(queue, no_ack=True)
    assert delivery is not None
    assert delivery.body == body


def test_properties_come_back_as_they_were(connection: fc.Connection, queue: str) -> None:
    """All of them, decoded when they are asked for, and also as the bytes that travelled."""
    properties = fc.Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers={"n": 1, "deep": {"list": [True, None, "x"]}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    with connection.channel(confirms=True) as channel:
        channel.publish_batch([("", queue, b"", properties)])
        delivery = channel.get(queue)
        assert delivery is not None
        assert delivery.properties == properties
        assert delivery.encoded_properties == fc.encode_properties(properties)
        assert (delivery.exchange, delivery.routing_key, delivery.redelivered) == ("", queue, False)
        channel.nack(delivery.delivery_tag)
        again = channel.get(queue)
        assert again is not None
        assert again.redelivered
        channel.ack(again.delivery_tag)
        assert channel.get(queue) is None


def test_a_batch_is_confirmed_whole(connection: fc.Connection, queue: str) -> None:
    """From any iterable, of any length, several times on one channel, with all that was published before."""
    with connection.channel(confirms=True) as channel:
        assert channel.publish_batch([]) == 0
        channel.publish(b"before", routing_key=queue)
        assert channel.publish_batch(("", queue, b"%d" % n, PERSISTENT) for n in range(20_000)) == 20_000
        assert channel.publish_batch([fc.Publish("", queue, b"")] * 3) == 3
        assert channel.declare_queue(queue, passive=True).message_count == 20_004


def test_a_batch_that_came_back_says_what(connection: fc.Connection, queue: str) -> None:
    """Mandatory messages that nobody wanted fail the batch; the others are on their queue, and the channel goes on."""
    with connection.channel(confirms=True) as channel:
        with pytest.raises(fc.PublishFailed) as failed:
            channel.publish_batch(
                fc.Publish("", target, b"%d" % n, mandatory=True)
                for n, target in enumerate([queue, "nowhere", queue, "nobody"])
            )
        assert failed.value.nacked == []
        assert [(back.routing_key, back.body) for back in failed.value.returned] == [
            ("nowhere", b"1"),
            ("nobody", b"3"),
        ]
        assert channel.publish_batch([("", queue, b"more")]) == 1
        assert channel.declare_queue(queue, passive=True).message_count == 3


def test_a_batch_to_nowhere_is_a_closed_channel(connection: fc.Connection) -> None:
    """The server closes the channel in the middle of the batch; that is what the caller is told."""
    channel = connection.channel(confirms=True)
    with pytest.raises(fc.ChannelClosed) as closed:
        channel.publish_batch(("no-such-exchange", "", bytes(1000)) for _ in range(5000))
    assert closed.value.code == 404
    assert not channel.is_open
    assert connection.channel().declare_queue(exclusive=True).name


def test_confirms_have_to_be_asked_for(connection: fc.Connection) -> None:
    """A batch on a channel without confirms could never end, so it does not begin."""
    with connection.channel() as channel, pytest.raises(fc.LocalProtocolError, match="confirms=True"):
        channel.publish_batch([])


def test_an_error_in_the_iterable_is_the_callers(connection: fc.Connection, queue: str) -> None:
    """It is raised as it is; what was published before it is confirmed with the next batch."""

    def broken() -> Iterator[fc.Publish]:
        yield fc.Publish("", queue, b"1")
        raise ZeroDivisionError

    with connection.channel(confirms=True) as channel:
        with pytest.raises(ZeroDivisionError):
            channel.publish_batch(broken())
        assert channel.publish_batch([("", queue, b"2")]) == 1
        assert channel.declare_queue(queue, passive=True).message_count == 2


def test_a_batch_is_sent_while_the_one_before_is_confirmed(connection: fc.Connection, queue: str) -> None:
    """publish_ahead returns with the batches before confirmed, and wait_for_confirms with the last one."""
    with connection.channel(confirms=True) as channel:
        for number in range(1, 6):
            channel.publish_ahead(("", queue, bytes(100), PERSISTENT) for _ in range(1000))
            assert channel.published == number * 1000
            assert channel.confirmed >= (number - 1) * 1000
        channel.wait_for_confirms()
        assert channel.confirmed == 5000
        assert not channel.has_failures
        assert channel.declare_queue(queue, passive=True).message_count == 5000


def test_a_batch_sent_ahead_that_came_back(connection: fc.Connection, queue: str) -> None:
    """A message that no queue wanted fails the call that waits for it, and the channel stays open."""
    with connection.channel(confirms=True) as channel:
        with pytest.raises(fc.PublishFailed) as failed:  # noqa: PT012 - any of the calls may raise it
            channel.publish_ahead([fc.Publish("", "nowhere", b"lost", mandatory=True)])
            channel.publish_ahead([fc.Publish("", queue, b"kept")])
            channel.wait_for_confirms()
        assert [back.body for back in failed.value.returned] == [b"lost"]
        assert channel.publish_batch([fc.Publish("", queue, b"more")]) == 1


def test_an_iterable_that_takes_too_long(connection: fc.Connection, broker: BrokerProcess, queue: str) -> None:
    """A batch that cannot be confirmed in time raises TimedOut, and its channel stays open."""

    def slow() -> Iterator[fc.Publish]:
        for _ in range(2):
            time.sleep(0.1)
            yield fc.Publish("", queue, bytes(300_000))
        # Without a broker that stands still, the last confirm may be there before anything waits for it.
        broker.process.send_signal(signal.SIGSTOP)
        yield fc.Publish("", queue, bytes(300_000))

    with connection.channel(confirms=True) as channel:
        try:
            with pytest.raises(fc.TimedOut, match=r"confirmed all messages within 0.1 s"):
                channel.publish_batch(slow(), timeout=0.1)
        finally:
            broker.process.send_signal(signal.SIGCONT)
        channel.wait_for_confirms()
        assert channel.is_open


def test_a_late_error_is_told_by_a_later_call(connection: fc.Connection) -> None:
    """publish waits for nothing, so what it did wrong comes out afterwards."""
    channel = connection.channel()
    channel.publish(b"", exchange="no-such-exchange")
    with pytest.raises(fc.ChannelClosed):
        channel.declare_queue(exclusive=True)


# -- consuming --------------------------------------------------------------------------------------------------


def test_everything_is_consumed_once_and_in_order(connection: fc.Connection, queue: str) -> None:
    """Batches are no larger than asked for, and acknowledging them leaves nothing behind."""
    bodies = [b"%d" % n for n in range(5000)]
    with connection.channel(confirms=True) as channel:
        channel.publish_batch(("", queue, body) for body in bodies)
        came: list[bytes] = []
        for batch in channel.consume(queue, prefetch=300, batch_size=100, timeout=60):
            assert 1 <= len(batch.messages) <= 100
            came += [message.body for message in batch.messages]
            batch.ack()
            if len(came) == len(bodies):
                break
        assert came == bodies
    with connection.channel() as channel:
        assert channel.declare_queue(queue, passive=True) == fc.QueueInfo(queue, 0, 0)


def test_silence_ends_a_subscription(connection: fc.Connection, queue: str) -> None:
    """After `timeout` seconds without a message the loop ends, and no consumer is left."""
    with connection.channel() as channel:
        started = time.monotonic()
        assert list(channel.consume(queue, timeout=0.3)) == []
        # A timer of uvloop counts whole milliseconds.
        assert time.monotonic() - started >= 0.299
        assert channel.declare_queue(queue, passive=True).consumer_count == 0


def test_leaving_the_loop_gives_back_what_was_not_handed_out(connection: fc.Connection, queue: str) -> None:
    """What was prefetched is ready for others at once; the batch in hand is still its holder's to settle."""
    with connection.channel(confirms=True) as channel:
        channel.publish_batch([("", queue, b"x")] * 50)
        subscription = iter(channel.consume(queue, batch_size=10, timeout=60))
        batch = next(subscription)
        del subscription
        held = len(batch.messages)
        assert channel.declare_queue(queue, passive=True) == fc.QueueInfo(queue, 50 - held, 0)
        batch.ack()
    assert connection.channel().declare_queue(queue, passive=True).message_count == 50 - held


def test_what_is_not_acknowledged_comes_again(connection: fc.Connection, queue: str) -> None:
    """Given back, or left behind by a closed channel: redelivered, and in its old place."""
    with connection.channel(confirms=True) as channel:
        channel.publish_batch(("", queue, b"%d" % n) for n in range(10))
        for batch in channel.consume(queue, timeout=60):
            batch.nack()
            break
        for batch in channel.consume(queue, timeout=60):
            assert all(message.redelivered for message in batch.messages)
            break
    with connection.channel() as channel:
        came: list[bytes] = []
        for batch in channel.consume(queue, timeout=60):
            came += [message.body for message in batch.messages]
            batch.nack(requeue=False)
            if len(came) >= 10:
                break
        assert came == [b"%d" % n for n in range(10)]
        assert channel.declare_queue(queue, passive=True).message_count == 0


def test_no_ack_needs_no_acknowledgement(connection: fc.Connection, queue: str) -> None:
    """Messages are done with when they were sent; acknowledging such a batch is harmless."""
    with connection.channel(confirms=True) as channel:
        channel.publish_batch([("", queue, b"x")] * 2000)
        seen = 0
        for batch in channel.consume(queue, no_ack=True, batch_size=100, timeout=60):
            seen += len(batch.messages)
            batch.ack()
            if seen >= 2000:
                break
        assert seen == 2000
        assert channel.get(queue) is None


def test_a_deleted_queue_ends_its_subscription(connection: fc.Connection) -> None:
    """The loop raises, and the channel goes on."""
    with connection.channel(confirms=True) as channel:
        channel.declare_queue("client-doomed", durable=False)
        channel.publish_batch([("", "client-doomed", b"x")])
        subscription = iter(channel.consume("client-doomed", timeout=60))
        next(subscription).ack()
        connection.channel().delete_queue("client-doomed")
        with pytest.raises(fc.ConsumerCancelled, match="queue is gone"):
            next(subscription)
        assert channel.declare_queue(exclusive=True).name


def test_two_subscriptions_share_a_connection(connection: fc.Connection, queue: str) -> None:
    """While one is read, the other's messages wait; neither acknowledges for the other."""
    with connection.channel(confirms=True) as one, connection.channel() as two:
        other = two.declare_queue(exclusive=True).name
        one.publish_batch([("", queue, b"a"), ("", other, b"b")] * 1000)
        streams = [iter(two.consume(name, timeout=60, batch_size=50)) for name in (queue, other)]
        counts = [0, 0]
        while sum(counts) < 2000:
            for place, stream in enumerate(streams):
                if counts[place] < 1000:
                    batch = next(stream)
                    assert {message.body for message in batch.messages} == {b"ab"[place : place + 1]}
                    counts[place] += len(batch.messages)
                    batch.ack()
        assert counts == [1000, 1000]
    with connection.channel() as channel:
        assert channel.declare_queue(queue, passive=True).message_count == 0


# -- streams ----------------------------------------------------------------------------------------------------


@pytest.fixture
def stream(connection: fc.Connection) -> Iterator[str]:
    """A stream of 1,000 messages, "0" to "999"."""
    with connection.channel(confirms=True) as channel:
        channel.declare_queue("client-stream", arguments=dict(STREAM))
        channel.publish_batch(("", "client-stream", b"%d" % n, PERSISTENT) for n in range(1000))
        yield "client-stream"
        if channel.is_open:
            channel.delete_queue("client-stream")


def test_a_stream_is_read_by_ranges(connection: fc.Connection, stream: str) -> None:
    """A chunk has the offsets it says, in order, and what comes next; ranges may be read again."""
    with connection.channel() as channel:
        info = channel.stream_query(stream)
        assert info == fc.StreamInfo(0, 1000, 0, info.number)
        assert info.number > 0
        for _ in range(2):
            chunk = channel.stream_fetch(stream, 10, 20)
            assert (chunk.first_offset, chunk.next_offset, chunk.record_count) == (10, 20, 10)
            assert [(record.offset, record.body) for record in chunk.records] == [(n, b"%d" % n) for n in range(10, 20)]
            assert chunk.records[0].properties == PERSISTENT
            assert chunk.records[0].routing_key == stream
        small = channel.stream_fetch(stream, 0, 1000, max_bytes=500)
        assert 0 < small.next_offset < 1000
        empty = channel.stream_fetch(stream, 1000, 2000)
        assert (empty.next_offset, empty.record_count, empty.data, empty.records) == (1000, 0, b"", [])


@pytest.mark.parametrize(("start", "end"), [(0, 1000), (0, 1 << 62), (995, 1000), (1000, 1 << 62), (500, 500)])
def test_chunks_cover_a_range(connection: fc.Connection, stream: str, start: int, end: int) -> None:
    """One chunk after the other, without gaps, up to the end of the range or of the stream."""
    with connection.channel() as channel:
        chunks = list(channel.stream_chunks(stream, start, end, max_bytes=1000))
        assert [record.offset for chunk in chunks for record in chunk.records] == list(range(start, min(end, 1000)))
        assert channel.stream_query(stream).next_offset == 1000


def test_chunks_may_be_left(connection: fc.Connection, stream: str) -> None:
    """The chunk that was asked for ahead is nobody else's answer."""
    with connection.channel() as channel:
        for chunk in channel.stream_chunks(stream, 0, 1000, max_bytes=1000):
            assert chunk.first_offset == 0
            break
        assert channel.stream_query(stream).next_offset == 1000


def test_a_time_is_found_in_a_stream(connection: fc.Connection, stream: str) -> None:
    """offset_at is the first message at or after a time: none is before the first one's, all are before the future."""
    with connection.channel() as channel:
        first = channel.stream_fetch(stream, 0, 1).records[0].timestamp_ms
        assert channel.stream_query(stream, first).offset_at == 0
        assert channel.stream_query(stream, first + 3_600_000).offset_at == 1000


def test_a_span_of_bytes(connection: fc.Connection, stream: str) -> None:
    """Where so many bytes end is within the range that was asked about."""
    with connection.channel() as channel:
        assert channel.stream_span(stream, 10, 500, 1 << 30) == 500
        assert 10 < channel.stream_span(stream, 10, 500, 1) <= 500


def test_ranges_are_for_streams(connection: fc.Connection, queue: str) -> None:
    """An ordinary queue has no offsets."""
    with pytest.raises(fc.ChannelClosed, match="not a stream") as closed:
        connection.channel().stream_query(queue)
    assert closed.value.code == 406


def test_a_stream_is_consumed_from_an_offset(connection: fc.Connection, stream: str) -> None:
    """A subscription to a stream begins where it is told to."""
    with connection.channel() as channel:
        came: list[bytes] = []
        for batch in channel.consume(stream, arguments={"x-stream-offset": 990}, timeout=60):
            came += [message.body for message in batch.messages]
            batch.ack()
            if len(came) >= 10:
                break
    assert came == [b"%d" % n for n in range(990, 1000)]


# -- time -------------------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_connection(broker: BrokerProcess) -> None:
    """A connection that only processes lives on for more intervals than it may be silent for. All ways at once."""

    def lives(way: str) -> bool:
        # Long enough for this process, or the broker's, to stand still for a while.
        with connecting(way) as connect, connect(broker.url + "?heartbeat=6") as connection:
            connection.process(14)
            return bool(connection.channel().declare_queue(exclusive=True).name)

    with ThreadPoolExecutor(len(WAYS)) as pool:
        assert all(pool.map(lives, WAYS))
