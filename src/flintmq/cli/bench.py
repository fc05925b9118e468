"""`flintmq bench`: what a Python program gets out of a broker, on a queue that comes and goes with it."""

import json
import os
from typing import Annotated

import typer

from flintmq.base.counting import counted
from flintmq.cli.amqp import with_password
from flintmq.cli.commands import command
from flintmq.cli.options import DEFAULT_URL, Json, PasswordFile, Url
from flintmq.cli.progress import counting_bar


@command("bench")
def bench(
    size: Annotated[int, typer.Option(min=8, metavar="BYTES", help="How large bodies are.")] = 16,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="S", help="How long to publish.")] = 5,
    publishers: Annotated[int, typer.Option(min=1, metavar="N", help="Processes that publish.")] = 1,
    consumers: Annotated[int, typer.Option(min=0, metavar="N", help="Processes that consume.")] = 1,
    transient: Annotated[
        bool, typer.Option("--transient", help="Nothing is stored, and nothing acknowledged.")
    ] = False,
    rate: Annotated[int, typer.Option(min=0, metavar="N", help="Messages a second; 0: as many as go.")] = 0,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Publish and consume on a queue of its own, and say how fast: persistent and confirmed, unless told otherwise.

    The queue is deleted at the end. With a --rate well below what goes, the latency is that of a broker at ease.
    """
    from flintmq.cli.load import Load, run

    queue = f"flintmq.bench.{os.getpid()}"
    load = Load(with_password(url, password_file), queue, size, seconds, publishers, consumers, not transient, rate)
    # Tenths of seconds are what the bar counts.
    with counting_bar("Publishing", lambda: int(seconds * 10)) as progress:
        figures = run(load, lambda: progress(1))
    if as_json:
        typer.echo(json.dumps(figures.__dict__))
        return
    published = counted(figures.published, "message")
    typer.echo(f"published  {published} of {size} bytes, {figures.publish_rate:,.0f} a second")
    if consumers:
        typer.echo(f"consumed   {counted(figures.consumed, 'message')}, {figures.consume_rate:,.0f} a second")
        typer.echo(f"latency    {figures.latency_p50_ms:.2f} ms (median), {figures.latency_p99_ms:.2f} ms (99 %)")
