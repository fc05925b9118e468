"""What a message costs where a few bytes decide it: it grows with what is done, is on the meter, and has a bound."""

import itertools
from collections.abc import Callable

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import (
    ASKING_WORK_UNITS,
    DEAD_LETTER_STEP_UNITS,
    DEAD_LETTER_WORK_UNITS,
    DISPATCH_BURST_MESSAGES,
    DISPATCH_WORK_UNITS,
    MESSAGE_WORK_UNITS,
)
from flintmq.base.work import WORK
from flintmq.broker.access.permission import WRITE, Rights
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import TRANSIENT, Address, Message, Table
from flintmq.broker.ports import TopicPermissionRecord
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.selector.selectors import parsed, parsed_sql
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion.parts import write_properties
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from tests.unit.broker.memory import MemoryStorage, Taker, got, purge, put_routed

LONG = 100_000


def cost(act: Callable[[], object]) -> int:
    before = WORK.spent
    act()
    return int(WORK.spent - before)


def with_headers(headers: Table, exchange: str = "e", key: str = "k") -> Message:
    properties = encode_properties(Properties(headers=headers))
    return Message(Address(exchange, key), CODEC_091, properties, b"m", TRANSIENT, 0, 1)


@pytest.fixture
def vhost() -> VHost:
    return Broker(MemoryStorage()).add_vhost("/")


def queue(vhost: VHost, name: str, arguments: Table | None = None) -> ClassicQueue:
    made = vhost.declare_queue(name, False, False, False, arguments or {}, None)
    assert isinstance(made, ClassicQueue)
    return made


def exchange(vhost: VHost, kind: str, arguments: Table | None = None, name: str = "e") -> None:
    vhost.exchanges.declare(name, kind, False, False, False, arguments or {})


def routed(vhost: VHost, message: Message) -> list[str]:
    return [found.name for found in vhost.queues_of(Route(message.address), message, None)]


# -- conditions -----------------------------------------------------------------------------------------------------


def asked(selector: str, value: str) -> int:
    """What a selector costs about a value, without the decoding of the headers."""
    message = with_headers({"a": value})
    parsed("b IS NULL").matches(message)
    return cost(lambda: parsed(selector).matches(message))


@pytest.mark.parametrize(
    "pattern", ["%b%", "%" + "a" * 900 + "b%", "%a%" * 400 + "b", "%a_b%", "%" + "a_" * 25 + "b%", "a%a_%_b"]
)
def test_like_costs_what_the_value_is_long(pattern: str) -> None:
    """Twice the value is twice the work, whatever the pattern."""
    selector = f"a LIKE '{pattern}'"
    usual = asked(selector, "")
    once, twice = asked(selector, "a" * LONG) - usual, asked(selector, "a" * (2 * LONG)) - usual
    assert once <= LONG // 8
    assert abs(twice - 2 * once) <= 2


def test_like_with_a_long_part_costs_its_bits() -> None:
    """Where many characters and `_` alternate, the pattern's length counts as well, and is paid for."""
    short = asked("a LIKE '%" + "a_" * 25 + "b%'", "a" * LONG)
    long = asked("a LIKE '%" + "a_" * 900 + "b%'", "a" * LONG)
    assert short * 4 < long < LONG


def test_short_values_may_cost_the_product() -> None:
    """Python looks for text in short texts by trying: both lengths are paid for there."""
    selector = "a LIKE '%" + "a" * 450 + "b" + "a" * 450 + "%'"
    assert asked(selector, "a" * 2_000) >= 2_000 * 900 // 4 // 512


def test_sql_and_comparisons_cost_their_texts() -> None:
    """What is compared as a whole costs its length, too."""
    message = with_headers({"a": "x" * LONG, "b": "x" * LONG})
    parsed_sql("z IS NULL").matches(message)
    for ask in (parsed("a = b"), parsed_sql("a = b"), parsed_sql("a < b"), parsed_sql("a IN (b, b)")):
        assert cost(lambda ask=ask: ask.matches(message)) >= LONG // 4_096  # type: ignore[misc]


def test_headers_cost_their_bytes_once() -> None:
    """The first question decodes a message's headers, and others about it find them decoded."""
    message = with_headers({"a": "x" * LONG})
    ask = parsed("a IS NULL")
    first = cost(lambda: ask.matches(message))
    assert first >= LONG // 16
    assert cost(lambda: ask.matches(message)) < 10


# -- routing --------------------------------------------------------------------------------------------------------


