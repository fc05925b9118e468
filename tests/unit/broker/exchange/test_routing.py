"""Routes through several exchanges: bindings between them, alternates, filters, and what is remembered of a route."""

import pytest

from flintmq.base.errors import AccessRefused, NotFound, PreconditionFailed
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.base import Binding
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.selector.filter import Filter
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import MemoryStorage, message


@pytest.fixture
def vhost() -> VHost:
    return Broker(MemoryStorage()).add_vhost("/")


def declare(vhost: VHost, name: str, kind: str = "fanout", **arguments: object) -> None:
    vhost.exchanges.declare(
        name, kind, True, False, False, {key.replace("_", "-"): arguments[key] for key in arguments}
    )


def declare_auto_delete(vhost: VHost, name: str, kind: str = "fanout", internal: bool = False) -> None:
    vhost.exchanges.declare(name, kind, True, True, internal, {})


def queue(vhost: VHost, name: str, exclusive_to: object = None) -> Queue:
    return vhost.declare_queue(name, exclusive_to is None, exclusive_to is not None, False, {}, exclusive_to)


def bound(vhost: VHost, name: str, source: str, key: str = "", arguments: Table | None = None) -> Queue:
    made = queue(vhost, name)
    vhost.exchanges.bind_queue(made, source, key, arguments or {})
    return made


def route(vhost: VHost, exchange: str, key: str = "", headers: str = "") -> list[str]:
    return look(vhost, Route(Address(exchange, key)), headers)


def look(vhost: VHost, way: Route, headers: str = "") -> list[str]:
    return sorted(found.name for found in vhost.router.queues(way, message(headers=headers)))


def test_exchanges_lead_to_exchanges(vhost: VHost) -> None:
    """Each exchange on the way matches by its own type, with the key the message was published with."""
    declare(vhost, "first", "topic")
    declare(vhost, "second", "direct")
    vhost.exchanges.bind_exchange("second", "first", "a.#", {})
    bound(vhost, "q", "second", "a.b")
    bound(vhost, "near", "first", "*.b")
    assert route(vhost, "first", "a.b") == ["near", "q"]
    assert route(vhost, "first", "a.c") == []
    assert route(vhost, "first", "c.b") == ["near"]
    vhost.exchanges.unbind_exchange("second", "first", "a.#", {})
    assert route(vhost, "first", "a.b") == ["near"]


def test_cycles_end_and_nothing_comes_twice(vhost: VHost) -> None:
    """Exchanges bound in a circle, or to themselves, are visited once, and a queue on several ways gets one message."""
    for name in "abc":
        declare(vhost, name)
    for source, destination in ("ab", "bc", "ca", "aa", "ac"):
        vhost.exchanges.bind_exchange(destination, source, "", {})
    target = bound(vhost, "q", "b")
    for name in "ac":
        vhost.exchanges.bind_queue(target, name, "", {})
    vhost.exchanges.bind_queue(target, "c", "other", {})
    assert [found.name for found in vhost.router.queues(Route(Address("a", "")), message())] == ["q"]
    assert route(vhost, "c") == ["q"]


def test_internal_exchanges_are_reached_by_exchanges_only(vhost: VHost) -> None:
    """Publishing to an internal exchange is refused with 403; a binding may lead to it."""
    vhost.exchanges.declare("inside", "fanout", True, False, True, {})
    declare(vhost, "outside")
    bound(vhost, "q", "inside")
    vhost.exchanges.bind_exchange("inside", "outside", "", {})
    assert route(vhost, "outside") == ["q"]
    with pytest.raises(AccessRefused, match="cannot publish to internal exchange 'inside' in vhost '/'"):
        route(vhost, "inside")


def test_the_default_exchange_cannot_be_bound(vhost: VHost) -> None:
    """Neither end of a binding may be the default exchange, and both have to be there."""
    declare(vhost, "x")
    for destination, source in (("", "x"), ("x", "")):
        with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
            vhost.exchanges.bind_exchange(destination, source, "", {})
        with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
            vhost.exchanges.unbind_exchange(destination, source, "", {})
    for destination, source in (("gone", "x"), ("x", "gone")):
        with pytest.raises(NotFound, match="no exchange 'gone' in vhost '/'"):
            vhost.exchanges.bind_exchange(destination, source, "", {})


