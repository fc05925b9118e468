"""The loads, as data: what the generator is told, and which of its figures count."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Publisher confirms with 1,000 outstanding; a consumer that holds 1,000 and acknowledges every 100th.
DURABLE: Final = ("--persistent", "--confirm", "1000", "--prefetch", "1000", "--ack", "100")
# A receiver of settled transfers has no window to keep; AMQP 1.0 wants a number.
_CREDIT: Final = "10000"
_PUBLISH_ONLY: Final = ("--consumers", "0")


@dataclass(frozen=True)
class Figure:
    """One row of the table: a number out of the generator's report, by its path there.

    It is divided by the number at `over`, if there is one, and multiplied by `scale`. `beside` names the figure of the
    same load in AMQP 0-9-1, for those of AMQP 1.0. Where something is asked of it, `asked` is the bound, in the
    figure's unit; a figure that `asks_rivals` has to be as good as the second broker's.
    """

    name: str
    unit: str
    path: tuple[str, ...]
    less_is_better: bool = False
    beside: str = ""
    over: tuple[str, ...] = ()
    scale: float = 1.0
    asked: float | None = None
    asks_rivals: bool = False

    def of(self, report: Mapping[str, Any]) -> float:
        """The figure; 0 if what it is divided by is 0."""
        value = _at(self.path, report) * self.scale
        if not self.over:
            return value
        divisor = _at(self.over, report)
        return value / divisor if divisor else 0.0


def _at(path: tuple[str, ...], report: Mapping[str, Any]) -> float:
    value: Any = report
    for key in path:
        value = value[key]
    return float(value)


@dataclass(frozen=True)
class Step:
    """One run of the generator. A `timed` one lasts as long as was asked for; a drain until the queue is empty.

    `beside` is what a second generator is told, which loads another queue meanwhile: its report is the part `beside` of
    the first one's. After a step with `rest_seconds`, the broker has so much time to give back memory; the part
    `added_mb` of every report is its resident memory then, minus that before the step.
    """

    arguments: tuple[str, ...]
    figures: tuple[Figure, ...]
    timed: bool = True
    beside: tuple[str, ...] = ()
    rest_seconds: float = 0.0


@dataclass(frozen=True)
class Load:
    """`confirms` marks loads whose figures mean little without what a confirm promises.

    `amqp10` marks those that speak AMQP 1.0: the generator is told, too, how the broker calls a queue there. `tls`
    marks those that speak TLS.

    A `fresh` load has a broker of its own, started for each run; all that have `start`, `restart` or `tls` need one.
    `start` are figures of this start: `boot_seconds`, `boot_cpu_seconds`, `idle_mb`. `restart` are the same of a start
    after the steps, with what they left in the queue.
    """

    name: str
    what: str
    steps: tuple[Step, ...]
    confirms: bool = False
    quorum: bool = False
    amqp10: bool = False
    tls: bool = False
    fresh: bool = False
    start: tuple[Figure, ...] = ()
    restart: tuple[Figure, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Of its start, its steps and its restart, in the order they are measured."""
        return (*self.start, *(figure for step in self.steps for figure in step.figures), *self.restart)


def _through(name: str, *arguments: str) -> tuple[Step, ...]:
    return (Step(arguments, (Figure(name, "msg/s", ("consume_rate",)),)),)


def _durably(name: str, size: str) -> tuple[Step, ...]:
    p99 = Figure(f"{name} p99", "µs", ("lat_us", "p99"), less_is_better=True)
    return (Step((*DURABLE, "--size", size), (Figure(name, "msg/s", ("consume_rate",)), p99)),)


def _through_10(name: str, size: str) -> Load:
    rate = Figure(f"{name}-10", "msg/s", ("consume_rate",), beside=name)
    step = Step(("--amqp10", "--prefetch", _CREDIT, "--size", size), (rate,))
    return Load(f"{name}-10", f"{name} in AMQP 1.0: settled transfers both ways", (step,), amqp10=True)


def _durably_10(name: str, size: str) -> Load:
    rate = Figure(f"{name}-10", "msg/s", ("consume_rate",), beside=name)
    p99 = Figure(f"{name}-10 p99", "µs", ("lat_us", "p99"), less_is_better=True, beside=f"{name} p99")
    step = Step(("--amqp10", *DURABLE, "--size", size), (rate, p99))
    what = f"{name} in AMQP 1.0: unsettled transfers both ways"
    return Load(f"{name}-10", what, (step,), confirms=True, amqp10=True)


def _publish_then_drain(name: str, size: str) -> tuple[Step, ...]:
    return (
        Step((*_PUBLISH_ONLY, "--size", size), (Figure(f"{name} publish", "msg/s", ("publish_rate",)),)),
        Step(("--drain", "--size", size), (Figure(f"{name} drain", "msg/s", ("consume_rate",)),), timed=False),
    )


def _latency(name: str, rate: str, size: str) -> tuple[Step, ...]:
    p50 = Figure(f"{name} p50", "µs", ("lat_us", "p50"), less_is_better=True)
    p99 = Figure(f"{name} p99", "µs", ("lat_us", "p99"), less_is_better=True)
    return (Step(("--rate", rate, "--size", size), (p50, p99)),)


_LOADS: Final = (
    Load("a16", "publisher to auto-ack consumer, transient, 16 B", _through("a16", "--size", "16")),
    Load("a1k", "the same, 1 KiB", _through("a1k", "--size", "1024")),
    _through_10("a16", "16"),
    _through_10("a1k", "1024"),
    Load("b16", "persistent, confirms, acks, 16 B", _durably("b16", "16"), confirms=True),
    Load("b1k", "the same, 1 KiB", _durably("b1k", "1024"), confirms=True),
    _durably_10("b16", "16"),
    _durably_10("b1k", "1024"),
    Load(
        "b16q",
        "b16 against a quorum queue of RabbitMQ's",
        _durably("b16q", "16"),
        confirms=True,
        quorum=True,
    ),
    Load("c16", "publish only, 16 B; then drain", _publish_then_drain("c16", "16")),
    Load("c1k", "publish only, 1 KiB; then drain", _publish_then_drain("c1k", "1024")),
    Load("d1k", "latency at 5,000 msg/s, 1 KiB", _latency("d1k", "5000", "1024")),
)
LOADS: Final = {load.name: load for load in _LOADS}
