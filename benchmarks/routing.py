"""What a large topology costs publishers: the rate at which FlintMQ routes without it and with it, in one run.

The topology is 10,000 queues, 10,000 bindings on a topic exchange, 100,000 on a direct one, and 1,000 connections, none
of which the messages measured go to: they go to one queue in both cases, so that the difference is what finding it
costs. They are encoded beforehand and written as fast as the broker reads; the clock stops when it has routed the last.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.brokers import BrokerError, FlintMQ
from benchmarks.loads import Figure
from benchmarks.report import Row, table
from flintmq.wire.amqp091.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.sockets import AmqpSocket, publish_frames

_DATA: Final = Path(__file__).resolve().parent.parent / ".bench-data"
_QUEUES: Final = 10_000
_TOPIC_BINDINGS: Final = 10_000
_DIRECT_BINDINGS: Final = 100_000
_CONNECTIONS: Final = 1_000
# Keys that are used again and again, fewer than the broker remembers; and how many a round of new ones has.
_KEYS: Final = 10_000
_BODY: Final = b"x" * 16
# Messages of a round, after which the queue is purged.
_ROUND_MESSAGES: Final = 100_000
_TOPIC: Final = "bench.topic"
_DIRECT: Final = "bench.direct"
_QUEUE: Final = "bench"
_RUNS: Final = 3
_TARGET: Final = 0.5

# Name, exchange, the keys of a round: by its number, where they are new in each.
_Load = tuple[str, str, bool, int]
_LOADS: Final[tuple[_Load, ...]] = (
    ("default exchange, one key", "", False, 1),
    ("direct, one key", _DIRECT, False, 1),
    (f"direct, {_KEYS:,} keys", _DIRECT, False, _KEYS),
    ("topic, one key", _TOPIC, False, 1),
    (f"topic, {_KEYS:,} keys", _TOPIC, False, _KEYS),
    ("topic, each key new", _TOPIC, True, _ROUND_MESSAGES),
)


def _key(exchange: str, number: int) -> str:
    return _QUEUE if exchange == "" else f"orders.{number % 97}.{number}.created"


# Patterns that come close to the keys measured, and match none of them.
def _pattern(number: int) -> str:
    forms = (
        "orders.{a}.{n}.deleted",
        "orders.*.{n}.deleted",
        "orders.{a}.#.{n}.deleted",
        "*.{a}.{n}.returned",
        "#.x{n}",
    )
    return forms[number % len(forms)].format(a=number % 97, n=number)


def _declare_what_is_measured(socket: AmqpSocket) -> None:
    for exchange, kind in ((_TOPIC, "topic"), (_DIRECT, "direct")):
        socket.call(1, ExchangeDeclare(exchange=exchange, type=kind), ExchangeDeclareOk)
    socket.call(1, QueueDeclare(queue=_QUEUE), QueueDeclareOk)
    binds = [QueueBind(queue=_QUEUE, exchange=_TOPIC, routing_key="orders.*.*.created", no_wait=True)]
    binds += [
        QueueBind(queue=_QUEUE, exchange=_DIRECT, routing_key=_key(_DIRECT, number), no_wait=True)
        for number in range(_KEYS)
    ]
    socket.send_method(1, *binds)
    _settle(socket)


def _declare_topology(socket: AmqpSocket) -> None:
    for start in range(0, _QUEUES, 1000):
        socket.send_method(
            1, *(QueueDeclare(queue=f"other-{number}", no_wait=True) for number in range(start, start + 1000))
        )
        _settle(socket)
    for exchange, count in ((_TOPIC, _TOPIC_BINDINGS), (_DIRECT, _DIRECT_BINDINGS)):
        for start in range(0, count, 1000):
            socket.send_method(1, *(_other_binding(exchange, number) for number in range(start, start + 1000)))
            _settle(socket)


def _other_binding(exchange: str, number: int) -> QueueBind:
    key = _pattern(number) if exchange == _TOPIC else f"orders.{number % 97}.{number}.deleted"
    return QueueBind(queue=f"other-{number % _QUEUES}", exchange=exchange, routing_key=key, no_wait=True)


def _settle(socket: AmqpSocket) -> QueueDeclareOk:
    """Wait until the broker has done all it was sent."""
    return socket.call(1, QueueDeclare(queue=_QUEUE, passive=True), QueueDeclareOk)


def _rate(socket: AmqpSocket, load: _Load, first_key: int, seconds: float) -> float:
    """Messages a second; the first round is not counted unless its keys are to be new."""
    _, exchange, new_keys, keys = load
    spent = 0.0
    count = 0
    numbers = range(keys)
    while spent < seconds:
        if new_keys:
            numbers = range(first_key, first_key + keys)
            first_key += keys
        frames = [publish_frames(1, exchange, _key(exchange, number), _BODY) for number in numbers]
        encoded = b"".join(frames) * (_ROUND_MESSAGES // keys)
        if not new_keys and count == 0 and spent == 0.0:
            socket.send(encoded)
            _purge(socket)
        started = time.perf_counter()
        socket.send(encoded)
        _settle(socket)
        spent += time.perf_counter() - started
        count += _ROUND_MESSAGES
        _purge(socket)
    return count / spent


def _purge(socket: AmqpSocket) -> None:
    came = socket.call(1, QueuePurge(queue=_QUEUE), QueuePurgeOk).message_count
    if came != _ROUND_MESSAGES:
        raise BrokerError(f"{came} of {_ROUND_MESSAGES} messages came to their queue")


@contextlib.contextmanager
def _crowd(port: int) -> Iterator[None]:
    """Connections with a channel each that are there, and do nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(_CONNECTIONS):
            stack.enter_context(AmqpSocket(port)).open().open_channel(1)
        yield


def _measure(rows: Sequence[Row], socket: AmqpSocket, name: str, seconds: float) -> None:
    for _ in range(_RUNS):
        first_key = 100_000_000 * (1 + sum(len(samples) for samples in rows[-1].samples.values()))
        for row, load in zip(rows, _LOADS, strict=True):
            print(f"{name}: {load[0]}", file=sys.stderr)
            row.add(name, _rate(socket, load, first_key, seconds), "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="routing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="how long each of three runs measures each figure (1)")
    parser.add_argument("--port", type=int, help="measure the broker that runs there, instead of starting one")
    options = parser.parse_args()
    rows = [Row(Figure(name, "msg/s", ())) for name, *_ in _LOADS]
    with contextlib.ExitStack() as stack:
        port = options.port or stack.enter_context(FlintMQ().running(_DATA)).port
        socket = stack.enter_context(AmqpSocket(port))
        socket.open().open_channel(1)
        _declare_what_is_measured(socket)
        _measure(rows, socket, "without", options.seconds)
        started = time.perf_counter()
        _declare_topology(socket)
        print(f"the topology was declared in {time.perf_counter() - started:.1f} s", file=sys.stderr)
        with _crowd(port):
            _measure(rows, socket, "with", options.seconds)
    topology = (
        f"{_QUEUES:,} queues, {_TOPIC_BINDINGS:,} bindings on a topic exchange, {_DIRECT_BINDINGS:,} on a direct one"
    )
    print(f"\nPublish rate with {topology} and {_CONNECTIONS:,} connections, and without them:\n")
    print(table(rows, ["with", "without"]))
    slow = [row.figure.name for row in rows if (row.ratio("with", "without") or 0) < _TARGET]
    if slow:
        print(f"bench: less than {_TARGET:.0%} of the rate without: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
