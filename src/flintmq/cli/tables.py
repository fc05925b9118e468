"""Tables for people: what an answer of the API has, in columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flintmq.cli.progress import size_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# As good as none: what is not read on a terminal is read by a program, or searched.
_UNLIMITED: Final = 10_000
# A name as long as this is read in one line; for what is behind, no figure has to go.
_NAME_WIDTH: Final = 24
# Figures have room for so much in any case: or a column would come and go with every digit.
_FIGURE_WIDTHS: Final = {"rate": len("10,000/s"), "count": len("100,000"), "bytes": len("1023.9 MiB")}
# What stands between two columns, and at both edges together with it.
_GAP: Final = 3
_EDGES: Final = 4


@dataclass(frozen=True)
class Column:
    """`path` leads to the value, such as "message_stats.publish_details.rate"; `kind` says how it is shown.

    Where there is no room for all columns, the one with the highest `rank` goes first; those of rank 0 stay.
    """

    heading: str
    path: str
    kind: str = "text"
    rank: int = 0

    def text(self, item: Mapping[str, Any]) -> str:
        value: Any = item
        for part in self.path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return in_words(value, self.kind)


def in_words(value: object, kind: str = "text") -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={in_words(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(in_words, value))
    if isinstance(value, (int, float)):
        if kind == "bytes":
            return size_in_words(int(value))
        if kind == "milliseconds":
            return time_in_words(int(value) // 1000)
        if kind == "rate":
            return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"
        if kind == "count":
            return f"{value:,}"
    return str(value)


def time_in_words(seconds: int) -> str:
    """Such as `2 d 3 h`: what is smaller than the second part does not matter any more."""
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def table_of(items: Iterable[Mapping[str, Any]], columns: Iterable[Column], width: int = _UNLIMITED) -> "Table":
    """`width` is what there is room for."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = list(columns)
    rows = [[printable(column.text(item)) for column in shown] for item in items]
    # What nothing has leaves its room to the rest.
    kept = [at for at in range(len(shown)) if not rows or any(row[at] for row in rows)]
    widths = [_width(column, [row[at] for row in rows]) for at, column in enumerate(shown)]
    while sum(widths[at] + _GAP for at in kept) - _GAP + _EDGES > width:
        goes = max(kept, key=lambda at: shown[at].rank)
        if not shown[goes].rank:
            break
        kept.remove(goes)
    table = Table(box=box.SIMPLE_HEAD)
    for at in kept:
        is_number = shown[at].kind != "text"
        # Nothing is cut off: whoever asks for names needs all of them.
        table.add_column(
            shown[at].heading, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in rows:
        # As text: a name may look like markup.
        table.add_row(*(Text(row[at]) for at in kept))
    return table


def _width(column: Column, texts: list[str]) -> int:
    from rich.cells import cell_len

    widest = max(map(cell_len, (column.heading, *texts)))
    return min(widest, _NAME_WIDTH) if column.kind == "text" else max(widest, _FIGURE_WIDTHS.get(column.kind, 0))


def print_table(items: Iterable[Mapping[str, Any]], columns: Iterable[Column]) -> None:
    console_for_tables().print(table_of(items, columns))


def console_for_tables() -> "Console":
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_UNLIMITED)


def printable(text: str) -> str:
    """Clients choose names: none may look like two lines, or drive a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
