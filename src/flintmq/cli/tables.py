"""Tables for the terminal, made of JSON objects of the HTTP API."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from flintmq.cli.progress import size_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Wide enough for all columns: output that does not go to a terminal is read by a program or searched.
_UNLIMITED: Final = 10_000
# Names up to this length stay on one line. Longer names may wrap, so that no column of numbers is left out for them.
_NAME_WIDTH: Final = 24
# Minimum widths of columns of numbers. Without them, a column would appear and disappear as its numbers grow.
_FIGURE_WIDTHS: Final = {"rate": len("10,000/s"), "count": len("100,000"), "bytes": len("1023.9 MiB")}
# Characters between two columns, and at both edges of a table.
_GAP: Final = 3
_EDGES: Final = 4


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the path of its value in an object, and the kind of its values.

    `path` is a key, or keys joined by dots such as "message_stats.publish_details.rate". `kind` is "text", "count",
    "bytes", "rate" (per second) or "milliseconds". If the terminal is too narrow, the column with the highest `rank` is
    left out first; of equal ranks, the last one. Columns of rank 0 are always shown.
    """

    heading: str
    path: str
    kind: str = "text"
    rank: int = 1

    def text(self, item: Mapping[str, Any]) -> str:
        value: Any = item
        for part in self.path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return in_words(value, self.kind)


def in_words(value: object, kind: str = "text") -> str:
    """Format a JSON value for a reader. `kind` is that of a `Column`."""
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
    """Format a duration with its two largest units, such as `2 d 3 h`."""
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def table_of(items: Iterable[Mapping[str, Any]], columns: Iterable[Column], width: int = _UNLIMITED) -> "Table":
    """Make a table of the columns that fit into `width` characters. Columns without any value are left out."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    items = list(items)
    shown, _ = _fitted(items, list(columns), width)
    table = Table(box=box.SIMPLE_HEAD)
    for column in shown:
        is_number = column.kind != "text"
        # A long name wraps instead of being cut, because the reader may need all of it.
        table.add_column(column.heading, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for item in items:
        # Text objects, because a name may contain rich's markup.
        table.add_row(*(Text(printable(column.text(item))) for column in shown))
    return table


def _fitted(items: list[Mapping[str, Any]], columns: list[Column], width: int) -> tuple[list[Column], list[Column]]:
    """Split the columns with values into those that fit into `width` characters, and the rest."""
    widths = {column: _width(column, [printable(column.text(item)) for item in items]) for column in columns}
    kept = [column for column in columns if not items or any(column.text(item) for item in items)]
    left_out: list[Column] = []
    while sum(widths[column] + _GAP for column in kept) - _GAP + _EDGES > width:
        goes = max(reversed(kept), key=lambda column: column.rank)
        if not goes.rank:
            break
        kept.remove(goes)
        left_out.append(goes)
    return kept, [column for column in columns if column in left_out]


def _width(column: Column, texts: list[str]) -> int:
    from rich.cells import cell_len

    widest = max(map(cell_len, (column.heading, *texts)))
    return min(widest, _NAME_WIDTH) if column.kind == "text" else max(widest, _FIGURE_WIDTHS.get(column.kind, 0))


def print_table(items: Iterable[Mapping[str, Any]], columns: Iterable[Column]) -> None:
    """Print a table on standard output, and on standard error the columns that do not fit."""
    items, columns, console = list(items), list(columns), console_for_tables()
    console.print(table_of(items, columns, console.width))
    _, left_out = _fitted(items, columns, console.width)
    if left_out:
        names = ", ".join(column.heading for column in left_out)
        typer.echo(f"Columns that do not fit: {names}. Make the terminal wider, or use --json.", err=True)


def console_for_tables() -> "Console":
    """A console on standard output that is wide enough for all columns unless it is a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_UNLIMITED)


def printable(text: str) -> str:
    """Escape control characters: clients choose names, and a name must not control the terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