def test_passive_declaration_of_the_default_exchange(vhost: VHost) -> None:
    """It is refused as every other method on it; of another exchange it asks for its existence alone."""
    with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
        vhost.exchanges.find_declared("")
    with pytest.raises(NotFound, match="no exchange 'gone' in vhost '/'"):
        vhost.exchanges.find_declared("gone")
    assert vhost.exchanges.find_declared("amq.topic").type == "topic"


def test_auto_delete_counts_bindings_to_exchanges(vhost: VHost) -> None:
    """An auto-delete exchange goes with the last binding from it, be it to a queue or an exchange, and not before."""
    declare_auto_delete(vhost, "x")
    declare(vhost, "end")
    target = bound(vhost, "q", "x")
    vhost.exchanges.bind_exchange("end", "x", "", {})
    vhost.exchanges.unbind_queue(target, "x", "", {})
    assert "x" in vhost.exchanges.by_name
    vhost.exchanges.delete("end", False)
    assert "x" not in vhost.exchanges.by_name


def test_a_long_chain_of_auto_delete_exchanges_goes_at_once(vhost: VHost) -> None:
    """What ends with a queue is not limited by the depth of a stack."""
    count = 3000
    for at in range(count):
        declare_auto_delete(vhost, f"x{at}")
    for at in range(count - 1):
        vhost.exchanges.bind_exchange(f"x{at + 1}", f"x{at}", "", {})
    target = bound(vhost, "q", f"x{count - 1}")
    assert route(vhost, "x0") == ["q"]
    vhost.remove_queue(target)
    assert [name for name in vhost.exchanges.by_name if name.startswith("x")] == []


def test_in_use_means_bindings_from_an_exchange(vhost: VHost) -> None:
    """if-unused asks for bindings that start at the exchange; those that lead to it go with it."""
    declare(vhost, "a")
    declare(vhost, "b")
    vhost.exchanges.bind_exchange("b", "a", "", {})
    with pytest.raises(PreconditionFailed, match="exchange 'a' in vhost '/' in use"):
        vhost.exchanges.delete("a", True)
    vhost.exchanges.delete("b", True)
    assert vhost.exchanges.find("a").bindings == {}


def test_an_exchange_made_anew_has_no_old_bindings(vhost: VHost) -> None:
    """What was bound to an exchange, and what it was bound to, is gone with it."""
    declare(vhost, "a")
    declare(vhost, "b")
    vhost.exchanges.bind_exchange("b", "a", "", {})
    target = bound(vhost, "q", "b")
    way = Route(Address("a", ""))
    assert look(vhost, way) == ["q"]
    vhost.exchanges.delete("b", False)
    assert look(vhost, way) == []
    declare(vhost, "b")
    assert look(vhost, way) == []
    assert vhost.exchanges.bindings.to(target) == []


def test_alternate_exchange_takes_what_matches_nothing(vhost: VHost) -> None:
    """It is asked where no binding matches, along a chain of them, and a circle of them ends."""
    declare(vhost, "a", "direct", alternate_exchange="b")
    declare(vhost, "b", "direct", alternate_exchange="c")
    declare(vhost, "c", "direct", alternate_exchange="a")
    bound(vhost, "qa", "a", "a")
    bound(vhost, "qb", "b", "b")
    bound(vhost, "qc", "c", "c")
    assert [route(vhost, "a", key) for key in "abcd"] == [["qa"], ["qb"], ["qc"], []]
    assert [route(vhost, "c", key) for key in "abcd"] == [["qa"], ["qb"], ["qc"], []]


