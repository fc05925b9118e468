"""What both clients make of servers that are slow, silent, wrong or dead."""

import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
from flintmq.wire.amqp091.methods import BasicAck, BasicCancel, BasicCancelOk, BasicNack
from tests.integration.strange_server import Peer, StrangeServer, deliver, wire
from tests.servers import BrokerProcess

Connect = Callable[..., fc.Connection]


# -- while connecting -------------------------------------------------------------------------------------------


def test_a_server_that_says_nothing_runs_into_the_timeout(connect: Connect) -> None:
    """The timeout covers the handshake, given as an argument or in the URL."""
    over = threading.Event()

    def behave(_: Peer) -> None:
        over.wait(100)

    for url, named in (("", {"timeout": 0.2}), ("?connection_timeout=200", {})):
        over.clear()
        with StrangeServer(behave) as server:
            started = time.monotonic()
            with pytest.raises(fc.ConnectTimeout, match="within 0.2 s"):
                connect(server.url + url, **named)
            assert time.monotonic() - started < 60
            over.set()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", fc.ConnectionClosed),
        (b"AMQP\x00\x01\x00\x00", fc.ConnectionClosed),
        (b"", fc.ConnectionLost),
    ],
)
def test_another_protocol_is_noticed_at_once(connect: Connect, answer: bytes, error: type[Exception]) -> None:
    """A web server, an AMQP 1.0 server, and one that hangs up: each is an error with a type, and no timeout."""
    with StrangeServer(lambda peer: peer.socket.sendall(answer)) as server, pytest.raises(error):
        connect(server.url, timeout=60)


# -- while consuming --------------------------------------------------------------------------------------------


def test_what_comes_while_a_subscription_ends(connect: Connect) -> None:
    """Without acknowledgements nobody else will have it, so the loop gives it out before it ends."""

    def behave(peer: Peer) -> None:
        # In one piece with the answer to the subscription: it is there before the client waits for it.
        consumer, tag = peer.consumer(first=b"1")
        peer.serve(lambda: isinstance(consumer.methods[-1], BasicCancel))
        for number in range(2, 7):
            deliver(consumer, tag, number, b"%d" % number)
        wire(consumer).send(BasicCancelOk(consumer_tag=tag))
        peer.serve()

    with StrangeServer(behave) as server, connect(server.url) as connection:
        batches = connection.channel().consume("q", no_ack=True, batch_size=3, timeout=0.2)
        came = [[message.body for message in batch.messages] for batch in batches]
        assert came == [[b"1"], [b"2", b"3", b"4"], [b"5", b"6"]]


# -- while publishing -------------------------------------------------------------------------------------------


def test_neither_side_waits_for_the_other(connect: Connect) -> None:
    """A server that reads nothing before all its deliveries are out, and a batch larger than any buffer: both go on."""
    count, size = 3000, 10_000

    def behave(peer: Peer) -> None:
        consumer, tag = peer.consumer()
        deliver(consumer, tag, 1, b"")
        publisher = peer.publisher(1)
        for number in range(2, count + 1):
            deliver(consumer, tag, number, bytes(size))
        peer.send()
        peer.serve(lambda: len(publisher.contents) == count)
        wire(publisher).send(BasicAck(delivery_tag=count, multiple=True))
        peer.serve()

    with StrangeServer(behave) as server, connect(server.url) as connection:
        subscription = iter(connection.channel().consume("q", no_ack=True))
        seen = len(next(subscription).messages)
        publisher = connection.channel(confirms=True)
        assert publisher.publish_batch([("", "q", bytes(size))] * count) == count
        while seen < count:
            seen += len(next(subscription).messages)


def test_confirms_that_do_not_come_time_out(connect: Connect) -> None:
    """The caller is told, and may wait again; what was refused meanwhile is reported then."""

    def behave(peer: Peer) -> None:
        publisher = peer.publisher()
        peer.serve(lambda: len(publisher.contents) == 4)
        wire(publisher).send(BasicAck(delivery_tag=1, multiple=False))
        peer.serve(lambda: len(publisher.contents) == 5)
        wire(publisher).send(BasicNack(delivery_tag=3, multiple=True))
        wire(publisher).send(BasicAck(delivery_tag=5, multiple=True))
        peer.serve()

    with StrangeServer(behave) as server, connect(server.url) as connection:
        channel = connection.channel(confirms=True)
        with pytest.raises(fc.TimedOut, match="confirmed all messages within 0.2 s"):
            channel.publish_batch([("", "q", b"")] * 4, timeout=0.2)
        channel.publish(b"", routing_key="q")
        with pytest.raises(fc.PublishFailed) as failed:
            channel.wait_for_confirms(timeout=60)
        assert failed.value.nacked == [1, 2]


