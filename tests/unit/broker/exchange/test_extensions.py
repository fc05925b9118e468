"""Where RabbitMQ's further exchange types send a message: by hash, at random, again, or later."""

from collections import Counter
from itertools import pairwise

import pytest

from flintmq.base.errors import AmqpError, PreconditionFailed
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import TRANSIENT, Address, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import HeaderCodec, MemoryStorage, got, message, put_routed


@pytest.fixture
def vhost() -> VHost:
    return Broker(MemoryStorage()).add_vhost("/")


def declare(vhost: VHost, name: str, kind: str, arguments: Table | None = None) -> Exchange:
    return vhost.exchanges.declare(name, kind, True, False, False, arguments or {})


def bound(vhost: VHost, name: str, source: str, key: str = "") -> Queue:
    made = vhost.declare_queue(name, True, False, False, {}, None)
    vhost.exchanges.bind_queue(made, source, key, {})
    return made


def spread(vhost: VHost, source: str, keys: int = 2000) -> dict[str, str]:
    """Which queue each of many routing keys leads to; exactly one."""
    found = {}
    for number in range(keys):
        (queue,) = vhost.router.queues(Route(Address(source, f"key {number}")), message())
        found[f"key {number}"] = queue.name
    return found


def hashed(vhost: VHost, source: str, headers: str) -> str:
    (queue,) = vhost.router.queues(Route(Address(source, "")), message(headers=headers))
    return queue.name


def refusal(vhost: VHost, kind: str, arguments: Table) -> AmqpError:
    with pytest.raises(AmqpError) as refused:
        declare(vhost, "x", kind, arguments)
    assert "x" not in vhost.exchanges.by_name
    return refused.value


def binding_refusal(vhost: VHost, source: str, key: str) -> str:
    with pytest.raises(PreconditionFailed) as refused:
        bound(vhost, "refused", source, key)
    return refused.value.text


# -- x-consistent-hash ----------------------------------------------------------------------------------------------


def test_consistent_hash_spreads_by_weight(vhost: VHost) -> None:
    """Each queue gets a share of the keys in proportion to its weight, and a key goes to one queue, always the same."""
    declare(vhost, "x", "x-consistent-hash")
    for name, weight in (("a", "1"), ("b", "2"), ("c", "5")):
        bound(vhost, name, "x", weight)
    found = spread(vhost, "x", 8000)
    counts = Counter(found.values())
    assert [abs(counts[name] - 1000 * weight) < 150 for name, weight in (("a", 1), ("b", 2), ("c", 5))] == [True] * 3
    assert spread(vhost, "x", 8000) == found


def test_consistent_hash_moves_what_it_must(vhost: VHost) -> None:
    """A queue that comes takes keys and nothing else moves; one that goes leaves its keys and nothing else moves."""
    declare(vhost, "x", "x-consistent-hash")
    for name in "abcd":
        bound(vhost, name, "x", "1")
    before = spread(vhost, "x")
    more = bound(vhost, "e", "x", "1")
    with_more = spread(vhost, "x")
    assert {with_more[key] for key in before if with_more[key] != before[key]} == {"e"}
    vhost.remove_queue(more)
    assert spread(vhost, "x") == before
    vhost.remove_queue(vhost.queues["b"])
    without = spread(vhost, "x")
    assert {before[key] for key in before if without[key] != before[key]} == {"b"}
    assert set(without.values()) == {"a", "c", "d"}


def test_consistent_hash_forgets_history(vhost: VHost) -> None:
    """The order of binding does not matter, so that a restart moves no key; these keys have gone there ever since."""
    for name, queues in (("x", "abc"), ("y", "cab")):
        declare(vhost, name, "x-consistent-hash")
        for queue in queues:
            bound(vhost, queue, name, "3")
    found = spread(vhost, "x")
    assert found == spread(vhost, "y")
    assert "".join(list(found.values())[:20]) == "aaacbccbcacaaccacacb"