def test_a_message_has_a_bound(vhost: VHost) -> None:
    """A message that is too much work to route is refused, and little more than the bound was done for it."""
    exchange(vhost, "direct")
    for number in range(60):
        arguments: Table = {"x-selector": f"a LIKE '%a_b%' OR b = {number}"}
        vhost.exchanges.bind_queue(queue(vhost, f"q{number}"), "e", "k", arguments)
    assert routed(vhost, with_headers({"a": "aab"})) == [f"q{number}" for number in range(60)]
    too_much = with_headers({"a": "a" * LONG})

    def refused() -> None:
        with pytest.raises(PreconditionFailed, match="units of work"):
            routed(vhost, too_much)

    assert MESSAGE_WORK_UNITS < cost(refused) < 1.1 * MESSAGE_WORK_UNITS
    assert routed(vhost, with_headers({"a": "aab", "b": 1}))


def test_a_letter_that_is_too_much_work_goes_nowhere(vhost: VHost) -> None:
    """Where nobody is there to be told, it is as if no binding matched."""
    exchange(vhost, "direct")
    for number in range(60):
        arguments: Table = {"x-selector": f"a LIKE '%a_b%' OR b = {number}"}
        vhost.exchanges.bind_queue(queue(vhost, f"q{number}"), "e", "k", arguments)
    found = vhost.exchanges.find("e")
    assert vhost.router.queues_from(found, ["k"], with_headers({"a": "a" * LONG})) == []
    assert vhost.router._churn.routes_given_up == 1
    assert len(vhost.router.queues_from(found, ["k"], with_headers({"a": "aab"}))) == 60


@pytest.mark.parametrize("kind", ["headers", "fanout", "direct", "x-delayed-message"])
def test_bindings_have_a_bound(vhost: VHost, kind: str) -> None:
    """A binding that would make each ordinary message too much work is refused, and no other."""
    exchange(vhost, kind, {"x-delayed-type": "fanout"} if kind.startswith("x-") else {})
    selector = " OR ".join(["a = 1"] * 200)
    each = int(parsed(selector).cost) + 1
    target = queue(vhost, "q")
    source = vhost.exchanges.find("e")
    # As if there were as many bindings as that: each takes a while to make.
    vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector})
    if kind == "direct":
        for number in range(ASKING_WORK_UNITS // each - 3):
            vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector, "n": number})
    else:
        source.match_costs = ASKING_WORK_UNITS - 2 * (each + (kind == "headers"))
    vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector, "last": 1})
    vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector, "more": 1})
    with pytest.raises(PreconditionFailed, match="spread them"):
        vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector, "more": 2})
    # Who has it may ask for it again, and who leaves makes room.
    vhost.exchanges.bind_queue(target, "e", "k", {"x-selector": selector, "last": 1})
    before = source.match_costs
    vhost.exchanges.unbind_queue(target, "e", "k", {"x-selector": selector, "last": 1})
    assert source.match_costs == before - each - (kind == "headers")


def test_a_headers_binding_costs_its_arguments(vhost: VHost) -> None:
    """A binding that compares hundreds of values, or lists of them, costs more than one that compares one."""
    exchange(vhost, "headers")
    vhost.exchanges.bind_queue(queue(vhost, "q"), "e", "", {"a": 1})
    small = cost(lambda: routed(vhost, with_headers({"a": 1})))
    vhost.exchanges.bind_queue(queue(vhost, "q"), "e", "", {f"h{number}": 1 for number in range(800)})
    wide = cost(lambda: routed(vhost, with_headers({"a": 1})))
    assert wide - small >= 100
    vhost.exchanges.bind_queue(queue(vhost, "q"), "e", "", {"l": [1] * 800})
    assert cost(lambda: routed(vhost, with_headers({"a": 1}))) - wide >= 100


def test_headers_are_decoded_once_for_all_exchanges(vhost: VHost) -> None:
    """A message that goes through a chain of headers exchanges is decoded at the first."""
    for number in range(20):
        exchange(vhost, "headers", name=f"e{number}")
        vhost.exchanges.bind_queue(queue(vhost, f"q{number}"), f"e{number}", "", {"a": 1})
        if number:
            vhost.exchanges.bind_exchange(f"e{number}", f"e{number - 1}", "", {"a": 1})
    message = with_headers({"a": 1, "b": "x" * LONG}, "e0", "")
    spent = cost(lambda: routed(vhost, message))
    assert len(routed(vhost, message)) == 20
    assert LONG // 16 <= spent < 2 * LONG // 16


