"""The progress of a pipeline in the terminal: a table with a row per flow, refreshed in place."""

import sys
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flintmq.base.plurals import counted
from flintmq.spark.pipelines.status import PipelineStatus, State

_COLOURS = {
    State.RUNNING: "green",
    State.FINISHED: "green",
    State.FAILED: "bold red",
    State.SILENT: "yellow",
    State.STOPPING: "yellow",
}


class Display:
    """Shows progress on standard error: as a table if that is a terminal, otherwise as a line per long step."""

    def __init__(self, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._live: Live | None = None
        if not is_quiet and sys.stderr.isatty():
            console = Console(stderr=True)
            self._live = Live(
                console=console, refresh_per_second=4, redirect_stdout=sys.stdout.isatty(), transient=True
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Show what is done next."""
        if self._live is not None:
            self._live.update(Text(text, style="dim"), refresh=True)
        elif not self._is_quiet:
            typer.echo(text, err=True)

    def show(self, status: PipelineStatus) -> None:
        if self._live is not None and status.flows:
            self._live.update(table_of(status))

    def summary(self, status: PipelineStatus) -> str:
        """Describe the result in a line per flow."""
        lines = [
            f"{status.pipeline}.{flow.name}: {flow.state}, {counted(flow.rows, 'row')} read in "
            + counted(flow.batches, "batch", "batches")
            + (f", {counted(flow.written, 'row')} written" if flow.written is not None else "")
            + (f", {counted(flow.files, 'file')}" if flow.files is not None else "")
            for flow in status.flows
        ]
        return "\n".join(lines)


def table_of(status: PipelineStatus) -> Table:
    table = Table(title=f"{status.pipeline} on {status.master}", title_justify="left")
    table.add_column("flow", no_wrap=True)
    table.add_column("state")
    for heading in ("read", "read/s", "waiting", "batches", "batch time", "written", "files"):
        table.add_column(heading, justify="right")
    for flow in status.flows:
        table.add_row(
            flow.name,
            coloured(flow.state),
            f"{flow.rows:,}",
            f"{flow.rate:,.0f}",
            in_words(flow.lag),
            f"{flow.batches:,}",
            f"{flow.batch_ms / 1000:.1f} s" if flow.batches else "",
            in_words(flow.written),
            in_words(flow.files),
        )
        # A flow with one lake has the same numbers as its lake.
        for lake in flow.lakes if len(flow.lakes) > 1 else ():
            table.add_row(f"  {lake.path}", *[""] * 6, in_words(lake.rows), in_words(lake.files))
    return table


def coloured(state: State) -> str:
    return f"[{_COLOURS[state]}]{state}[/]" if state in _COLOURS else str(state)


def in_words(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
