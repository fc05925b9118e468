"""A bar for work that takes a while, on the standard error stream of a terminal; elsewhere nothing is shown."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flintmq.base.counting import counted

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


Progressed = Iterator[Callable[[int], None]]


@contextmanager
def progress_bar(what: str, total: Callable[[], int]) -> Progressed:
    """Gives a function to be told of bytes that were dealt with; `total` is asked each time."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        *(BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn()),
    )
    with _bar(columns, what, total) as told:
        yield told


@contextmanager
def counting_bar(what: str, total: Callable[[], int]) -> Progressed:
    """The same for things that are counted."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(columns, what, total) as told:
        yield told


@contextmanager
def _bar(columns: "tuple[ProgressColumn, ...]", what: str, total: Callable[[], int]) -> Progressed:
    from rich.console import Console
    from rich.progress import Progress

    # It goes when the work is done: what came of it is said in words.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.update(task, advance=count, total=total())


def size_in_words(count: int) -> str:
    """Such as `1.5 MiB`; the web interface has the same units."""
    if count < 1024:
        return counted(count, "byte")
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1023.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