def test_alternate_of_an_exchange_on_the_way(vhost: VHost) -> None:
    """Every exchange on the way has its own alternate; one that matched an exchange does not need it (RabbitMQ)."""
    declare(vhost, "spare")
    declare(vhost, "end", "direct", alternate_exchange="spare")
    declare(vhost, "start", "fanout", alternate_exchange="amq.fanout")
    vhost.exchanges.bind_exchange("end", "start", "", {})
    bound(vhost, "q", "spare")
    bound(vhost, "never", "amq.fanout")
    assert route(vhost, "start", "nothing") == ["q"]


def test_an_alternate_may_come_and_go(vhost: VHost) -> None:
    """A missing alternate is as none, and counts from when it is declared."""
    declare(vhost, "a", "direct", alternate_exchange="late")
    way = Route(Address("a", ""))
    assert look(vhost, way) == []
    declare(vhost, "late")
    bound(vhost, "q", "late")
    assert look(vhost, way) == ["q"]
    vhost.exchanges.delete("late", False)
    assert look(vhost, way) == []


def test_alternate_by_policy(vhost: VHost) -> None:
    """A policy gives an alternate to exchanges whose arguments name none."""
    declare(vhost, "plain", "direct")
    declare(vhost, "own", "direct", alternate_exchange="amq.direct")
    bound(vhost, "q", "amq.fanout")
    ways = [Route(Address("plain", "")), Route(Address("own", ""))]
    for name in ("plain", "own"):
        vhost.exchanges.set_alternate(vhost.exchanges.find(name), "amq.fanout")
    assert [look(vhost, way) for way in ways] == [["q"], []]
    vhost.exchanges.set_alternate(vhost.exchanges.find("plain"), "")
    assert look(vhost, ways[0]) == []


def test_alternate_exchange_is_compared(vhost: VHost) -> None:
    """A declaration that differs in it is 406, in RabbitMQ's words; and it has to be a name."""
    declare(vhost, "a", "direct", alternate_exchange="b")
    declare(vhost, "none", "direct")
    for name, arguments, text in (
        ("a", {"alternate-exchange": "c"}, "received 'c' but current is 'b'"),
        ("a", {}, "received none but current is the value 'b' of type 'longstr'"),
        ("none", {"alternate-exchange": "c"}, "received the value 'c' of type 'longstr' but current is none"),
    ):
        with pytest.raises(PreconditionFailed) as refused:
            vhost.exchanges.declare(name, "direct", True, False, False, dict(arguments))
        assert refused.value.text == f"inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/': {text}"
    with pytest.raises(PreconditionFailed) as refused:
        declare(vhost, "new", "direct", alternate_exchange=1)
    assert refused.value.text == "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'new' in vhost '/'"
    assert "new" not in vhost.exchanges.by_name


def test_several_keys(vhost: VHost) -> None:
    """A message with further keys goes where any of them leads, each queue once; an alternate is for none of them."""
    declare(vhost, "a", "direct", alternate_exchange="amq.fanout")
    bound(vhost, "spare", "amq.fanout")
    first, second = bound(vhost, "first", "a", "1"), bound(vhost, "second", "a", "2")
    vhost.exchanges.bind_queue(second, "a", "1", {})
    way = Route(Address("a", "0"))
    assert vhost.router.queues_of_keys(way, message(), ["1", "2"]) == [first, second]
    assert [found.name for found in vhost.router.queues_of_keys(way, message(), ["3"])] == ["spare"]
    default = Route(Address("", "first"))
    assert vhost.router.queues_of_keys(default, message(), ["gone", "second", "first"]) == [first, second]


def test_headers_on_the_way_are_read_for_each_message(vhost: VHost) -> None:
    """A remembered route does not reach beyond an exchange that looks into messages."""
    declare(vhost, "start", "direct")
    declare(vhost, "end", "headers")
    vhost.exchanges.bind_exchange("end", "start", "k", {})
    bound(vhost, "q", "end", "", {"a": 1})
    bound(vhost, "plain", "start", "l")
    way = Route(Address("start", "k"))
    assert [look(vhost, way, headers) for headers in ("a=1", "a=2", "a=1")] == [["q"], [], ["q"]]
    assert way.per_message
    other = Route(Address("start", "l"))
    assert look(vhost, other) == ["plain"]
    assert not other.per_message


