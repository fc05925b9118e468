"""amqplib alone: how it is installed, what it is told of the broker, and the errors that only it can make."""

import json
from typing import Any

import pytest

from tests.interop.conftest import Connect
from tests.interop.node_agent import NODE_FOLDER
from tests.interop.peer import Refused
from tests.interop.with_amqplib import AmqplibChannel, AmqplibPeer


@pytest.fixture
def peer(connect: Connect) -> AmqplibPeer:
    made = connect(AmqplibPeer.name)
    assert isinstance(made, AmqplibPeer)
    return made


def test_the_lock_names_no_registry() -> None:
    """The lock file pins versions and hashes, and leaves to npm's configuration where to get them."""
    text = (NODE_FOLDER / "package-lock.json").read_text()
    packages: dict[str, dict[str, Any]] = json.loads(text)["packages"]
    pinned = [facts for path, facts in packages.items() if path]
    assert pinned
    assert all(facts["integrity"].startswith("sha512-") and "resolved" not in facts for facts in pinned)
    assert "://" not in text
    assert "omit-lockfile-registry-resolved=true" in (NODE_FOLDER / ".npmrc").read_text()


def test_server_properties(peer: AmqplibPeer) -> None:
    """The broker says what it is, and announces what clients look for."""
    told = peer.server_properties
    assert told["product"] == "FlintMQ"
    wanted = {"publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close"}
    assert {name for name in wanted if told["capabilities"].get(name) is True} == wanted


def test_many_confirms_at_once(peer: AmqplibPeer) -> None:
    """A thousand messages, none of which waits for another's confirm, are all confirmed and all there."""
    channel = peer.channel(confirms=True)
    queue = channel.declare_queue(exclusive=True).queue
    channel.publish_all(queue, [b"%d" % number for number in range(1000)])
    assert channel.purge(queue) == 1000


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("assertQueue", ["ttl", {"messageTtl": 1000}]),
        ("assertQueue", ["expiring", {"expires": 600_000}]),
        ("assertQueue", ["dead", {"deadLetterExchange": "amq.fanout"}]),
        ("assertQueue", ["short", {"maxLength": 10}]),
        ("assertQueue", ["priorities", {"maxPriority": 5}]),
    ],
)
def test_options_of_queues(peer: AmqplibPeer, method: str, arguments: list[Any]) -> None:
    """Each option of amqplib's is understood: the same declaration passes again, one without it is 406."""
    channel = peer.channel()
    assert isinstance(channel, AmqplibChannel)
    channel.call(method, *arguments)
    channel.call(method, *arguments)
    with pytest.raises(Refused, match="inequivalent arg") as refused:
        channel.call(method, arguments[0], {})
    assert refused.value.code == 406
    peer.channel().delete_queue(arguments[0])