def test_a_server_that_stops_reading_times_out(connect: Connect) -> None:
    """A batch that nobody takes does not wait for ever, however full the buffers are."""
    over = threading.Event()

    def behave(peer: Peer) -> None:
        peer.publisher()
        over.wait(100)

    with StrangeServer(behave) as server:
        connection = connect(server.url)
        channel = connection.channel(confirms=True)
        with pytest.raises(fc.TimedOut):
            channel.publish_batch([("", "q", bytes(100_000))] * 1000, timeout=0.5)
        over.set()
        connection.close()


def test_a_server_that_closes_is_quoted(connect: Connect) -> None:
    """A connection.close in the middle of a batch is what the batch raises."""

    def behave(peer: Peer) -> None:
        peer.publisher()
        peer.side.engine.close(320, "CONNECTION_FORCED - going down")
        peer.serve(lambda: peer.side.engine.state.value == "closed")

    with StrangeServer(behave) as server, connect(server.url) as connection:
        channel = connection.channel(confirms=True)
        with pytest.raises(fc.ConnectionClosed, match="320 CONNECTION_FORCED - going down"):
            channel.publish_batch([("", "q", bytes(1000))] * 10_000, timeout=60)
        assert not connection.is_open


def test_a_blocked_connection_says_why(connect: Connect) -> None:
    """The server's reason is there while it takes no publishes, and gone afterwards."""
    step = threading.Semaphore(0)

    def behave(peer: Peer) -> None:
        peer.serve(lambda: peer.side.engine.state.value == "open")
        peer.side.engine.blocked("low on disk")
        peer.send()
        step.acquire(timeout=60)
        peer.side.engine.blocked(None)
        peer.serve()

    with StrangeServer(behave) as server, connect(server.url) as connection:
        stop = time.monotonic() + 60
        while connection.blocked is None and time.monotonic() < stop:
            connection.process(0.01)
        assert connection.blocked == "low on disk"
        step.release()
        unblocked = False
        while not unblocked and time.monotonic() < stop:
            connection.process(0.01)
            unblocked = connection.blocked is None
        assert unblocked


# -- while waiting ----------------------------------------------------------------------------------------------


def test_a_server_that_falls_silent_is_given_up(connect: Connect) -> None:
    """Two heartbeats missed end a subscription that would have waited for ever."""
    over = threading.Event()

    def behave(peer: Peer) -> None:
        peer.consumer()
        over.wait(100)

    with StrangeServer(behave) as server:
        connection = connect(server.url + "?heartbeat=1")
        with pytest.raises(fc.ConnectionLost, match="heartbeat"):
            next(iter(connection.channel().consume("q")))
        assert not connection.is_open
        over.set()
        connection.close()


def test_nonsense_from_a_server_ends_the_connection(connect: Connect) -> None:
    """What cannot be read is a typed error of the call that met it."""

    def behave(peer: Peer) -> None:
        peer.consumer()
        peer.socket.sendall(b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x3c\x00")
        peer.serve(lambda: peer.side.engine.state.value == "closed")

    with StrangeServer(behave) as server, connect(server.url) as connection:
        subscription = iter(connection.channel().consume("q"))
        with pytest.raises(fc.ConnectionClosed, match="broke the protocol"):
            next(subscription)


@pytest.mark.parametrize("call", ["consume", "publish"])
def test_a_broker_that_dies_is_noticed(connect: Connect, call: str, tmp_path: Path) -> None:
    """A killed broker ends what waits for it, as a lost connection, at once and at every later call."""
    with BrokerProcess(tmp_path / "data") as broker, connect(broker.url) as connection:
        channel = connection.channel(confirms=True)
        name = channel.declare_queue(durable=False).name
        endless: Iterator[fc.Publish] = (fc.Publish("", name, bytes(100)) for _ in itertools.count())
        wait: dict[str, Callable[[], object]] = {
            "consume": lambda: next(iter(channel.consume(name))),
            "publish": lambda: channel.publish_batch(endless),
        }
        timer = threading.Timer(0.3, broker.process.kill)
        timer.start()
        started = time.monotonic()
        with pytest.raises(fc.ConnectionLost):
            wait[call]()
        assert time.monotonic() - started < 60
        with pytest.raises(fc.ConnectionLost):
            channel.get(name)
        timer.join()


def test_leaving_a_loop_after_the_connection_was_lost(tmp_path: Path) -> None:
    """The subscription went with the connection, so to end it is no error; the next call says what happened."""
    with BrokerProcess(tmp_path / "data") as broker, fc.connect(broker.url) as connection:
        channel = connection.channel()
        name = channel.declare_queue(durable=False).name
        channel.publish(b"m", routing_key=name)
        batches = channel.consume(name)
        assert [message.body for message in next(batches).messages] == [b"m"]
        broker.kill()
        assert isinstance(batches, Generator)
        batches.close()
        with pytest.raises(fc.ConnectionLost):
            channel.get(name)
