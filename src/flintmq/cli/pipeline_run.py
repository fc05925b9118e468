"""`flintmq pipeline run`: all flows of a pipeline, until they are done or it is told to stop."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.base.counting import counted
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.pipeline_validate import NO_LOG, File, Log, spark_packages

if TYPE_CHECKING:
    from flintmq.spark.pipelines.running import Stop
    from flintmq.spark.pipelines.status import PipelineStatus


def run(
    file: File,
    master: Annotated[
        str,
        typer.Option(
            metavar="MASTER",
            help="Where Spark runs: local[N], local-cluster[N,cores,MB], spark://host:7077, or sc://host:15002.",
            envvar="FLINTMQ_SPARK_MASTER",
        ),
    ] = "local[2]",
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, and end, whatever the definition says.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="A micro-batch every so often, such as '10 seconds'.")
    ] = None,
    flows: Annotated[list[str] | None, typer.Option("--flow", metavar="NAME", help="Only this flow.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where checkpoints are, in the place of the definition's.")
    ] = None,
    log: Log = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="At the end, say what came of it as JSON.")] = False,
) -> None:
    """Run a pipeline. Ctrl-C, or SIGTERM, ends it behind the batch that runs; a second one ends it at once."""
    if available_now and every is not None:
        raise ConfigurationError("--available-now and --every exclude each other")
    with spark_packages():
        from dataclasses import replace

        from flintmq.cli.pipeline_display import Display
        from flintmq.spark.pipelines.board import Board, broker_of
        from flintmq.spark.pipelines.definition import AVAILABLE_NOW, Trigger
        from flintmq.spark.pipelines.loading import load
        from flintmq.spark.pipelines.running import Stop
        from flintmq.spark.pipelines.running import run as run_pipeline
        from flintmq.spark.pipelines.session import check_master, session

    check_master(master)
    pipeline = load(file)
    if flows:
        pipeline = pipeline.only(flows)
    if checkpoints is not None:
        pipeline = replace(pipeline, checkpoints=_place(checkpoints))
    if available_now or every is not None:
        pipeline = pipeline.with_trigger(AVAILABLE_NOW if every is None else Trigger(every))
    given = {**pipeline.spark, **_settings(settings or [])}
    stop = Stop()
    with ExitStack() as stack:
        stack.enter_context(_told_to_stop(stop))
        display = stack.enter_context(Display(quiet))
        watchers: list[Callable[[PipelineStatus], None]] = [display.show]
        endpoint = broker_of(pipeline)
        board: Board | None = None
        if endpoint is not None:
            board = stack.enter_context(Board(endpoint))
            watchers.append(board.tell)
        display.say(f"Starting Spark ({master}) ...")
        spark = stack.enter_context(session(pipeline.name, master, given, log or NO_LOG))
        # PySpark has its own idea of what an interrupt means.
        stack.enter_context(_told_to_stop(stop))
        display.say(f"Starting {counted(len(pipeline.flows), 'flow')} ...")

        def watch(status: "PipelineStatus") -> None:
            for tell in watchers:
                tell(status)

        status = run_pipeline(pipeline, spark, stop, watch, master)
        if board is not None and board.failure:
            typer.echo(f"the broker does not know how the pipeline did: {board.failure}", err=True)
    if as_json:
        typer.echo(status.as_json())
    else:
        typer.echo(display.summary(status), err=True)
    if status.error:
        raise FlintError(status.error)


def _settings(given: list[str]) -> dict[str, str]:
    for setting in given:
        if "=" not in setting:
            raise ConfigurationError(f"--conf {setting}: write it as KEY=VALUE")
    return dict(setting.split("=", 1) for setting in given)


def _place(text: str) -> str:
    return text if "://" in text else str(Path(text).expanduser().resolve())


@contextmanager
def _told_to_stop(stop: "Stop") -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.ask()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
