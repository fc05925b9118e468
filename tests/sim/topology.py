"""What a simulated node has: queues of all kinds, exchanges of several types, and where a publish goes by them.

A queue's dead letters go to queues of its own, which nobody publishes to: so each copy of a message has one way only.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import ExchangeBind, ExchangeDeclare, Method, QueueBind, QueueDeclare
from tests.sim.messages import Copy

DEAD_EXCHANGE: Final = "dead"


@final
class Line:
    """A queue, and what is known of it: `copies` by the number of their message."""

    def __init__(
        self,
        name: str,
        arguments: Table | None = None,
        *,
        durable: bool = True,
        is_temporary: bool = False,
        is_leased: bool = False,
    ) -> None:
        arguments = arguments or {}
        # Made and deleted while the simulation runs.
        self.is_temporary = is_temporary
        # Read by a lease, and by nobody else.
        self.is_leased = is_leased
        self.name = name
        self.arguments = arguments
        self.durable = durable
        self.is_stream = arguments.get("x-queue-type") == "stream"
        # Whether a stream forgets its beginning.
        self.retires = self.is_stream and "x-max-length-bytes" in arguments
        self.ttl_ms = _number(arguments, "x-message-ttl")
        self.max_length = _number(arguments, "x-max-length")
        self.delivery_limit = _number(arguments, "x-delivery-limit")
        self.deduplicates = "x-dedup-size" in arguments
        self.dead_letters: list[Line] = []
        self.source: Line | None = None
        self.copies: dict[int, Copy] = {}
        # Messages that may have come since the node started, and those it found then.
        self.arrivals = 0
        # Whether messages went to somebody who does not acknowledge, since then.
        self.gave_away = False
        # Channels that ended, each of which may have been sent any message without its client's seeing it.
        self.hands_lost = 0
        # Purges that are asked for and not answered, and whether there was one.
        self.purges = 0
        self.was_purged = False
        # Where nothing comes twice: messages that were there, and are settled for good.
        self.done: set[int] = set()
        # A stream's records that somebody has seen or will see: numbers of messages by offset.
        self.records: dict[int, int] = {}
        # Whether it has to be there, and whether it may.
        self.is_sure = False
        self.is_leaving = False

    def __repr__(self) -> str:
        return self.name


def _number(arguments: Table, name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) else None


@final
@dataclass(frozen=True)
class Address:
    exchange: str
    key: str
    lines: tuple[Line, ...]
    header: str = ""


@final
@dataclass
class Topology:
    lines: list[Line] = field(default_factory=list)
    addresses: list[Address] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)
    # Queues that only publishers reach: no dead letters' ones.
    roots: list[Line] = field(default_factory=list)
    # What is gone after a restart, to be made again.
    fleeting: list[Method] = field(default_factory=list)


Kind = Callable[[random.Random], Table]
# Queues by the beginning of their names.
KINDS: Final[dict[str, Kind]] = {
    "plain": lambda _: {},
    "quorum": lambda chance: {"x-queue-type": "quorum", "x-delivery-limit": chance.choice((1, 3))},
    "priority": lambda _: {"x-max-priority": 5},
    "ttl": lambda chance: {"x-message-ttl": chance.choice((0, 20, 200))},
    "short": lambda chance: {"x-max-length": chance.choice((1, 4, 20))},
    "refusing": lambda chance: {"x-max-length": chance.choice((2, 10)), "x-overflow": "reject-publish"},
    "passing": lambda chance: {"x-max-length": chance.choice((2, 10)), "x-overflow": "reject-publish-dlx"},
    "single": lambda _: {"x-single-active-consumer": True},
    "dedup": lambda _: {"x-dedup-size": 100_000},
    "stream": lambda _: {"x-queue-type": "stream"},
    "kept": lambda chance: {
        "x-queue-type": "stream",
        "x-max-length-bytes": chance.choice((2_000, 10_000)),
        "x-stream-max-segment-size-bytes": 1_000,
    },
}
# Kinds whose messages leave them by themselves, and others that may have dead letters.
_ALWAYS_DEAD: Final = {"passing"}
_MAYBE_DEAD: Final = {"plain", "quorum", "ttl", "short", "priority", "single"}


def make_topology(chance: random.Random) -> Topology:
    made = Topology()
    made.methods.append(ExchangeDeclare(exchange=DEAD_EXCHANGE, type="direct", durable=True))
    kinds = ["plain", *chance.sample(sorted(KINDS), chance.randrange(2, 6))]
    for at, kind in enumerate(kinds):
        _add_queue(made, f"{kind}.{at}", kind, chance, chance.randrange(3))
    if chance.random() < 0.3:
        line = Line("fleeting", durable=False)
        made.lines.append(line)
        made.roots.append(line)
        made.fleeting.append(QueueDeclare(queue=line.name))
    if chance.random() < 0.4:
        line = Line("leased", is_leased=True)
        made.lines.append(line)
        made.roots.append(line)
        made.methods.append(QueueDeclare(queue=line.name, durable=True))
    for line in made.roots:
        made.addresses.append(Address("", line.name, (line,)))
    _add_exchanges(made, chance)
    made.addresses.append(Address("", "nowhere", ()))
    return made


def _add_queue(made: Topology, name: str, kind: str, chance: random.Random, depth: int) -> Line:
    arguments = dict(KINDS[kind](chance))
    dead = kind in _ALWAYS_DEAD or (kind in _MAYBE_DEAD and chance.random() < 0.5)
    if dead:
        arguments["x-dead-letter-exchange"] = DEAD_EXCHANGE
        arguments["x-dead-letter-routing-key"] = name
    line = Line(name, arguments)
    made.lines.append(line)
    made.methods.append(QueueDeclare(queue=name, durable=True, arguments=arguments))
    if not name.startswith("dead"):
        made.roots.append(line)
    if dead:
        for at in range(chance.choice((1, 1, 2))):
            target_kind = chance.choice(("plain", "ttl", "short")) if depth > 0 else "plain"
            target = _add_queue(made, f"dead{at}.{name}", target_kind, chance, depth - 1)
            target.source = line
            line.dead_letters.append(target)
            made.methods.append(QueueBind(queue=target.name, exchange=DEAD_EXCHANGE, routing_key=name))
    return line


def _add_exchanges(made: Topology, chance: random.Random) -> None:
    lines = [line for line in made.roots if line.durable]
    types = chance.sample(("fanout", "direct", "topic", "headers"), chance.randrange(1, 4))
    for type_ in types:
        made.methods.append(ExchangeDeclare(exchange=type_, type=type_, durable=True))
        bound = {line: chance.choice("ab") for line in chance.sample(lines, chance.randrange(1, len(lines) + 1))}
        for line, key in bound.items():
            made.methods.append(_binding(type_, line.name, key))
        keys = ("",) if type_ == "fanout" else ("a", "b")
        for key in keys:
            reached = tuple(line for line in lines if line in bound and (type_ == "fanout" or bound[line] == key))
            if type_ == "topic":
                made.addresses.append(Address(type_, f"{key}.x.{key}", reached))
            elif type_ == "headers":
                made.addresses.append(Address(type_, "", reached, key))
            else:
                made.addresses.append(Address(type_, key, reached))
    if "fanout" in types:
        # An exchange in front of another one.
        made.methods.append(ExchangeDeclare(exchange="front", type="direct", durable=True))
        made.methods.append(ExchangeBind(destination="fanout", source="front", routing_key="k"))
        (whole,) = (address for address in made.addresses if address.exchange == "fanout")
        made.addresses.append(Address("front", "k", whole.lines))


def _binding(type_: str, queue: str, key: str) -> QueueBind:
    if type_ == "headers":
        return QueueBind(queue=queue, exchange=type_, arguments={"x-match": "all", "kind": key})
    return QueueBind(queue=queue, exchange=type_, routing_key=f"{key}.*.#" if type_ == "topic" else key)
