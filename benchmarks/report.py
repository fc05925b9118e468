"""What was measured, as one table and as JSON."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.loads import Figure


@dataclass
class Row:
    """One figure: the samples of each broker, and what its confirms promise where that matters."""

    figure: Figure
    samples: dict[str, list[float]] = field(default_factory=dict)
    promises: dict[str, str] = field(default_factory=dict)

    def add(self, broker: str, value: float, promise: str) -> None:
        self.samples.setdefault(broker, []).append(value)
        if promise:
            self.promises[broker] = promise

    def median(self, broker: str) -> float | None:
        values = self.samples.get(broker)
        return statistics.median(values) if values else None

    def ratio(self, ours: str, theirs: str) -> float | None:
        """How many times better ours is: above 1 we win, whichever way the figure counts."""
        return self._better(self.median(ours), self.median(theirs))

    def to_091(self, broker: str, rows: Mapping[str, "Row"]) -> float | None:
        """How many times better a broker's figure is than its own of the same load in AMQP 0-9-1."""
        other = rows.get(self.figure.beside)
        return None if other is None else self._better(self.median(broker), other.median(broker))

    def _better(self, ours: float | None, theirs: float | None) -> float | None:
        if not ours or not theirs:
            return None
        return theirs / ours if self.figure.less_is_better else ours / theirs


def table(rows: Sequence[Row], brokers: Sequence[str]) -> str:
    """Medians with their range, a column per broker, the ratio of the first to the second, and the promises.

    Where AMQP 1.0 was measured, another column compares the first broker's figure to its own in AMQP 0-9-1.
    """
    by_name = {row.figure.name: row for row in rows}
    compares = any(row.figure.beside for row in rows)
    head = ["load", *(f"{broker} (min to max)" for broker in brokers)]
    if compares:
        head.append("times its 0-9-1")
    if len(brokers) == 2:
        head.append(f"times better than {brokers[1]}")
    lines = [[*head, "a confirm means"]]
    for row in rows:
        line = [f"{row.figure.name}, {row.figure.unit}", *(_cell(row, broker) for broker in brokers)]
        if compares:
            line.append(_ratio(row.to_091(brokers[0], by_name)))
        if len(brokers) == 2:
            line.append(_ratio(row.ratio(brokers[0], brokers[1])))
        lines.append([*line, "; ".join(f"{broker}: {promise}" for broker, promise in row.promises.items())])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(_aligned(line, widths) for line in lines)


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


def _cell(row: Row, broker: str) -> str:
    median = row.median(broker)
    if median is None:
        return ""
    if len(row.samples[broker]) == 1:
        return _number(median)
    return f"{_number(median)} ({_number(min(row.samples[broker]))} to {_number(max(row.samples[broker]))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
