"""Whatever exchanges, queues and bindings come and go, messages go where a naive reading of the rules sends them.

The model keeps bindings as a list and looks at all of them for every message; it remembers nothing. The broker's routes
live as long as the machine, so that everything that is remembered is asked again after every change.
"""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flintmq.base.errors import AccessRefused, NotFound, PreconditionFailed
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Table
from tests.effort import effort
from tests.unit.broker.memory import MemoryStorage, message

EXCHANGES = ("x0", "x1", "x2", "x3")
QUEUES = ("q0", "q1", "q2")


class Declared(NamedTuple):
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str


class Bound(NamedTuple):
    source: str
    kind: str
    destination: str
    key: str
    arguments: tuple[tuple[str, object], ...]


exchange_names = st.sampled_from(EXCHANGES)
queue_names = st.sampled_from(QUEUES)
destinations = st.sampled_from([("exchange", name) for name in EXCHANGES] + [("queue", name) for name in QUEUES])
keys = st.sampled_from(["a", "b", "a.b", "a.b.a"])
patterns = keys | st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4).map(".".join)
declarations = st.builds(
    Declared,
    type=st.sampled_from(["direct", "topic", "fanout", "headers"]),
    durable=st.booleans(),
    auto_delete=st.booleans(),
    internal=st.sampled_from([False, False, True]),
    alternate=st.sampled_from(["", *EXCHANGES]),
)
conditions: st.SearchStrategy[Table] = st.fixed_dictionaries(
    {},
    optional={
        "x-match": st.sampled_from(["all", "any", "all-with-x", "any-with-x"]),
        "h": st.sampled_from([None, 1, 2]),
        "i": st.sampled_from([None, 1]),
        "x-h": st.just(1),
    },
)
headers = st.dictionaries(st.sampled_from(["h", "i", "x-h"]), st.integers(1, 2))


