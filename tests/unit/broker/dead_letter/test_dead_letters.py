"""Dead letters: the history that RabbitMQ writes, the cycles it ends, and what publishers may claim of either."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.base.errors import ConfigurationError, PreconditionFailed
from flintmq.base.limits import TABLE_ENTRIES_MAX
from flintmq.base.values import Timestamp
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.policy.policies import check_policy
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.property.test_amqp091_codec import tables, values
from tests.unit.broker.memory import MemoryStorage, got, put_routed
from tests.unit.broker.world import taken

START = 1_000_000_500


class Node:
    """Queues of one virtual host, in virtual time; what dies goes to where their arguments say."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.broker.now_ms = START
        self.vhost = self.broker.add_vhost("/")

    def queue(self, name: str, to: str | None = None, exchange: str = "", **arguments: object) -> Queue:
        """With `to`, a dead letter routing key; without, the keys of each message stay."""
        table: Table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        if to is not None or exchange:
            table["x-dead-letter-exchange"] = exchange
        if to is not None:
            table["x-dead-letter-routing-key"] = to
        return self.vhost.declare_queue(name, True, False, False, table, None)

    def publish(
        self, key: str, body: str = "m", exchange: str = "", expiration: str | None = None, **headers: object
    ) -> None:
        self.publish_with(
            key, {name.replace("_", "-"): value for name, value in headers.items()}, body, exchange, expiration
        )

    def publish_with(
        self, key: str, headers: Table, body: str = "m", exchange: str = "", expiration: str | None = None
    ) -> None:
        properties = encode_properties(Properties(headers=headers, delivery_mode=2, expiration=expiration))
        address = Address(exchange, key)
        options = CODEC_091.options(properties)
        message = Message(address, CODEC_091, properties, body.encode(), options, self.broker.now_ms)
        put_routed(self.vhost, Route(address), message)

    def reject(self, queue: Queue) -> None:
        entry = got(queue)
        assert entry is not None
        queue.reject(entry)
        self.after(0)

    def after(self, milliseconds: int) -> None:
        """That much later; everything that follows has happened. Fails where it has no end."""
        self.broker.now_ms += milliseconds
        for _ in range(50):
            if not self.broker.dispatch() and not 0 < self.broker.next_due_ms <= self.broker.now_ms:
                return
        raise AssertionError("the tick finds no end")


def letter(queue: Queue) -> Entry:
    (entry,) = taken(queue)
    return entry


def headers(entry: Entry) -> Table:
    return CODEC_091.headers(entry.message.properties)


def deaths(entry: Entry) -> list[tuple[object, object, object]]:
    """Queue, reason and count of each death, the latest first."""
    listed = headers(entry)["x-death"]
    assert isinstance(listed, list)
    return [(death["queue"], death["reason"], death["count"]) for death in listed]


# -- the history --------------------------------------------------------------------------------------------------


def test_what_x_death_says() -> None:
    """Each field as RabbitMQ has it; a time to live of the message's own is there, and not in force any more."""
    node = Node()
    node.vhost.exchanges.declare("x", "direct", True, False, False, {})
    queue, dead = node.queue("q", to="dead", max_priority=5), node.queue("dead")
    node.vhost.exchanges.bind_queue(queue, "x", "k", {})
    node.publish("k", exchange="x", expiration="50", CC=["cc"], h=1)
    node.after(1_000)
    found = letter(dead)
    assert headers(found) == {
        "h": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "q",
                "time": Timestamp(START // 1000 + 1),
                "exchange": "x",
                "routing-keys": ["k", "cc"],
                "original-expiration": "50",
            }
        ],
        "x-first-death-exchange": "x",
        "x-first-death-queue": "q",
        "x-first-death-reason": "expired",
        "x-last-death-exchange": "x",
        "x-last-death-queue": "q",
        "x-last-death-reason": "expired",
    }
    properties = decode_properties(found.message.properties)
    assert (properties.expiration, properties.delivery_mode) == (None, 2)
    assert (found.message.address.exchange, found.message.address.routing_key) == ("", "dead")


