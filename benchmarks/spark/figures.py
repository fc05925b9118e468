"""What is measured, each beside what bounds it and what it replaces, and the table of it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass
class Figure:
    """A way of reading or writing, by its rates in rows a second.

    `ceiling` names the figure of what Spark does with a source or sink that does nothing; `today` names pika's.
    """

    name: str
    ceiling: str = ""
    today: str = ""
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


_HEAD: Final = ("", "rows/s (min to max)", "MB/s", "of Spark's own", "times pika")


def table(figures: Sequence[Figure], body_bytes: int) -> str:
    """Ratios are those of one run; a figure nothing bounds is a bound itself."""
    by_name = {figure.name: figure for figure in figures}
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---:|---:|---:|---:|"]
    for figure in figures:
        rate = f"{figure.median:,.0f} ({min(figure.samples):,.0f} to {max(figure.samples):,.0f})"
        megabytes = f"{figure.median * body_bytes / 1e6:,.0f}"
        share = f"{figure.median / by_name[figure.ceiling].median:.0%}" if figure.ceiling in by_name else ""
        times = f"{figure.median / by_name[figure.today].median:.1f}" if figure.today in by_name else ""
        lines.append(f"| {figure.name} | {rate} | {megabytes} | {share} | {times} |")
    return "\n".join(lines)
