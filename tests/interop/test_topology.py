"""Exchanges, queues and bindings, by every client."""

import pytest

from tests.interop.conftest import Connect
from tests.interop.peer import Arguments, Peer, PeerChannel, Refused


@pytest.fixture
def channel(peer: Peer) -> PeerChannel:
    return peer.channel(confirms=True)


@pytest.fixture
def queue(channel: PeerChannel) -> str:
    return channel.declare_queue(exclusive=True).queue


def drain(channel: PeerChannel, queue: str) -> list[str]:
    """The bodies of everything in the queue."""
    taken = []
    while message := channel.get(queue, no_ack=True):
        taken.append(message.body.decode())
    return taken


def publish_keys(channel: PeerChannel, exchange: str, *keys: str) -> None:
    """One message to each key, with the key as its body."""
    for key in keys:
        channel.publish(exchange, key, key.encode())


@pytest.mark.parametrize(
    ("kind", "binding", "taken"),
    [
        ("direct", "a.b", ["a.b"]),
        ("fanout", "", ["a", "a.b", "a.b.c", "x.b"]),
        ("topic", "a.*", ["a.b"]),
        ("topic", "a.#", ["a", "a.b", "a.b.c"]),
        ("topic", "*.b.#", ["a.b", "a.b.c", "x.b"]),
    ],
)
def test_routing(channel: PeerChannel, queue: str, name: str, kind: str, binding: str, taken: list[str]) -> None:
    """An exchange routes by its type and the binding's key, once per queue, until it is unbound."""
    channel.declare_exchange(name, kind, durable=True)
    channel.bind(queue, name, binding)
    channel.bind(queue, name, binding)
    publish_keys(channel, name, "a", "a.b", "a.b.c", "x.b")
    assert drain(channel, queue) == taken
    channel.unbind(queue, name, binding)
    publish_keys(channel, name, "a", "a.b", "a.b.c", "x.b")
    assert drain(channel, queue) == []
    channel.delete_exchange(name)


@pytest.mark.parametrize(
    ("match", "taken"),
    [
        ("all", ["both", "more"]),
        ("any", ["both", "more", "one"]),
        ("all-with-x", ["more"]),
        ("any-with-x", ["both", "more", "one", "only x"]),
    ],
)
def test_headers(channel: PeerChannel, queue: str, match: str, taken: list[str]) -> None:
    """A headers exchange compares headers with the binding's arguments, which unbinding has to repeat."""
    arguments: Arguments = {"x-match": match, "colour": "red", "size": 3, "x-extra": True}
    channel.bind(queue, "amq.headers", arguments=arguments)
    messages: dict[str, Arguments] = {
        "both": {"colour": "red", "size": 3},
        "more": {"colour": "red", "size": 3, "x-extra": True, "weight": 7},
        "one": {"colour": "red", "size": 4},
        "other type": {"colour": "blue", "size": "3"},
        "only x": {"x-extra": True},
    }
    for body, headers in messages.items():
        channel.publish("amq.headers", "", body.encode(), {"headers": headers})
    assert drain(channel, queue) == taken
    channel.unbind(queue, "amq.headers", arguments=arguments)
    channel.publish("amq.headers", "", b"both", {"headers": messages["both"]})
    assert drain(channel, queue) == []


def test_one_message_for_two_queues(channel: PeerChannel, queue: str) -> None:
    """Each queue has a message of its own: settling it in one leaves the other's."""
    other = channel.declare_queue(exclusive=True).queue
    for bound in (queue, other):
        channel.bind(bound, "amq.fanout")
    channel.publish("amq.fanout", "", b"twice")
    assert drain(channel, queue) == ["twice"]
    assert drain(channel, other) == ["twice"]


def test_server_named_queue(channel: PeerChannel) -> None:
    """A queue without a name gets one, each its own, and an empty name then means the last declared."""
    first, second = (channel.declare_queue(exclusive=True).queue for _ in range(2))
    assert first.startswith("amq.gen-")
    assert second.startswith("amq.gen-")
    assert first != second
    channel.publish("", second, b"for the last")
    assert drain(channel, "") == ["for the last"]


def test_auto_delete_queue(peer: Peer, channel: PeerChannel, name: str) -> None:
    """An auto-delete queue waits for its first consumer, and goes with its last."""
    channel.declare_queue(name, auto_delete=True)
    assert channel.declare_queue(name, passive=True).consumers == 0
    tags = [channel.consume(name) for _ in range(2)]
    channel.cancel(tags[0])
    assert channel.declare_queue(name, passive=True).consumers == 1
    channel.cancel(tags[1])
    with pytest.raises(Refused) as refused:
        channel.declare_queue(name, passive=True)
    assert refused.value.code == 404


def test_auto_delete_exchange(channel: PeerChannel, queue: str, name: str) -> None:
    """An auto-delete exchange goes with its last binding."""
    channel.declare_exchange(name, auto_delete=True)
    channel.bind(queue, name, "a")
    channel.bind(queue, name, "b")
    channel.unbind(queue, name, "a")
    channel.declare_exchange(name, passive=True)
    channel.unbind(queue, name, "b")
    with pytest.raises(Refused) as refused:
        channel.declare_exchange(name, passive=True)
    assert refused.value.code == 404


def test_exclusive_queue_ends_with_its_connection(client: str, connect: Connect, name: str) -> None:
    """What is exclusive to a connection is gone when that is, durable or not, and the name is free again."""
    owner = connect(client)
    owner.channel().declare_queue(name, exclusive=True, durable=True)
    owner.close()
    channel = connect(client).channel()
    assert channel.declare_queue(name, exclusive=True).messages == 0


def test_purge_and_delete_count(channel: PeerChannel, name: str) -> None:
    """Purge and delete say how many messages went; deleting what is gone is no error."""
    channel.declare_queue(name, durable=True)
    publish_keys(channel, "", *[name] * 3)
    assert channel.purge(name) == 3
    assert channel.purge(name) == 0
    publish_keys(channel, "", name, name)
    assert channel.delete_queue(name) == 2
    assert channel.delete_queue(name) == 0
    channel.delete_exchange(name)


def test_conditions_that_hold(channel: PeerChannel, name: str) -> None:
    """What is empty and unused is deleted under these conditions."""
    channel.declare_queue(name)
    channel.delete_queue(name, if_unused=True, if_empty=True)
    channel.declare_exchange(name)
    channel.delete_exchange(name, if_unused=True)


def test_declared_again(channel: PeerChannel, name: str) -> None:
    """Declaring the same again finds what is there, with its messages and consumers counted."""
    arguments: Arguments = {"x-queue-type": "classic"}
    channel.declare_queue(name, durable=True, arguments=arguments)
    publish_keys(channel, "", name)
    tag = channel.consume(name)
    channel.take()
    again = channel.declare_queue(name, durable=True, arguments=arguments)
    assert (again.queue, again.messages, again.consumers) == (name, 0, 1)
    channel.cancel(tag)
    channel.delete_queue(name)