def test_a_new_topic_key_costs_what_it_is_compared_with(vhost: VHost) -> None:
    """Both kinds of patterns that a key may meet in great number: with wildcards, and with several `#`."""
    exchange(vhost, "topic")
    target = queue(vhost, "q")
    key = ".".join("a" * 40)

    def routing() -> int:
        return cost(lambda: routed(vhost, with_headers({}, "e", key)))

    plain = routing()
    for number in range(40):
        vhost.exchanges.bind_queue(target, "e", "*." * number + "a.b", {})
    stars = routing()
    assert stars - plain >= 40 // 4
    for number in range(500):
        vhost.exchanges.bind_queue(target, "e", f"#.a.a.a.a.x{number}.#", {})
    assert routing() - stars >= 40 * 500 * 5 // 1_024


def test_further_keys_cost_one_by_one(vhost: VHost) -> None:
    """A message that names a thousand keys (CC, BCC) costs that, although it goes to one queue."""
    message = with_headers({}, "", "q")
    queue(vhost, "q")
    route = Route(message.address)
    assert cost(lambda: vhost.queues_of(route, message, [f"x{number}" for number in range(1_000)])) >= 1_000


def test_a_key_costs_the_pattern_of_a_permission() -> None:
    """Who may publish with which keys at a topic exchange is found out for each key that a message names."""
    rights = Rights("u", "/")
    rights.grant_topics(TopicPermissionRecord("/", "u", "e", "^a", "^a"))
    assert cost(lambda: rights.check_topic(WRITE, "e", "abc")) >= 1


def test_hashing_costs_its_destinations(vhost: VHost) -> None:
    """x-consistent-hash draws a number for each destination, and that is what a message costs."""
    exchange(vhost, "x-consistent-hash", {"hash-header": "a"})
    for number in range(50):
        vhost.exchanges.bind_queue(queue(vhost, f"q{number}"), "e", "1", {})
    assert 50 <= cost(lambda: routed(vhost, with_headers({"a": "x"}))) < 80


def test_a_history_costs_its_messages(vhost: VHost) -> None:
    """A new binding of x-recent-history is given all of it, and pays for that."""
    exchange(vhost, "x-recent-history", {"x-recent-history-length": 300})
    for _ in range(300):
        routed(vhost, with_headers({}))
    assert cost(lambda: vhost.exchanges.bind_queue(queue(vhost, "q"), "e", "", {})) >= 300


# -- queues ---------------------------------------------------------------------------------------------------------


def test_queues_that_deduplicate_decode_a_message_once(vhost: VHost) -> None:
    """However many queues look for a message's number, its headers and properties are decoded for the first of them."""
    exchange(vhost, "fanout")
    for number in range(30):
        vhost.exchanges.bind_queue(queue(vhost, f"q{number}", {"x-dedup-window": 1_000}), "e", "", {})
    message = with_headers({"a": "x" * LONG})
    assert cost(lambda: put_routed(vhost, Route(message.address), message)) < 3 * LONG // 16


@pytest.mark.parametrize("argument", ["x-group-header", "x-last-value-key"])
def test_long_keys_of_messages_are_paid_for(vhost: VHost, argument: str) -> None:
    """The group, or the key of a last value, is put together for each queue that asks for it."""
    exchange(vhost, "fanout")
    for number in range(30):
        made = queue(vhost, f"q{number}", {argument: "a"})
        made.subscribe(Taker(0), {})
        vhost.exchanges.bind_queue(made, "e", "", {})
    message = with_headers({"a": "x" * LONG})

    def published() -> None:
        put_routed(vhost, Route(message.address), message)
        for number in range(30):
            got(vhost.queues[f"q{number}"])

    assert cost(published) >= LONG // 16 + 30 * (LONG // 4_096)


class Asking(Taker):
    """A choosy consumer, and what it costs to ask it."""

    def __init__(self, units: int, suits: bool = False) -> None:
        super().__init__(1_000_000)
        self.is_filtered = True
        self.matching_cost = units
        self._suits = suits
        self.asked = 0

    def matches(self, message: Message) -> bool:
        self.asked += 1
        WORK.spent += self.matching_cost
        return self._suits


def test_a_queue_has_a_bound_of_selectors(vhost: VHost) -> None:
    """A consumer whose selector would make each message too much work is refused, and is no consumer."""
    made = queue(vhost, "q")
    made.subscribe(Asking(ASKING_WORK_UNITS), {})
    with pytest.raises(PreconditionFailed, match="bind several queues"):
        made.subscribe(Asking(1), {})
    made.subscribe(Taker(1), {})
    assert len(made.consumers) == 2


