"""`flintmq pipeline list`: every pipeline that told this broker how it is doing."""

import time
from typing import Annotated

import msgspec
import typer

from flintmq.cli.publish import DEFAULT_URL, Url

Json = Annotated[bool, typer.Option("--json", help="As JSON, on the standard output.")]


def list_pipelines(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the pipelines that run with this broker, or have run."""
    from flintmq.cli.pipeline_display import coloured, in_words
    from flintmq.spark.pipelines.board import browse

    found = browse(url, time.time_ns() // 1_000_000)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found:
        typer.echo("flintmq: no pipeline has told this broker of itself", err=True)
        return

    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading in ("pipeline", "state", "flows"):
        table.add_column(heading)
    for heading in ("read", "read/s", "waiting", "heard of"):
        table.add_column(heading, justify="right")
    now = time.time_ns() // 1_000_000
    for one in found:
        heard = f"{max(now - one.updated_ms, 0) // 1000} s ago"
        flows = ", ".join(flow.name for flow in one.flows)
        table.add_row(
            one.pipeline, coloured(one.state), flows, f"{one.rows:,}", f"{one.rate:,.0f}", in_words(one.lag), heard
        )
    Console().print(table)