def test_consistent_hash_of_header_and_property(vhost: VHost) -> None:
    """Instead of the routing key, a header or one of three properties decides; without it, all go one way."""
    for name, arguments in (
        ("header", {"hash-header": "id"}),
        ("property", {"hash-property": "message_id"}),
    ):
        declare(vhost, name, "x-consistent-hash", dict(arguments))
        for queue in "abcd":
            bound(vhost, queue, name, "1")
    for source, field in (("header", "id"), ("property", "message_id")):
        found = [hashed(vhost, source, f"{field}={number}") for number in range(100)]
        assert set(found) == set("abcd")
        assert found == [hashed(vhost, source, f"{field}={number};other={number}") for number in range(100)]
        assert len({hashed(vhost, source, f"other={number}") for number in range(100)}) == 1


def test_consistent_hash_refuses(vhost: VHost) -> None:
    """Weights are numbers from 1 to 10,000, and one header or one known property is hashed: 406 in RabbitMQ's words."""
    for arguments, text in (
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 1}, "invalid type 'signedint' for arg 'hash-header' in exchange 'x' in vhost '/'"),
    ):
        refused = refusal(vhost, "x-consistent-hash", dict(arguments))
        assert (refused.code, refused.text) == (406, text)
    declare(vhost, "x", "x-consistent-hash")
    for key, text in (
        ("", 'The binding key must be an integer: <<"">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
    ):
        assert binding_refusal(vhost, "x", key) == text
    bound(vhost, "q", "x", "10000")


# -- x-modulus-hash, x-random, x-local-random -----------------------------------------------------------------------


def test_modulus_hash_spreads_evenly(vhost: VHost) -> None:
    """Each queue gets its part of the keys, whatever it was bound by, and the order of binding does not matter."""
    for name, queues in (("x", "abcd"), ("y", "dbca")):
        declare(vhost, name, "x-modulus-hash")
        assert vhost.router.queues(Route(Address(name, "k")), message()) == []
        for queue in queues:
            bound(vhost, queue, name, "any key")
    found = spread(vhost, "x")
    assert found == spread(vhost, "y")
    assert all(abs(count - 500) < 100 for count in Counter(found.values()).values())
    vhost.remove_queue(vhost.queues["b"])
    assert set(spread(vhost, "x").values()) == {"a", "c", "d"}


@pytest.mark.parametrize("kind", ["x-random", "x-local-random"])
def test_random_goes_to_one(vhost: VHost, kind: str) -> None:
    """Every message goes to one queue; over many, each gets its share; what is unbound gets nothing more."""
    declare(vhost, "x", kind)
    way = Route(Address("x", "k"))
    assert vhost.router.queues(way, message()) == []
    queues = [bound(vhost, name, "x") for name in "abcd"]
    found = [vhost.router.queues(way, message()) for _ in range(4000)]
    assert {len(each) for each in found} == {1}
    counts = Counter(each[0].name for each in found)
    assert all(abs(counts[queue.name] - 1000) < 150 for queue in queues)
    # Not in turn: the same one follows itself now and then.
    assert any(left == right for left, right in pairwise(found))
    vhost.remove_queue(queues[0])
    vhost.remove_queue(queues[3])
    assert {vhost.router.queues(way, message())[0].name for _ in range(200)} == {"b", "c"}
    assert len(vhost.router.queues_of_keys(way, message(), ["l", "m"])) == 1


def draws(seed: int, name: str) -> list[str]:
    vhost = Broker(MemoryStorage(), seed).add_vhost("/")
    declare(vhost, name, "x-random")
    for queue in "abcd":
        bound(vhost, queue, name)
    way = Route(Address(name, ""))
    return [vhost.router.queues(way, message())[0].name for _ in range(50)]


def test_random_comes_from_outside() -> None:
    """A broker's seed says what is drawn, and nothing else: not the exchange's name, as another seed shows."""
    assert draws(1, "x") == draws(1, "y")
    assert draws(1, "x") != draws(2, "x")


def test_random_within_a_delayed_exchange(vhost: VHost) -> None:
    """A delayed exchange can draw lots, too."""
    declare(vhost, "x", "x-delayed-message", {"x-delayed-type": "x-random"})
    for name in "ab":
        bound(vhost, name, "x")
    way = Route(Address("x", ""))
    assert {vhost.router.queues(way, message())[0].name for _ in range(50)} == {"a", "b"}


def test_local_random_refuses(vhost: VHost) -> None:
    """Only classic queues are bound to it, by an empty key: 406 in RabbitMQ's words."""
    declare(vhost, "x", "x-local-random")
    assert binding_refusal(vhost, "x", "k") == "Non empty binding 'k' key not permitted"
    stream = vhost.declare_queue("s", True, False, False, {"x-queue-type": "stream"}, None)
    with pytest.raises(PreconditionFailed, match="Queue type rabbit_stream_queue not valid for this exchange type"):
        vhost.exchanges.bind_queue(stream, "x", "", {})
    with pytest.raises(PreconditionFailed, match="Destination not found"):
        vhost.exchanges.bind_exchange("amq.fanout", "x", "", {})


# -- x-recent-history -----------------------------------------------------------------------------------------------


def bodies(queue: Queue) -> list[str]:
    found = []
    while (entry := got(queue)) is not None:
        found.append(entry.message.body.decode())
    return found


def publish(vhost: VHost, exchange: str, body: str, headers: str = "", key: str = "") -> None:
    way = Route(Address(exchange, key))
    put_routed(vhost, way, Message(way.address, HeaderCodec(), headers.encode(), body.encode(), TRANSIENT, 1000))


def test_recent_history_is_given_to_new_bindings(vhost: VHost) -> None:
    """A destination gets the last messages in their order when it is bound, and all messages from then on."""
    declare(vhost, "x", "x-recent-history", {"x-recent-history-length": 3})
    for number in range(5):
        publish(vhost, "x", str(number))
    early = bound(vhost, "early", "x")
    assert bodies(early) == ["2", "3", "4"]
    publish(vhost, "x", "5")
    declare(vhost, "end", "direct")
    beyond = bound(vhost, "beyond", "end")
    vhost.exchanges.bind_exchange("end", "x", "", {})
    assert bodies(beyond) == ["3", "4", "5"]
    vhost.exchanges.bind_queue(early, "x", "", {})
    assert bodies(early) == ["5"]


def test_recent_history_leaves_out_what_asks_for_it(vhost: VHost) -> None:
    """A message whose header x-recent-history-no-store is true is routed and not kept."""

    class Marked(HeaderCodec):
        def headers(self, properties: bytes) -> Table:
            return {"x-recent-history-no-store": properties == b"no"}

    declare(vhost, "x", "x-recent-history")
    first = bound(vhost, "first", "x")
    way = Route(Address("x", ""))
    for properties in (b"no", b"yes"):
        put_routed(vhost, way, Message(way.address, Marked(), properties, properties, TRANSIENT, 1000))
    assert bodies(first) == ["no", "yes"]
    assert bodies(bound(vhost, "second", "x")) == ["yes"]


@pytest.mark.parametrize("length", [0, -1, True, "5", 10_001])
def test_recent_history_refuses(vhost: VHost, length: object) -> None:
    """Its length is a positive number, and not more than memory is good for."""
    refused = refusal(vhost, "x-recent-history", {"x-recent-history-length": length})
    assert refused.code == 406
    assert refused.text.startswith(f"Invalid argument {length}, 'x-recent-history-length' ")


# -- x-delayed-message ----------------------------------------------------------------------------------------------


def test_delayed_refuses(vhost: VHost) -> None:
    """It goes by a type there is, other than itself, and keeps to that type's rules."""
    for arguments in ({}, {"x-delayed-type": 1}, {"x-delayed-type": "x-delayed-message"}):
        refused = refusal(vhost, "x-delayed-message", dict(arguments))
        assert isinstance(refused, PreconditionFailed)
        assert refused.text == "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    refused = refusal(vhost, "x-delayed-message", {"x-delayed-type": "odd"})
    assert isinstance(refused, PreconditionFailed)
    assert refused.text == "unknown exchange type 'odd'"
    refused = refusal(vhost, "x-delayed-message", {"x-delayed-type": "x-consistent-hash", "hash-property": "app_id"})
    assert refused.text == "Unsupported property: app_id"
    declare(vhost, "x", "x-delayed-message", {"x-delayed-type": "x-consistent-hash"})
    assert binding_refusal(vhost, "x", "0") == "The binding key must be greater than 0"