def test_a_tick_has_a_bound_of_dispatching() -> None:
    """Many queues whose consumers are dear to ask have their turns in several ticks."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    consumers = []
    for number in range(30):
        made = queue(vhost, f"q{number}")
        consumers.append(Asking(DISPATCH_BURST_MESSAGES))
        made.subscribe(consumers[-1], {})
        put_routed(vhost, Route(Address("", f"q{number}")), with_headers({}, "", f"q{number}"))
    ticks = []
    while broker.has_ready:
        ticks.append(cost(broker.dispatch))
    assert max(ticks) <= DISPATCH_WORK_UNITS + 2 * DISPATCH_BURST_MESSAGES
    assert len(ticks) >= 3
    assert [consumer.asked for consumer in consumers] == [1] * 30


def test_giving_back_has_a_bound(vhost: VHost) -> None:
    """Dispatches ask about most of what comes back in great number, which is still in front and in its order."""
    made = queue(vhost, "q")
    first = Asking(0, suits=True)
    made.subscribe(first, {})
    for number in range(100):
        made.enqueue(Message(Address("", "q"), CODEC_091, b"\x00\x00", str(number).encode(), TRANSIENT, 0))
    while made.dispatch():
        pass
    made.unsubscribe(first)
    dear = Asking(DISPATCH_BURST_MESSAGES // 4)
    made.subscribe(dear, {})
    made.enqueue(Message(Address("", "q"), CODEC_091, b"\x00\x00", b"last", TRANSIENT, 0))
    while made.dispatch():
        pass
    assert cost(lambda: made.requeue(first.taken)) < 2 * DISPATCH_BURST_MESSAGES
    anyone = Taker(200)
    made.subscribe(anyone, {})
    while made.dispatch():
        pass
    assert anyone.bodies == [*[str(number) for number in range(100)], "last"]


# -- what goes ------------------------------------------------------------------------------------------------------


def test_what_goes_together_is_paid_for(vhost: VHost) -> None:
    """To purge a queue costs its messages, and to delete it, or an exchange, its bindings."""
    exchange(vhost, "direct")
    made = queue(vhost, "q")
    for number in range(500):
        vhost.exchanges.bind_queue(made, "e", str(number), {})
        put_routed(vhost, Route(Address("", "q")), with_headers({}, "", "q"))
    assert cost(lambda: purge(entry_queue(made, "queue.purge"))) >= 500
    assert cost(lambda: vhost.delete_queue("q", False, False, None)) >= 4 * 500
    made = queue(vhost, "q")
    for number in range(500):
        vhost.exchanges.bind_queue(made, "e", str(number), {})
    assert cost(lambda: vhost.exchanges.delete("e", False)) >= 4 * 500


def test_dead_letters_have_a_bound() -> None:
    """Letters whose headers take long to write go out in several ticks, and all of them do."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    dying = queue(vhost, "q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    dead = queue(vhost, "dead")
    for _ in range(60):
        dying.enqueue(with_headers({"a": "x" * LONG}, "", "q"))
    for _ in range(60):
        entry = dying.get()
        assert entry is not None
        dying.reject(entry)
    ticks = []
    while broker.dead_letter_count:
        ticks.append(cost(broker.dispatch))
    assert max(ticks) <= DEAD_LETTER_STEP_UNITS + LONG
    assert len(ticks) >= 3
    assert dead.message_count == 60


def test_many_dead_letters_take_several_ticks() -> None:
    """However many messages die at once, a tick publishes a part of them, in order."""
    broker = Broker(MemoryStorage())
    vhost = broker.add_vhost("/")
    dying = queue(vhost, "q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    dead = queue(vhost, "dead")
    count = 3 * DEAD_LETTER_STEP_UNITS // DEAD_LETTER_WORK_UNITS
    for _ in range(count):
        dying.enqueue(with_headers({}, "", "q"))
        entry = dying.get()
        assert entry is not None
        dying.reject(entry)
    steps = []
    while broker.dispatch():
        steps.append(dead.message_count)
    assert len(steps) >= 2
    assert max(after - before for before, after in itertools.pairwise([0, *steps])) <= count // 3
    assert dead.message_count == count


def test_long_message_ids_are_known_by_a_digest(vhost: VHost) -> None:
    """What a queue remembers of a message does not grow with an id that only AMQP 1.0 can have."""
    made = queue(vhost, "q", {"x-dedup-window": 1_000})
    dedup = made.dedup
    assert dedup is not None
    for _ in range(2):
        message = _from_amqp10("i" * LONG)
        put_routed(vhost, Route(message.address), message)
    assert made.message_count == 1
    assert max(len(key) for key in dedup._known) < 300


def _from_amqp10(message_id: str) -> Message:
    properties = write_properties(Properties10(message_id=message_id))
    return Message(Address("", "q"), CODEC_10, properties, b"m", TRANSIENT, 0, 1)
