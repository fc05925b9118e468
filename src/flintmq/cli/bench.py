"""`flintmq bench` measures the throughput and latency of Python clients on a temporary queue."""

import json
import os
from typing import Annotated

import typer

from flintmq.base.plurals import counted
from flintmq.cli.amqp import with_password
from flintmq.cli.commands import command
from flintmq.cli.options import DEFAULT_URL, Json, PasswordFile, Url
from flintmq.cli.progress import counting_bar


@command("bench")
def bench(
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="Size of bodies.")] = 16,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="S", help="Duration of publishing.")] = 5,
    publishers: Annotated[int, typer.Option(min=1, metavar="N", help="Number of publishing processes.")] = 1,
    consumers: Annotated[int, typer.Option(min=0, metavar="N", help="Number of consuming processes.")] = 1,
    transient: Annotated[
        bool, typer.Option("--transient", help="Use transient messages and no acknowledgements.")
    ] = False,
    rate: Annotated[
        int, typer.Option(min=0, metavar="N", help="Messages per second; 0 means as many as possible.")
    ] = 0,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Measure throughput and latency with persistent, confirmed messages on a temporary queue.

    Use --rate below the maximum to measure latency without saturation.
    """
    from flintmq.cli.load import Load, run

    queue = f"flintmq.bench.{os.getpid()}"
    load = Load(with_password(url, password_file), queue, size, seconds, publishers, consumers, not transient, rate)
    # The bar counts tenths of a second.
    with counting_bar("Publishing", lambda: int(seconds * 10)) as progress:
        figures = run(load, lambda: progress(1))
    if as_json:
        typer.echo(json.dumps(figures.__dict__))
        return
    published = counted(figures.published, "message")
    typer.echo(f"published  {published} of {size} bytes, {figures.publish_rate:,.0f} per second")
    if consumers:
        typer.echo(f"consumed   {counted(figures.consumed, 'message')}, {figures.consume_rate:,.0f} per second")
        typer.echo(f"latency    {figures.latency_p50_ms:.2f} ms (median), {figures.latency_p99_ms:.2f} ms (99 %)")
