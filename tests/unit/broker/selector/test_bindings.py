"""Selectors on bindings: over a restart, beside each type of exchange, and what they cost."""

from flintmq.base.work import WORK
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Table
from flintmq.broker.ports import BindingRecord
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import MemoryStorage, message, put_routed


def queue(vhost: VHost, name: str) -> Queue:
    return vhost.declare_queue(name, True, False, False, {}, None)


def bind(vhost: VHost, name: str, source: str, key: str = "", **arguments: object) -> None:
    bound: Table = {argument.replace("_", "-"): value for argument, value in arguments.items()}
    vhost.exchanges.bind_queue(vhost.queues.get(name) or queue(vhost, name), source, key, bound)


def led(vhost: VHost, way: Route, headers: str) -> list[str]:
    return [found.name for found in vhost.router.queues(way, message(headers=headers))]


def test_durable_bindings_keep_their_selectors() -> None:
    """After a restart a binding selects as before; one that this release cannot read lets nothing through."""
    storage = MemoryStorage()
    vhost = Broker(storage).add_vhost("/")
    bind(vhost, "reds", "amq.fanout", x_selector="color = 'red'")
    queue(vhost, "unreadable")
    broken: Table = {"x-selector": "color ~ 'red'"}
    storage.definitions.put_binding(BindingRecord("/", "amq.fanout", "unreadable", "", broken))

    again = Broker(storage)
    again.recover(storage.definitions.load())
    vhost = again.vhosts["/"]
    way = Route(Address("amq.fanout", ""))
    assert led(vhost, way, "color=red") == ["reds"]
    assert led(vhost, way, "color=blue") == []
    vhost.exchanges.unbind_queue(vhost.queues["unreadable"], "amq.fanout", "", broken)
    assert vhost.exchanges.find("amq.fanout").binding_count == 1


def test_selected_twice_is_delivered_once() -> None:
    """Two bindings of one queue lead what either selects, each message once; without one, all the same."""
    vhost = Broker(MemoryStorage()).add_vhost("/")
    for selector in ("color = 'red'", "size = 'big'"):
        bind(vhost, "q", "amq.direct", "k", x_selector=selector)
    way = Route(Address("amq.direct", "k"))
    assert [led(vhost, way, headers) for headers in ("color=red;size=big", "size=big", "color=blue")] == [
        ["q"],
        ["q"],
        [],
    ]


def test_headers_exchange_compares_no_selector() -> None:
    """With all-with-x a binding's selector is still a condition, and no value for a header to have."""
    vhost = Broker(MemoryStorage()).add_vhost("/")
    arguments: Table = {"x-match": "all-with-x", "x-kind": "a", "x-selector": "color = 'red'"}
    vhost.exchanges.bind_queue(queue(vhost, "q"), "amq.headers", "", arguments)
    way = Route(Address("amq.headers", ""))
    assert led(vhost, way, "x-kind=a;color=red") == ["q"]
    assert led(vhost, way, "x-kind=a;color=blue") == []
    assert led(vhost, way, "x-kind=b;color=red") == []


def test_a_history_is_selected_from() -> None:
    """A new binding of x-recent-history gets what it selects of the last messages."""
    vhost = Broker(MemoryStorage()).add_vhost("/")
    vhost.exchanges.declare("recent", "x-recent-history", True, False, False, {})
    for color in ("red", "blue", "red"):
        put_routed(vhost, Route(Address("recent", "")), message(color, headers=f"color={color}"))
    bind(vhost, "q", "recent", x_selector="color = 'red'")
    assert vhost.queues["q"].message_count == 2


def test_only_routes_with_a_selector_are_asked_anew() -> None:
    """Other keys of the same exchange are remembered, and cost what they cost without selectors."""
    vhost = Broker(MemoryStorage()).add_vhost("/")
    bind(vhost, "plain", "amq.direct", "plain")
    bind(vhost, "chosen", "amq.direct", "chosen", x_selector="color = 'red'")
    for number in range(100):
        bind(vhost, "other", "amq.direct", str(number))
    plain, chosen = Route(Address("amq.direct", "plain")), Route(Address("amq.direct", "chosen"))
    led(vhost, plain, "")
    led(vhost, chosen, "")
    assert (plain.per_message, chosen.per_message) == (False, True)
    before = WORK.spent
    led(vhost, plain, "")
    assert WORK.spent == before
    led(vhost, chosen, "")
    # The binding, and its selector; not the hundred that a message to this key is not compared with.
    assert 1 < WORK.spent - before < 20
