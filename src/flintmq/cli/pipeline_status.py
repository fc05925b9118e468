"""`flintmq pipeline status`: what one pipeline said last, flow by flow."""

import time
from typing import Annotated

import typer

from flintmq.base.errors import FlintError
from flintmq.cli.pipeline_list import Json
from flintmq.cli.publish import DEFAULT_URL, Url

# As of a command that looked for something and did not find it well.
EXIT_NOT_WELL = 1


def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show how a pipeline is doing. The exit status is 1 where it failed, or has not been heard of for long."""
    from flintmq.cli.pipeline_display import table_of
    from flintmq.spark.pipelines.board import browse
    from flintmq.spark.pipelines.status import State

    pipelines = {one.pipeline: one for one in browse(url, time.time_ns() // 1_000_000)}
    found = pipelines.get(name)
    if found is None:
        known = f": known are {', '.join(pipelines)}" if pipelines else ""
        raise FlintError(f"no pipeline {name} has told this broker of itself{known}")
    if as_json:
        typer.echo(found.as_json())
    else:
        from rich.console import Console

        console = Console()
        console.print(table_of(found))
        console.print(f"{found.state} on {found.host}, process {found.pid}", highlight=False)
        if found.error:
            console.print(found.error, style="red", markup=False, highlight=False)
    if found.state in (State.FAILED, State.SILENT):
        raise typer.Exit(EXIT_NOT_WELL)
