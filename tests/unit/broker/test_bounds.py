"""How long names and tables of definitions may be, whichever way they come in."""

import pytest

from flintmq.base.errors import ConfigurationError, PreconditionFailed
from flintmq.base.limits import ARGUMENTS_MAX_BYTES, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX
from flintmq.broker.bounds import name_fault, short, value_fault
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.ports import ParameterRecord, PermissionRecord, PolicyRecord, Rule, UserRecord, VHostRecord
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091
from tests.unit.broker.memory import MemoryStorage, put_routed

LONG = "é" * 128


def nested(depth: int) -> Table:
    table: Table = {}
    for _ in range(depth - 1):
        table = {"t": table}
    return table


@pytest.fixture
def broker() -> Broker:
    return Broker(MemoryStorage())


@pytest.fixture
def vhost(broker: Broker) -> VHost:
    return broker.add_vhost("/")


@pytest.mark.parametrize("name", ["", "a" * 255, "é" * 127])
def test_names_that_a_short_string_holds(name: str) -> None:
    """255 bytes in UTF-8 are taken, and stay as they are."""
    assert name_fault("name", name) == ""
    assert short(name) == name


@pytest.mark.parametrize(("name", "cut"), [("a" * 256, "a" * 255), (LONG, "é" * 127), ("\ud800", "?")])
def test_names_that_no_short_string_holds(name: str, cut: str) -> None:
    """One byte more is not, and neither is what has no UTF-8; what is cut ends with a whole character."""
    assert name_fault("name", name)
    assert short(name) == cut


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * (ARGUMENTS_MAX_BYTES - 100)},
        {"a" * 255: None},
        {"a": [1] * TABLE_ENTRIES_MAX},
        nested(TABLE_DEPTH_MAX),
        {"a": 2**63 - 1, "b": -(2**63), "c": 0.5, "d": True, "e": b"x"},
    ],
)
def test_tables_that_a_frame_holds(value: Table) -> None:
    """What a client of AMQP 0-9-1 may send is taken."""
    assert value_fault("it", value) == ""


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * ARGUMENTS_MAX_BYTES},
        {"a": ["é" * (ARGUMENTS_MAX_BYTES // 2)]},
        {"a": b"x" * ARGUMENTS_MAX_BYTES},
        {str(number): None for number in range(TABLE_ENTRIES_MAX)} | {"t": [0] * TABLE_ENTRIES_MAX * 3},
        {"a": {"a" * 256: 1}},
        {str(number): 1 for number in range(TABLE_ENTRIES_MAX + 1)},
        {"a": [1] * (TABLE_ENTRIES_MAX + 1)},
        nested(TABLE_DEPTH_MAX + 1),
        {"a": 10**5_000},
        [[["x" * 1000]] * 1000],
    ],
)
def test_tables_that_no_frame_holds(value: object) -> None:
    """What no client of AMQP 0-9-1 could send is refused: for its bytes, its entries, its depth, a name or a number."""
    assert value_fault("it", value).startswith("it")


def test_what_is_declared(vhost: VHost) -> None:
    """Queues, exchanges and bindings: their names, keys and arguments."""
    large: Table = {"x-anything": "x" * ARGUMENTS_MAX_BYTES}
    queue = vhost.declare_queue("q", True, False, False, {}, None)
    exchanges = vhost.exchanges
    for declare in (
        lambda: vhost.declare_queue(LONG, True, False, False, {}, None),
        lambda: vhost.declare_queue("p", True, False, False, large, None),
        lambda: exchanges.declare(LONG, "direct", True, False, False, {}),
        lambda: exchanges.declare("x", "direct", True, False, False, large),
        lambda: exchanges.bind_queue(queue, "amq.topic", LONG, {}),
        lambda: exchanges.bind_queue(queue, "amq.topic", "k", large),
        lambda: exchanges.bind_exchange("amq.fanout", "amq.topic", LONG, {}),
    ):
        with pytest.raises(PreconditionFailed):
            declare()
    assert set(vhost.queues) == {"q"}
    assert not exchanges.by_name["amq.topic"].bindings


@pytest.mark.parametrize(
    "rule",
    [
        PolicyRecord("/", LONG, ".*", {"max-length": 1}),
        PolicyRecord("/", "p", ".*", {"max-length": 1, "ha-params": "x" * ARGUMENTS_MAX_BYTES}),
        PolicyRecord("/", "p", "x" * ARGUMENTS_MAX_BYTES, {"max-length": 1}),
        ParameterRecord("/", "c", LONG, 1),
        ParameterRecord("/", LONG, "n", 1),
        ParameterRecord("", "", "n", ["x" * ARGUMENTS_MAX_BYTES]),
        PermissionRecord("/", "u", "x" * ARGUMENTS_MAX_BYTES, "", ""),
    ],
)
def test_rules(broker: Broker, vhost: VHost, rule: Rule) -> None:
    """Policies, parameters and permissions."""
    broker.put_user(UserRecord("u", ""))
    with pytest.raises(ConfigurationError):
        broker.put_rule(rule)


def test_virtual_hosts_and_users(broker: Broker) -> None:
    """Their names, and what is said of them."""
    tags = ("x" * 1000,) * 1000
    for record in (
        VHostRecord(LONG),
        VHostRecord("v", description="x" * ARGUMENTS_MAX_BYTES),
        VHostRecord("v", tags=tags),
    ):
        with pytest.raises(ConfigurationError):
            broker.put_vhost(record)
    for user in (UserRecord(LONG, ""), UserRecord("u", "", tags)):
        with pytest.raises(ConfigurationError):
            broker.put_user(user)
    assert not broker.vhosts
    assert not broker.users


def test_what_is_published(vhost: VHost) -> None:
    """A key that no delivery can say reaches no queue, by whichever way it was published."""
    queue = vhost.declare_queue("q", True, False, False, {}, None)
    vhost.exchanges.bind_queue(queue, "amq.fanout", "", {})
    nothing = CODEC_091.nothing
    message = Message(Address("amq.fanout", LONG), CODEC_091, nothing, b"", CODEC_091.options(nothing), 0)
    with pytest.raises(PreconditionFailed, match="the routing key .* has 256 bytes"):
        put_routed(vhost, Route(message.address), message)
    assert queue.message_count == 0
