"""Who is first to get a message, a consumer that waits or basic.get: frames of pika's, sent in one go."""

import socket
from collections.abc import Iterator
from typing import Final, TypeVar

import pytest
from pika import frame, spec
from pika.adapters.blocking_connection import BlockingChannel
from pika.amqp_object import Method

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess

ROUNDS: Final = 10
M = TypeVar("M", bound=Method)


class Frames:
    """A connection with one channel, which sends any number of pika's frames at once."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self._received = b""
        self._socket.sendall(frame.ProtocolHeader().marshal())
        self.expect(spec.Connection.Start)
        self.send(spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), channel=0)
        self.expect(spec.Connection.Tune)
        self.send(spec.Connection.TuneOk(1, 131_072, 0), spec.Connection.Open("/"), channel=0)
        self.expect(spec.Connection.OpenOk)
        self.send(spec.Channel.Open())
        self.expect(spec.Channel.OpenOk)

    def close(self) -> None:
        self._socket.close()

    def send(self, *methods: Method, channel: int = 1) -> None:
        """A publish is followed by a message of no bytes."""
        parts: list[bytes] = []
        for method in methods:
            parts.append(frame.Method(channel, method).marshal())
            if isinstance(method, spec.Basic.Publish):
                parts.append(frame.Header(channel, 0, spec.BasicProperties()).marshal())
        self._socket.sendall(b"".join(parts))

    def next(self) -> Method:
        """The next method; messages have no bodies, so that their headers can be passed over."""
        while True:
            used, found = frame.decode_frame(self._received)
            if found is None:
                data = self._socket.recv(65_536)
                assert data, "the broker has hung up"
                self._received += data
                continue
            self._received = self._received[used:]
            if isinstance(found, frame.Method):
                return found.method

    def expect(self, kind: type[M]) -> M:
        method = self.next()
        assert isinstance(method, kind), method
        return method


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Frames]:
    made = Frames(broker.port)
    yield made
    made.close()


@pytest.fixture
def other(broker: BrokerProcess) -> Iterator[Frames]:
    made = Frames(broker.port)
    yield made
    made.close()


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> Iterator[str]:
    channel.queue_declare(name)
    yield name
    channel.queue_delete(name)


def consume(client: Frames, queue: str, no_ack: bool = True) -> None:
    client.send(spec.Basic.Consume(queue=queue, consumer_tag="c", no_ack=no_ack))
    client.expect(spec.Basic.ConsumeOk)


def publish(queue: str) -> spec.Basic.Publish:
    return spec.Basic.Publish(exchange="", routing_key=queue)


def get(queue: str) -> spec.Basic.Get:
    return spec.Basic.Get(queue=queue, no_ack=True)


def test_a_consumer_of_the_same_channel(client: Frames, queue: str) -> None:
    """It gets what was published in front of a basic.get, which finds nothing."""
    consume(client, queue)
    for _ in range(ROUNDS):
        client.send(publish(queue), get(queue))
        assert {type(client.next()), type(client.next())} == {spec.Basic.Deliver, spec.Basic.GetEmpty}


def test_a_consumer_of_another_connection(client: Frames, other: Frames, queue: str) -> None:
    """It was there first, and has room."""
    consume(other, queue)
    for _ in range(ROUNDS):
        client.send(publish(queue), publish(queue), get(queue))
        client.expect(spec.Basic.GetEmpty)
        for _ in range(2):
            other.expect(spec.Basic.Deliver)


def test_a_consumer_without_room(client: Frames, other: Frames, queue: str) -> None:
    """What it cannot take is there for basic.get, and only that."""
    other.send(spec.Basic.Qos(prefetch_count=1))
    other.expect(spec.Basic.QosOk)
    consume(other, queue, no_ack=False)
    client.send(publish(queue), publish(queue), get(queue), get(queue))
    client.expect(spec.Basic.GetOk)
    client.expect(spec.Basic.GetEmpty)
    tag = other.expect(spec.Basic.Deliver).delivery_tag
    other.send(spec.Basic.Ack(delivery_tag=tag))


def test_what_is_given_back(client: Frames, other: Frames, queue: str) -> None:
    """A consumer that waits gets it before the one who gave it back can get it again."""
    client.send(publish(queue), spec.Basic.Get(queue=queue))
    tag = client.expect(spec.Basic.GetOk).delivery_tag
    consume(other, queue)
    client.send(spec.Basic.Nack(delivery_tag=tag, requeue=True), get(queue))
    client.expect(spec.Basic.GetEmpty)
    assert other.expect(spec.Basic.Deliver).redelivered


def test_what_a_transaction_published(client: Frames, other: Frames, queue: str) -> None:
    """The same behind a tx.commit."""
    consume(other, queue)
    client.send(spec.Tx.Select())
    client.expect(spec.Tx.SelectOk)
    client.send(publish(queue), spec.Tx.Commit(), get(queue))
    assert {type(client.next()), type(client.next())} == {spec.Tx.CommitOk, spec.Basic.GetEmpty}
    other.expect(spec.Basic.Deliver)


def test_a_get_that_was_first(client: Frames, queue: str) -> None:
    """A consumer that comes behind it has nothing to say."""
    consuming = spec.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True)
    client.send(publish(queue), get(queue), consuming)
    client.expect(spec.Basic.GetOk)
    client.expect(spec.Basic.ConsumeOk)