def test_keys_stay_where_no_new_one_is_given() -> None:
    """The letter goes by the keys it came with, CC among them, which stays to be seen."""
    node = Node()
    node.vhost.exchanges.declare("dlx", "direct", True, False, False, {})
    queue, one, two = node.queue("q", exchange="dlx"), node.queue("one"), node.queue("two")
    node.vhost.exchanges.bind_queue(one, "dlx", "q", {})
    node.vhost.exchanges.bind_queue(two, "dlx", "cc", {})
    node.publish("q", CC=["cc"])
    node.reject(queue)
    for target in (one, two):
        found = letter(target)
        assert found.message.address.routing_key == "q"
        assert headers(found)["CC"] == ["cc"]
        assert "original-expiration" not in str(headers(found))


def test_deaths_are_counted_by_queue_and_reason() -> None:
    """The latest first, each pair once; first and last death are told beside it."""
    node = Node()
    first, second, third = node.queue("1", to="2"), node.queue("2", to="1", message_ttl=10), node.queue("3")
    node.publish("1")
    for _ in range(3):
        node.reject(first)
        node.after(11)
    assert deaths_of_next(first) == [("2", "expired", 3), ("1", "rejected", 3)]
    entry = got(first)
    assert entry is not None
    found = headers(entry)
    assert [found[f"x-{which}-death-{what}"] for which in ("first", "last") for what in ("queue", "reason")] == [
        "1",
        "rejected",
        "2",
        "expired",
    ]
    assert (second.message_count, third.message_count) == (0, 0)


def deaths_of_next(queue: Queue) -> list[tuple[object, object, object]]:
    entry = got(queue)
    assert entry is not None
    queue.requeue([entry])
    return deaths(entry)


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_reasons(reason: str) -> None:
    """Each by the name that RabbitMQ gives it."""
    node = Node()
    arguments: dict[str, dict[str, Any]] = {
        "expired": {"message_ttl": 5},
        "maxlen": {"max_length": 1},
        "delivery_limit": {"delivery_limit": 0},
    }
    queue, dead = node.queue("q", to="dead", **arguments.get(reason, {})), node.queue("dead")
    node.publish("q")
    if reason == "rejected":
        node.reject(queue)
    elif reason == "maxlen":
        node.publish("q", "pushes")
    elif reason == "delivery_limit":
        entry = got(queue)
        assert entry is not None
        queue.requeue([entry])
    node.after(10)
    assert deaths(letter(dead)) == [("q", reason, 1)]


# -- cycles -------------------------------------------------------------------------------------------------------


def test_a_cycle_without_a_rejection_ends() -> None:
    """A message that expires its way round comes back to no queue that it died in: nobody would ever see it."""
    node = Node()
    queues = [node.queue(name, to=to, message_ttl=0) for name, to in ("ab", "bc", "ca")]
    node.publish("a")
    node.after(0)
    node.after(10)
    assert [queue.message_count for queue in queues] == [0, 0, 0]
    assert node.storage.memory_journal.kept == {}


def test_a_queue_that_dead_letters_to_itself() -> None:
    """The shortest cycle: what expires is dropped, what is rejected comes back."""
    node = Node()
    queue = node.queue("q", to="q", message_ttl=10)
    node.publish("q", "expires")
    node.after(11)
    assert (queue.message_count, node.storage.memory_journal.kept) == (0, {})
    node.publish("q", "rejected")
    for count in (1, 2, 3):
        node.reject(queue)
        assert deaths_of_next(queue) == [("q", "rejected", count)]
    # Nobody has rejected it since it came here the last time.
    node.after(11)
    assert queue.message_count == 0


def test_a_cycle_with_a_rejection_goes_on() -> None:
    """A consumer had a part in it: the pattern of a pause between two tries, as often as it takes."""
    node = Node()
    work, pause = node.queue("work", to="pause"), node.queue("pause", to="work", message_ttl=100)
    node.publish("work")
    for count in range(1, 20):
        node.reject(work)
        assert (work.message_count, pause.message_count) == (0, 1)
        node.after(101)
        assert deaths_of_next(work) == [("pause", "expired", count), ("work", "rejected", count)]


def test_a_cycle_is_only_where_the_letter_was() -> None:
    """Of several targets, those that it did not die in get it."""
    node = Node()
    node.vhost.exchanges.declare("dlx", "fanout", True, False, False, {})
    queue, other = node.queue("q", exchange="dlx", message_ttl=10), node.queue("other")
    for target in (queue, other):
        node.vhost.exchanges.bind_queue(target, "dlx", "", {})
    node.publish("q")
    node.after(11)
    assert (queue.message_count, other.message_count) == (0, 1)