class Body(Filter):
    def __init__(self, body: bytes) -> None:
        self._body = body

    def matches(self, message: Message) -> bool:
        return message.body == self._body


def test_filters_are_asked_for_each_message(vhost: VHost) -> None:
    """A binding with a filter takes what the filter accepts; what it turns down goes to the alternate."""
    declare(vhost, "x", "direct", alternate_exchange="amq.fanout")
    bound(vhost, "spare", "amq.fanout")
    source = vhost.exchanges.find("x")
    vhost.exchanges.bindings.add(Binding(source, queue(vhost, "q"), "k", {}, Body(b"yes")))
    vhost.router.changed(source)
    way = Route(Address("x", "k"))
    found = [vhost.router.queues(way, message(body)) for body in ("yes", "no")]
    assert [[each.name for each in queues] for queues in found] == [["q"], ["spare"]]


def test_routes_follow_every_change(vhost: VHost) -> None:
    """A route that was remembered is as good as a new one after each change of what lies on it."""
    declare(vhost, "x", "direct")
    way, default = Route(Address("x", "k")), Route(Address("", "q"))
    assert (look(vhost, way), look(vhost, default)) == ([], [])
    target = bound(vhost, "q", "x", "k")
    assert (look(vhost, way), look(vhost, default)) == (["q"], ["q"])
    vhost.exchanges.unbind_queue(target, "x", "k", {})
    assert look(vhost, way) == []
    vhost.exchanges.bind_queue(target, "x", "k", {})
    assert look(vhost, way) == ["q"]
    vhost.remove_queue(target)
    assert (look(vhost, way), look(vhost, default)) == ([], [])
    vhost.exchanges.delete("x", False)
    with pytest.raises(NotFound, match="no exchange 'x' in vhost '/'"):
        look(vhost, way)


def test_changes_elsewhere_leave_a_route_as_it_is(vhost: VHost) -> None:
    """Queues and bindings that a route does not touch do not make it be found anew."""
    declare(vhost, "x", "direct")
    bound(vhost, "q", "x", "k")
    way = Route(Address("x", "k"))
    look(vhost, way)
    known = way.queues
    bound(vhost, "other", "amq.direct", "k")
    look(vhost, way)
    assert way.queues is known
    assert way.version == vhost.router.version
    bound(vhost, "third", "x", "l")
    look(vhost, way)
    assert way.queues is not known


def test_durable_bindings_are_kept(vhost: VHost) -> None:
    """A binding is in the definitions while both its ends are durable, and comes back with them."""
    storage = MemoryStorage()
    broker = Broker(storage)
    vhost = broker.add_vhost("/")
    declare(vhost, "a")
    declare(vhost, "b", alternate_exchange="spare")
    vhost.exchanges.declare("passing", "fanout", False, False, False, {})
    vhost.exchanges.bind_exchange("b", "a", "k", {"n": 1})
    for destination, source in (("passing", "a"), ("b", "passing")):
        vhost.exchanges.bind_exchange(destination, source, "", {})
    vhost.exchanges.bind_queue(queue(vhost, "mine", object()), "b", "", {})
    bound(vhost, "q", "b")
    # A queue and an exchange of one name are two things.
    vhost.remove_queue(bound(vhost, "b", "a", "k", {"n": 1}))

    again = Broker(storage)
    again.recover(storage.definitions.load())
    vhost = again.vhosts["/"]
    assert route(vhost, "a") == ["q"]
    assert vhost.exchanges.find("b").alternate == "spare"
    (kept,) = vhost.exchanges.find("a").each_binding()
    assert (kept.destination_type, kept.destination.name, kept.key) == ("exchange", "b", ("k", "{'n':1}"))
    vhost.exchanges.unbind_exchange("b", "a", "k", {"n": 1})
    assert [binding.destination for binding in storage.memory_definitions.bindings] == ["q"]
    vhost.exchanges.bind_exchange("b", "a", "", {})
    vhost.exchanges.delete("b", False)
    assert storage.memory_definitions.bindings == []
