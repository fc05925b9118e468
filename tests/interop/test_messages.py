"""Messages, by every client: published, confirmed, returned, delivered, fetched, and settled in every way."""

from typing import Final

import pytest

from tests.interop.peer import Peer, PeerChannel, Returned
from tests.interop.samples import PROPERTIES, headers_of

MIB: Final = 1024 * 1024


@pytest.fixture
def channel(peer: Peer) -> PeerChannel:
    return peer.channel(confirms=True)


@pytest.fixture
def queue(channel: PeerChannel) -> str:
    return channel.declare_queue(exclusive=True).queue


def fill(channel: PeerChannel, queue: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        channel.publish("", queue, body)
    return bodies


def get_all(channel: PeerChannel, queue: str) -> list[tuple[bytes, bool]]:
    """Everything in the queue, with the redelivered flags."""
    taken = []
    while message := channel.get(queue, no_ack=True):
        taken.append((message.body, message.redelivered))
    return taken


def test_confirmed(channel: PeerChannel, name: str) -> None:
    """A confirmed message is in its queue, on its way through a durable one as through a transient one."""
    durable = channel.declare_queue(name, durable=True).queue
    for mode in (1, 2):
        channel.publish("", durable, b"kept", {"delivery_mode": mode})
    assert channel.declare_queue(durable, passive=True).messages == 2
    assert channel.delete_queue(durable) == 2


def test_unconfirmed(peer: Peer, name: str) -> None:
    """A channel without confirms publishes in order too."""
    channel = peer.channel()
    queue = channel.declare_queue(exclusive=True).queue
    bodies = fill(channel, queue, 100)
    channel.round_trip()
    assert get_all(channel, queue) == [(body, False) for body in bodies]


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 8 * MIB], ids=lambda size: f"{size} bytes")
def test_body(channel: PeerChannel, queue: str, size: int) -> None:
    """A body comes back as it went, be it empty, a frame, a byte more than a frame, or many frames."""
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    channel.publish("", queue, body)
    fetched = channel.get(queue, no_ack=True)
    assert fetched is not None
    assert fetched.body == body
    channel.publish("", queue, body)
    channel.consume(queue, no_ack=True)
    assert channel.take()[0].body == body


def test_properties(peer: Peer, channel: PeerChannel, queue: str) -> None:
    """All properties come back, and headers of all types the client has, by get and by delivery."""
    sent = {**PROPERTIES, "headers": headers_of(peer)}
    channel.publish("", queue, b"", sent)
    channel.publish("", queue, b"", sent)
    fetched = channel.get(queue, no_ack=True)
    channel.consume(queue, no_ack=True)
    for message in (fetched, channel.take()[0]):
        assert message is not None
        assert {key: message.properties[key] for key in sent} == sent


def test_get(channel: PeerChannel, queue: str) -> None:
    """Get says where a message came from, takes the oldest first, and finds an empty queue empty."""
    assert channel.get(queue) is None
    fill(channel, queue, 2)
    first, second = channel.get(queue), channel.get(queue)
    assert first is not None
    assert second is not None
    assert (first.body, first.exchange, first.routing_key, first.redelivered) == (b"0", "", queue, False)
    assert (second.body, second.tag) == (b"1", first.tag + 1)
    channel.ack(second.tag, multiple=True)
    assert channel.declare_queue(queue, passive=True).messages == 0


def test_mandatory(channel: PeerChannel, queue: str) -> None:
    """A mandatory message that no queue takes is returned, and one that is routed is not."""
    channel.publish("amq.direct", "nowhere", b"lost", {"message_id": "m"}, mandatory=True)
    channel.publish("", queue, b"found", mandatory=True)
    channel.take_all()
    assert channel.returned == [Returned(312, "NO_ROUTE", "amq.direct", "nowhere", b"lost")]
    assert get_all(channel, queue) == [(b"found", False)]


def test_prefetch_and_acks(channel: PeerChannel, queue: str) -> None:
    """A consumer holds no more than its prefetch; each ack lets as many follow, in order."""
    bodies = fill(channel, queue, 10)
    channel.qos(3)
    channel.consume(queue)
    held = channel.take_all()
    assert [message.body for message in held] == bodies[:3]
    channel.ack(held[0].tag)
    assert [message.body for message in channel.take_all()] == bodies[3:4]
    channel.ack(held[2].tag + 1, multiple=True)
    assert [message.body for message in channel.take_all()] == bodies[4:7]
    channel.ack(held[2].tag + 4, multiple=True)
    last = channel.take(3)
    assert [message.body for message in last] == bodies[7:]
    channel.ack(last[-1].tag, multiple=True)
    assert channel.declare_queue(queue, passive=True).messages == 0


def test_prefetch_of_each_consumer_and_of_the_channel(client: str, channel: PeerChannel, queue: str) -> None:
    """Prefetch without `global` is for each consumer to come; with it, or by py-amqp, all of the channel share it."""
    both = 2 if client == "kombu" else 4
    fill(channel, queue, 20)
    channel.qos(2)
    tags = [channel.consume(queue), channel.consume(queue)]
    held = channel.take_all()
    assert len(held) == both
    channel.nack(held[-1].tag, multiple=True)
    held = channel.take_all()
    assert len(held) == both
    for tag in tags:
        channel.cancel(tag)
    channel.nack(held[-1].tag, multiple=True)
    channel.qos(10)
    channel.qos(3, whole_channel=True)
    channel.consume(queue)
    channel.consume(queue)
    assert len(channel.take_all()) == 3


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "close"])
def test_requeued(peer: Peer, channel: PeerChannel, how: str) -> None:
    """What is given back in any way returns to its place, flagged as redelivered."""
    queue = channel.declare_queue(exclusive=True).queue
    bodies = fill(channel, queue, 4)
    other = peer.channel()
    held = [other.get(queue) for _ in range(3)]
    tags = [message.tag for message in held if message]
    if how == "nack":
        other.nack(tags[-1], multiple=True)
    elif how == "reject":
        for tag in (tags[1], tags[0], tags[2]):
            other.reject(tag, requeue=True)
    elif how == "recover":
        other.recover()
    if how == "close":
        other.close()
    else:
        other.round_trip()
    assert get_all(channel, queue) == [*((body, True) for body in bodies[:3]), (bodies[3], False)]


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_dropped(channel: PeerChannel, queue: str, how: str) -> None:
    """What is refused without requeue is gone, and nothing else with it."""
    bodies = fill(channel, queue, 3)
    held = [channel.get(queue) for _ in range(2)]
    assert held[0] is not None
    assert held[1] is not None
    if how == "nack":
        channel.nack(held[1].tag, multiple=True, requeue=False)
    else:
        channel.reject(held[0].tag, requeue=False)
        channel.reject(held[1].tag, requeue=False)
    channel.round_trip()
    assert get_all(channel, queue) == [(bodies[2], False)]


def test_cancelled_by_the_client(channel: PeerChannel, queue: str) -> None:
    """After a cancel nothing more is delivered, what was delivered can still be settled, and the rest stays."""
    channel.qos(1)
    tag = channel.consume(queue)
    fill(channel, queue, 2)
    held = channel.take()
    channel.cancel(tag)
    channel.ack(held[0].tag)
    assert channel.take_all() == []
    assert channel.declare_queue(queue, passive=True).messages == 1


def test_cancel_notice(peer: Peer, channel: PeerChannel, queue: str) -> None:
    """A consumer whose queue is deleted is told, and its channel goes on."""
    tag = channel.consume(queue)
    peer.channel().delete_queue(queue)
    assert channel.await_cancel() == tag
    channel.round_trip()