# -- what publishers claim ----------------------------------------------------------------------------------------

HISTORY = ("x-death", "x-first-death-queue", "x-last-death-reason", "CC", "x-delay")
claims = st.fixed_dictionaries({}, optional=dict.fromkeys(HISTORY[1:], values))
claimed_deaths = st.lists(
    st.one_of(
        values,
        st.fixed_dictionaries(
            {"queue": st.sampled_from(["q", "dead", 5]), "reason": st.sampled_from(["rejected", "expired", None])},
            optional={"count": values, "routing-keys": values, "time": values},
        ),
    ),
    max_size=4,
)


@settings(max_examples=100)
@given(tables, st.one_of(values, claimed_deaths), claims)
def test_any_history_can_be_claimed(rest: Table, claimed: object, more: Table) -> None:
    """Whatever a publisher writes into these headers, its message dies twice and is there, the rest of it unchanged."""
    node = Node()
    first, second, last = node.queue("q", to="dead"), node.queue("dead", to="last"), node.queue("last")
    # Nothing is held back, so that there is something to reject.
    delay = more.get("x-delay")
    if isinstance(delay, int) and delay > 0:
        more["x-delay"] = -delay
    node.publish_with("q", {**rest, **more, "x-death": claimed})
    node.reject(first)
    node.reject(second)
    found = letter(last)
    left = headers(found)
    listed = left["x-death"]
    assert isinstance(listed, list)
    assert (listed[0]["queue"], listed[0]["reason"]) == ("dead", "rejected")
    assert {name: left.get(name) for name in rest if name not in HISTORY} == {
        name: value for name, value in rest.items() if name not in HISTORY
    }


@pytest.mark.parametrize(
    ("count", "after"), [(5, 6), (2**63 - 1, 1), (-(2**63), 1), (0, 1), (True, 1), ("5", 1), (None, 1), (1.5, 1)]
)
def test_a_count_that_is_none(count: object, after: int) -> None:
    """Counting begins anew where a number cannot be counted on from."""
    node = Node()
    queue, dead = node.queue("q", to="dead"), node.queue("dead")
    node.publish_with("q", {"x-death": [{"queue": "q", "reason": "rejected", "count": count}]})
    node.reject(queue)
    assert deaths(letter(dead)) == [("q", "rejected", after)]


def test_as_many_headers_as_there_may_be() -> None:
    """A table without room for the history loses its last entries to that, at every further death no more."""
    node = Node()
    first, second, last = node.queue("q", to="dead"), node.queue("dead", to="last"), node.queue("last")
    node.publish_with("q", {f"h{number}": None for number in range(TABLE_ENTRIES_MAX)})
    node.reject(first)
    node.reject(second)
    found = headers(letter(last))
    assert len(found) == TABLE_ENTRIES_MAX
    assert [name for name in found if name.startswith("h")] == [f"h{number}" for number in range(TABLE_ENTRIES_MAX - 8)]


def test_a_claimed_history_is_no_longer_than_one_of_ours() -> None:
    """The latest deaths are kept, and the message fits where it fitted."""
    node = Node()
    queue, dead = node.queue("q", to="dead"), node.queue("dead")
    node.publish_with("q", {"x-death": [{"queue": str(number)} for number in range(TABLE_ENTRIES_MAX)]})
    node.reject(queue)
    listed = headers(letter(dead))["x-death"]
    assert isinstance(listed, list)
    assert [death["queue"] for death in listed] == ["q", *[str(number) for number in range(255)]]


def test_a_dead_letter_key_is_a_routing_key() -> None:
    """Nobody could be told of a longer one: refused where it is declared, or laid down as a policy."""
    node = Node()
    node.queue("longest", to="k" * 255)
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-dead-letter-routing-key' for queue 'longer'"):
        node.queue("longer", to="k" * 256)
    with pytest.raises(PreconditionFailed):
        node.queue("longer", to="ä" * 128)
    definition: Table = {"dead-letter-routing-key": "k" * 256}
    with pytest.raises(ConfigurationError, match="dead-letter-routing-key must be a routing key of at most 255 bytes"):
        check_policy(PolicyRecord("/", "p", ".*", definition))
