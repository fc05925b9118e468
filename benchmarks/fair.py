"""Measures FlintMQ with many clients at once, beside RabbitMQ where it is installed, and compares with what is asked.

Loads are those that a broker may serve well in sum and badly for one client: a polite client beside a flood, consumers
that have to keep up with publishers, many clients with one message in flight, fan-out, and memory and processor time
at rest and at a start. Fails if the first broker does not do what is asked. Absolute figures belong to the machine.
"""

import sys
from typing import Final

from benchmarks import contest
from benchmarks.brokers import BrokerError
from benchmarks.loads import Figure, Load, Step

_MILLION: Final = 1_000_000
# Bodies of all loads that do not say another size.
_BODY: Final = ("--size", "64")
_POLITE: Final = ("--rate", "1000", "--size", "1024")
_POLITE_DURABLE: Final = (*_POLITE, "--persistent", "--confirm", "100", "--ack", "1")
# A client per queue and side, each with one message on its way.
_PAIRS: Final = ("--producers", "100", "--consumers", "100", "--queues", "100", "--confirm", "1", *_BODY)
_THOUSANDS: Final = ("--producers", "1000", "--consumers", "1000", "--queues", "1000")
# When a broker has had the time to give back what a flood, or taking in a million messages, took.
_REST_SECONDS: Final = 10.0


def _latency(name: str, p50: float, p99: float) -> tuple[Figure, ...]:
    """In milliseconds, at most so long."""
    return tuple(
        Figure(f"{name}: {part}", "ms", ("lat_us", part), less_is_better=True, scale=1e-3, asked=asked)
        for part, asked in (("p50", p50), ("p99", p99))
    )


def _rate(name: str, path: str, asked: float | None = None) -> Figure:
    return Figure(name, "msg/s", (path,), asked=asked)


def _polite(name: str, publishers: str, arguments: tuple[str, ...], p50: float, p99: float) -> Load:
    figures = (
        *_latency(name, p50, p99),
        Figure(f"{name}: flood consumed", "msg/s", ("beside", "consume_rate")),
    )
    step = Step(arguments, figures, beside=("--producers", publishers, *_BODY))
    kind = "durable and confirmed" if "--persistent" in arguments else "transient"
    what = f"1,000 msg/s of 1 KiB, {kind}, beside {publishers} flooding through another queue"
    return Load(name, what, (step,), confirms="--confirm" in arguments)


def _flood(
    name: str, what: str, clients: tuple[str, ...], asked: float, share: float | None, memory: bool = False
) -> Load:
    """How much of what is published at full speed is consumed meanwhile, and what memory stays taken."""
    consumed = Figure(f"{name}: share consumed", "%", ("consume_rate",), over=("publish_rate",), scale=100, asked=share)
    left = Figure(f"{name}: memory kept 10 s later", "MB", ("added_mb",), less_is_better=True)
    figures = (
        _rate(f"{name}: consumed", "consume_rate", asked),
        _rate(f"{name}: published", "publish_rate"),
        consumed,
        *((left,) if memory else ()),
    )
    if memory:
        clients = (*clients, "--delete")
    step = Step((*clients, *_BODY), figures, rest_seconds=_REST_SECONDS if memory else 0)
    return Load(name, what, (step,), fresh=memory)


def _pairs(name: str, arguments: tuple[str, ...], microseconds: float) -> Load:
    # Percent of a processor and messages a second make microseconds of it for each message.
    cost = Figure(
        f"{name}: broker's CPU",
        "µs/msg",
        ("broker_cpu",),
        less_is_better=True,
        over=("consume_rate",),
        scale=1e4,
        asked=microseconds,
    )
    step = Step((*_PAIRS, *arguments), (_rate(name, "consume_rate"), cost))
    what = "100 + 100 clients on 100 queues, one message in flight each"
    return Load(name, f"{what}{', durable' if arguments else ''}", (step,), confirms="--persistent" in arguments)


def _fanout(queues: int) -> Load:
    name = f"fanout-{queues}"
    each = ("--queues", str(queues), "--consumers", str(queues))
    deliveries = Figure(f"{name}: deliveries", "msg/s", ("consume_rate",), asks_rivals=True)
    step = Step(("--exchange", "amq.fanout", "--fanout", *each, *_BODY), (deliveries,))
    return Load(name, f"one publisher to {queues:,} queues", (step,))