def topic_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return topic_match(pattern[1:], words) or (bool(words) and topic_match(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_match(pattern[1:], words[1:])


def headers_match(arguments: Table, found: dict[str, int]) -> bool:
    match = str(arguments.get("x-match", "all"))
    compared = [
        name in found and value in (None, found[name])
        for name, value in arguments.items()
        if name != "x-match" and (match.endswith("-with-x") or not name.startswith("x-"))
    ]
    return any(compared) if match.startswith("any") else all(compared)


class ExchangeGraph(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.vhost = self.broker.add_vhost("/")
        self.exchanges: dict[str, Declared] = {}
        self.queues: dict[str, bool] = {}
        self.bound: list[Bound] = []
        self.routes: dict[tuple[str, str], Route] = {}

    # -- the model ----------------------------------------------------------------------------------------------

    def drop(self, gone: list[Bound]) -> None:
        self.bound = [each for each in self.bound if each not in gone]
        for source in {each.source for each in gone}:
            declared = self.exchanges.get(source)
            if declared and declared.auto_delete and not any(each.source == source for each in self.bound):
                self.drop_exchange(source)

    def drop_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self.bound = [each for each in self.bound if each.source != name]
        self.drop([each for each in self.bound if (each.kind, each.destination) == ("exchange", name)])

    def matches(self, bound: Bound, key: str, found: dict[str, int]) -> bool:
        kind = self.exchanges[bound.source].type
        if kind == "topic":
            return topic_match(bound.key.split("."), key.split("."))
        if kind == "headers":
            return headers_match(dict(bound.arguments), found)
        return kind == "fanout" or bound.key == key

    def expected(self, exchange: str, wanted: list[str], found: dict[str, int]) -> set[str]:
        reached: set[str] = set()
        visited: set[str] = set()
        ahead = [exchange]
        while ahead:
            name = ahead.pop()
            if name in visited or name not in self.exchanges:
                continue
            visited.add(name)
            matching = [
                each
                for each in self.bound
                if each.source == name and any(self.matches(each, key, found) for key in wanted)
            ]
            for each in matching:
                (reached.add if each.kind == "queue" else ahead.append)(each.destination)
            if not matching:
                ahead.append(self.exchanges[name].alternate)
        return reached

    # -- what happens -------------------------------------------------------------------------------------------

    @initialize(declarations=st.lists(declarations, min_size=len(EXCHANGES), max_size=len(EXCHANGES)))
    def declare_all(self, declarations: list[Declared]) -> None:
        for name, declared in zip(EXCHANGES, declarations, strict=True):
            self.declare_exchange(name, declared)
        for name in QUEUES:
            self.declare_queue(name, True)

    @rule(name=exchange_names, declared=declarations)
    def declare_exchange_anew(self, name: str, declared: Declared) -> None:
        self.declare_exchange(name, declared)

    def declare_exchange(self, name: str, declared: Declared) -> None:
        kind, durable, auto_delete, internal, alternate = declared
        arguments: Table = {"alternate-exchange": alternate} if alternate else {}
        known = self.exchanges.setdefault(name, declared)
        try:
            self.vhost.exchanges.declare(name, kind, durable, auto_delete, internal, arguments)
            assert known == declared
        except PreconditionFailed:
            assert known != declared

    @rule(name=exchange_names, if_unused=st.booleans())
    def delete_exchange(self, name: str, if_unused: bool) -> None:
        in_use = if_unused and any(each.source == name for each in self.bound)
        try:
            self.vhost.exchanges.delete(name, if_unused)
            assert not in_use
        except PreconditionFailed:
            assert in_use
            return
        if name in self.exchanges:
            self.drop_exchange(name)

    @rule(name=queue_names, durable=st.booleans())
    def declare_queue_anew(self, name: str, durable: bool) -> None:
        self.declare_queue(name, durable)

    def declare_queue(self, name: str, durable: bool) -> None:
        if name not in self.queues:
            self.queues[name] = durable
            self.vhost.declare_queue(name, durable, False, False, {}, None)

    @precondition(lambda self: self.queues)
    @rule(data=st.data())
    def delete_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.queues)))
        del self.queues[name]
        self.vhost.remove_queue(self.vhost.queues[name])
        self.drop([each for each in self.bound if (each.kind, each.destination) == ("queue", name)])

    @rule(wanted=st.lists(st.tuples(exchange_names, destinations, patterns, conditions), min_size=1, max_size=8))
    def bind(self, wanted: list[tuple[str, tuple[str, str], str, Table]]) -> None:
        for source, destination, key, arguments in wanted:
            if self.change("bind", source, destination, key, arguments):
                bound = Bound(source, *destination, key, tuple(sorted(arguments.items())))
                if bound not in self.bound:
                    self.bound.append(bound)

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        bound = data.draw(st.sampled_from(self.bound))
        assert self.change("unbind", bound.source, (bound.kind, bound.destination), bound.key, dict(bound.arguments))
        self.drop([bound])

    @rule(source=exchange_names, destination=destinations, key=patterns)
    def unbind_what_may_not_be(self, source: str, destination: tuple[str, str], key: str) -> None:
        bound = Bound(source, *destination, key, ())
        if self.change("unbind", source, destination, key, {}) and bound in self.bound:
            self.drop([bound])

    def change(self, what: str, source: str, destination: tuple[str, str], key: str, arguments: Table) -> bool:
        """Bind or unbind; whether both ends are there."""
        kind, name = destination
        exchanges = self.vhost.exchanges
        is_there = source in self.exchanges and (name in self.exchanges or name in self.queues)
        try:
            if kind == "exchange":
                (exchanges.bind_exchange if what == "bind" else exchanges.unbind_exchange)(name, source, key, arguments)
            else:
                queue = self.vhost.queue(name, None)
                (exchanges.bind_queue if what == "bind" else exchanges.unbind_queue)(queue, source, key, arguments)
        except NotFound:
            assert not is_there
            return False
        assert is_there
        return True

    @rule(units=st.integers(1, 8))
    def forget_some_deleted_bindings(self, units: int) -> None:
        self.broker.do_steps(units)

    @rule(exchange=exchange_names, key=keys, more=st.lists(keys, min_size=1, max_size=2), found=headers)
    def publish_with_more_keys(self, exchange: str, key: str, more: list[str], found: dict[str, int]) -> None:
        self.check(Route(Address(exchange, key)), more, found)

    @rule(exchange=exchange_names, key=keys)
    def begin_to_publish(self, exchange: str, key: str) -> None:
        self.routes.setdefault((exchange, key), Route(Address(exchange, key)))

    def check(self, route: Route, more: list[str], found: dict[str, int]) -> None:
        exchange, key = route.address.exchange, route.address.routing_key
        published = message(headers=";".join(f"{name}={value}" for name, value in found.items()))
        declared = self.exchanges.get(exchange)
        try:
            if more:
                queues = self.vhost.router.queues_of_keys(route, published, more)
            else:
                queues = self.vhost.router.queues(route, published)
        except NotFound:
            assert declared is None
            return
        except AccessRefused:
            assert declared is not None
            assert declared.internal
            return
        assert declared is not None
        assert not declared.internal
        names = [queue.name for queue in queues]
        assert len(names) == len(set(names))
        assert set(names) == self.expected(exchange, [key, *more], found)

    # -- what always holds --------------------------------------------------------------------------------------

    @invariant()
    def routes_are_right(self) -> None:
        for route in self.routes.values():
            self.check(route, [], {"h": 1})
            self.check(route, [], {"i": 1, "x-h": 1})

    @invariant()
    def the_same_is_there(self) -> None:
        there = {name for name in self.vhost.exchanges.by_name if name in EXCHANGES}
        assert there == self.exchanges.keys()
        assert self.vhost.queues.keys() == self.queues.keys()
        for name in there:
            known = [each for each in self.bound if each.source == name]
            assert self.vhost.exchanges.by_name[name].binding_count == len(known)

    @invariant()
    def what_is_durable_is_defined(self) -> None:
        definitions = self.storage.memory_definitions
        durable = {name for name, declared in self.exchanges.items() if declared.durable}
        assert definitions.exchanges.keys() == durable
        ends = {("exchange", name) for name in durable} | {("queue", name) for name in self.queues if self.queues[name]}
        defined = [
            Bound(
                each.source,
                each.destination_type,
                each.destination,
                each.routing_key,
                tuple(sorted(each.arguments.items())),
            )
            for each in definitions.bindings
        ]
        expected = [each for each in self.bound if each.source in durable and (each.kind, each.destination) in ends]
        assert sorted(defined, key=repr) == sorted(expected, key=repr)


TestExchangeGraph = ExchangeGraph.TestCase
TestExchangeGraph.settings = settings(max_examples=effort(60), stateful_step_count=30)
