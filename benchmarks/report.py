"""What was measured, as one table and as JSON."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.loads import Figure

_MET: Final[Mapping[bool | None, str]] = {None: "", True: "yes", False: "no"}


@dataclass
class Row:
    """One figure: the samples of each broker, and what its confirms promise where that matters.

    `failures` has the words of each run that failed. A broker with one has no median: it did not do what is asked.
    """

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict)
    promises: dict[str, str] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def add(self, broker: str, value: float, promise: str) -> None:
        self.samples.setdefault(broker, []).append(value)
        if promise:
            self.promises[broker] = promise

    def fail(self, broker: str, words: str) -> None:
        self.failures.setdefault(broker, []).append(words)

    def median(self, broker: str) -> float | None:
        values = self.samples.get(broker)
        return statistics.median(values) if values and broker not in self.failures else None

    def ratio(self, ours: str, theirs: str) -> float | None:
        """How many times better ours is: above 1 we win, whichever way the figure counts."""
        return self._better(self.median(ours), self.median(theirs))

    def to_091(self, broker: str, rows: Mapping[str, "Row"]) -> float | None:
        """How many times better a broker's figure is than its own of the same load in AMQP 0-9-1."""
        other = rows.get(self.figure.beside)
        return None if other is None else self._better(self.median(broker), other.median(broker))

    @property
    def asks(self) -> bool:
        return self.figure.asked is not None or self.figure.asks_rivals

    def met(self, brokers: Sequence[str]) -> bool | None:
        """Whether the first broker does what is asked; None if nothing is, or if there is none to compare it with."""
        if not self.asks or not self._measured(brokers[0]):
            return None
        ours = self.median(brokers[0])
        if ours is None:
            return False
        bound = self.figure.asked
        if bound is None:
            bound = self.median(brokers[1]) if len(brokers) == 2 else None
        if bound is None:
            return None
        return ours <= bound if self.figure.less_is_better else ours >= bound

    def _measured(self, broker: str) -> bool:
        return broker in self.samples or broker in self.failures

    def _better(self, ours: float | None, theirs: float | None) -> float | None:
        if not ours or not theirs:
            return None
        return theirs / ours if self.figure.less_is_better else ours / theirs


def table(rows: Sequence[Row], brokers: Sequence[str]) -> str:
    """Medians with their range, a column per broker, the ratio of the first to the second, and the promises.

    Where AMQP 1.0 was measured, another column compares the first broker's figure to its own in AMQP 0-9-1. Where
    something is asked of a figure, two columns say what, and whether the first broker does it.
    """
    by_name = {row.figure.name: row for row in rows}
    compares = any(row.figure.beside for row in rows)
    asks = any(row.asks for row in rows)
    head = ["load", *(f"{broker} (min to max)" for broker in brokers)]
    if compares:
        head.append("times its 0-9-1")
    if len(brokers) == 2:
        head.append(f"times better than {brokers[1]}")
    if asks:
        head += ["asked", "met"]
    lines = [[*head, "a confirm means"]]
    for row in rows:
        line = [f"{row.figure.name}, {row.figure.unit}", *(_cell(row, broker) for broker in brokers)]
        if compares:
            line.append(_ratio(row.to_091(brokers[0], by_name)))
        if len(brokers) == 2:
            line.append(_ratio(row.ratio(brokers[0], brokers[1])))
        if asks:
            line += [_asked(row.figure, brokers), _MET[row.met(brokers)]]
        lines.append([*line, "; ".join(f"{broker}: {promise}" for broker, promise in row.promises.items())])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(_aligned(line, widths) for line in lines)


def failures(rows: Sequence[Row]) -> str:
    """The words of all failed runs, a paragraph each; a load whose figures failed together says them once."""
    figures: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for broker, said in row.failures.items():
            for words in said:
                figures.setdefault((broker, words), []).append(row.figure.name)
    return "\n\n".join(
        f"{broker} failed {', '.join(dict.fromkeys(names))}: {words}" for (broker, words), names in figures.items()
    )


def as_json(rows: Sequence[Row], brokers: Sequence[str]) -> list[dict[str, Any]]:
    """The same with every sample, for machines to compare."""
    by_name = {row.figure.name: row for row in rows}
    return [
        {
            "figure": row.figure.name,
            "unit": row.figure.unit,
            "less_is_better": row.figure.less_is_better,
            "ratio": row.ratio(brokers[0], brokers[1]) if len(brokers) == 2 else None,
            "to_091": {broker: row.to_091(broker, by_name) for broker in brokers} if row.figure.beside else None,
            "medians": {broker: row.median(broker) for broker in brokers},
            "samples": row.samples,
            "confirm": row.promises,
            "asked": row.figure.asked,
            "asks_rivals": row.figure.asks_rivals,
            "met": row.met(brokers),
            "failures": row.failures,
        }
        for row in rows
    ]


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, the words before and behind them to the left."""
    last = len(line) - 1
    cells = enumerate(zip(line, widths, strict=True))
    return "  ".join(cell.rjust(width) if 0 < i < last else cell.ljust(width) for i, (cell, width) in cells).rstrip()


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _asked(figure: Figure, brokers: Sequence[str]) -> str:
    rivals = f"{brokers[1]}'s" if figure.asks_rivals and len(brokers) == 2 else ""
    asked = rivals if figure.asked is None else f"{figure.asked:,.12g}"
    return f"{asked} at {'most' if figure.less_is_better else 'least'}" if asked else ""


def _cell(row: Row, broker: str) -> str:
    if broker in row.failures:
        return "failed"
    median = row.median(broker)
    if median is None:
        return ""
    if len(row.samples[broker]) == 1:
        return _number(median)
    return f"{_number(median)} ({_number(min(row.samples[broker]))} to {_number(max(row.samples[broker]))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