def _large(name: str, size: int) -> Load:
    megabytes = Figure(name, "MB/s", ("consume_rate",), scale=size / 1e6, asks_rivals=True)
    return Load(name, f"transient bodies of {size // 1024:,} KiB", (Step(("--size", str(size)), (megabytes,)),))


def _tls(name: str, size: str) -> Load:
    step = Step(("--size", size), (_rate(name, "consume_rate"),))
    return Load(name, f"publisher to auto-ack consumer over TLS, {size} B", (step,), tls=True, fresh=True)


def _publish(figures: tuple[Figure, ...], *arguments: str) -> Step:
    count = ("--count", str(_MILLION), "--consumers", "0", "--size", "16")
    return Step((*count, *arguments), figures, timed=False, rest_seconds=_REST_SECONDS if figures else 0)


_MEMORY: Final = Load(
    "memory",
    "a start, and one million transient messages of 16 B queued",
    (_publish((Figure("memory of 1 M of 16 B", "MB", ("added_mb",), less_is_better=True, asked=17),)),),
    fresh=True,
    start=(
        Figure("boot", "s", ("boot_seconds",), less_is_better=True),
        Figure("boot: CPU", "s", ("boot_cpu_seconds",), less_is_better=True, asked=0.25),
        Figure("idle memory", "MB", ("idle_mb",), less_is_better=True, asked=50),
    ),
)
_RESTART: Final = Load(
    "restart",
    "a start with one million persistent messages of 16 B",
    (_publish((), "--persistent", "--confirm", "1000"),),
    fresh=True,
    restart=(
        Figure("restart with 1 M", "s", ("boot_seconds",), less_is_better=True),
        Figure("restart with 1 M: CPU", "s", ("boot_cpu_seconds",), less_is_better=True, asked=0.5),
    ),
)
_ALONE: Final = Load(
    "waiting-10",
    "10 publishers with one durable message in flight each",
    (
        Step(
            ("--producers", "10", "--persistent", "--confirm", "1", *_BODY),
            (_rate("waiting-10", "confirm_rate", 30_000),),
        ),
    ),
    confirms=True,
)
_CROWD: Final = Load(
    "crowd",
    "1,000 + 1,000 clients on 1,000 queues, 20,000 msg/s in all",
    (Step((*_THOUSANDS, "--rate", "20000", "--prefetch", "10", "--ack", "1", *_BODY), _latency("crowd", 1, 10)),),
)
_LOADS: Final = (
    _polite("polite-20", "20", _POLITE, 2, 10),
    _polite("polite-20d", "20", _POLITE_DURABLE, 5, 25),
    _polite("polite-1", "1", _POLITE, 0.5, 3),
    _polite("polite-1d", "1", _POLITE_DURABLE, 1, 5),
    _flood("acked", "one publisher, one consumer, every 10th acked", ("--prefetch", "100", "--ack", "10"), 5e5, None),
    _flood("in-10", "10 publishers, one auto-ack consumer", ("--producers", "10"), 1.5e6, 60),
    _flood("in-50", "50 publishers, one auto-ack consumer", ("--producers", "50"), 1e6, 60, memory=True),
    _flood(
        "out-50",
        "one publisher, 50 consumers, every 10th acked",
        ("--consumers", "50", "--prefetch", "100", "--ack", "10"),
        1.2e6,
        90,
    ),
    _pairs("pairs", (), 8),
    _pairs("pairs-d", ("--persistent", "--prefetch", "1", "--ack", "1"), 12),
    _ALONE,
    _CROWD,
    _fanout(10),
    _fanout(1000),
    _large("64k", 64 * 1024),
    _large("1m", 1024 * 1024),
    _tls("a16-tls", "16"),
    _tls("a1k-tls", "1024"),
    _MEMORY,
    _RESTART,
)
LOADS: Final = {load.name: load for load in _LOADS}


def main() -> int:
    options = contest.parser("fair", __doc__, LOADS, "rows").parse_args()
    with contest.contestants(options.brokers) as contestants:
        rows = contest.measure(contestants, options.loads, options.runs, options.seconds)
    contest.publish(rows, contestants, options)
    names = [broker.name for broker, _ in contestants]
    return 1 if any(row.met(names) is False or names[0] in row.failures for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
