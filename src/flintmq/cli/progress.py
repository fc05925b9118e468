"""Progress bars on standard error. Nothing is shown if standard error is not a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flintmq.base.plurals import counted

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


Progressed = Iterator[Callable[[int], None]]


@contextmanager
def progress_bar(what: str, total: Callable[[], int]) -> Progressed:
    """Show a progress bar for bytes; yields a function that adds to the bytes done.

    `total` is called at each step, because the total may change.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        *(BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn()),
    )
    with _bar(columns, what, total) as advance:
        yield advance


@contextmanager
def counting_bar(what: str, total: Callable[[], int]) -> Progressed:
    """Show a progress bar for a count; yields a function that adds to the count.

    `total` is called at each step, because the total may change.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(columns, what, total) as advance:
        yield advance


@contextmanager
def _bar(columns: "tuple[ProgressColumn, ...]", what: str, total: Callable[[], int]) -> Progressed:
    from rich.console import Console
    from rich.progress import Progress

    # The bar disappears at the end: the command prints the result.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count: bar.update(task, advance=count, total=total())


def size_in_words(count: int) -> str:
    """Format a size in bytes, such as `1.5 MiB`. The web interface uses the same units."""
    if count < 1024:
        return counted(count, "byte")
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1023.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
