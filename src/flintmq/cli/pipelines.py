"""Data pipelines on Apache Spark."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.base.plurals import counted
from flintmq.cli.commands import command
from flintmq.cli.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from flintmq.spark.pipelines.runner import Stop
    from flintmq.spark.pipelines.status import PipelineStatus


File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Definition of the pipeline: pipeline.yaml, pipeline.py, or pipeline.py:name."),
]
Log = Annotated[Path | None, typer.Option(metavar="FILE", help="File for Spark's log. Default: no log.")]
_NO_LOG: Final = Path(os.devnull)
# `pipeline status` of a pipeline that failed or is silent.
_EXIT_NOT_WELL: Final = 1
_MASTER: Final = "local[1]"
# A check ends before the JVM's optimizing compiler and parallel garbage collector would be worth their cost.
_SHORT_LIVED: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def _spark_packages() -> Iterator[None]:
    """Raise ConfigurationError, which says what to install, if a package that Spark needs is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyspark", "pyarrow", "pandas", "ruamel", "py4j"):
            raise ConfigurationError(
                f"pipelines need {error.name}, which is not installed: pip install 'flintmq[spark]'"
            ) from error
        raise


@command("pipeline validate")
def validate(
    file: File,
    definition_only: Annotated[
        bool, typer.Option("--definition-only", help="Do not start Spark: SQL and transforms are not checked.")
    ] = False,
    log: Log = None,
) -> None:
    """Check the definition of a pipeline, and its SQL with Spark. Nothing runs, and no broker is needed."""
    with _spark_packages():
        from flintmq.spark.pipelines.pipeline_file import load

        pipeline = load(file)
        if not definition_only:
            from flintmq.cli.pipeline_display import Display
            from flintmq.spark.pipelines.flow import check
            from flintmq.spark.pipelines.session import session

            with ExitStack() as stack:
                display = stack.enter_context(Display())
                display.say(f"Starting Spark ({_MASTER}) ...")
                settings = {**_SHORT_LIVED, **pipeline.spark}
                spark = stack.enter_context(session(pipeline.name, _MASTER, settings, log or _NO_LOG))
                display.say(f"Checking {counted(len(pipeline.flows), 'flow')} ...")
                for flow in pipeline.flows:
                    check(pipeline, flow, spark)
    for flow in pipeline.flows:
        sinks = ", ".join(sink.kind for sink in flow.sinks)
        typer.echo(f"{pipeline.name}.{flow.name}: {flow.source.kind} -> {sinks}, {flow.trigger.in_words}")


@command("pipeline run")
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
        bool,
        typer.Option("--available-now", help="Process what is available now, then stop. Overrides the definition."),
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL", help="Interval of micro-batches, such as '10 seconds'. Overrides the definition."
        ),
    ] = None,
    flows: Annotated[
        list[str] | None, typer.Option("--flow", metavar="NAME", help="Run only this flow. May be repeated.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark. May be repeated.")
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory of checkpoints. Overrides the definition.")
    ] = None,
    log: Log = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON at the end.")] = False,
) -> None:
    """Run a pipeline. Ctrl-C or SIGTERM stops it after the current batch; a second one stops it at once."""
    if available_now and every is not None:
        raise ConfigurationError("--available-now and --every exclude each other")
    with _spark_packages():
        from dataclasses import replace

        from flintmq.cli.pipeline_display import Display
        from flintmq.spark.pipelines.definition import AVAILABLE_NOW, Trigger
        from flintmq.spark.pipelines.pipeline_file import load
        from flintmq.spark.pipelines.runner import Stop
        from flintmq.spark.pipelines.runner import run as run_pipeline
        from flintmq.spark.pipelines.session import check_master, session
        from flintmq.spark.pipelines.status_queue import StatusPublisher, status_endpoint

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
        stack.enter_context(_stopped_by_signals(stop))
        display = stack.enter_context(Display(quiet))
        watchers: list[Callable[[PipelineStatus], None]] = [display.show]
        endpoint = status_endpoint(pipeline)
        publisher: StatusPublisher | None = None
        if endpoint is not None:
            publisher = stack.enter_context(StatusPublisher(endpoint))
            watchers.append(publisher.tell)
        display.say(f"Starting Spark ({master}) ...")
        spark = stack.enter_context(session(pipeline.name, master, given, log or _NO_LOG))
        # PySpark replaces the handler of SIGINT, so it is set again.
        stack.enter_context(_stopped_by_signals(stop))
        display.say(f"Starting {counted(len(pipeline.flows), 'flow')} ...")

        def watch(status: "PipelineStatus") -> None:
            for tell in watchers:
                tell(status)

        status = run_pipeline(pipeline, spark, stop, watch, master)
        if publisher is not None and publisher.failure:
            typer.echo(f"the state of the pipeline could not be sent to the broker: {publisher.failure}", err=True)
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
def _stopped_by_signals(stop: "Stop") -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.ask()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@command("pipeline status")
def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show the state of a pipeline. Exit status 1 if it failed, or has not reported its state for a while."""
    from flintmq.cli.pipeline_display import table_of
    from flintmq.spark.pipelines.status import State
    from flintmq.spark.pipelines.status_queue import browse

    pipelines = {one.pipeline: one for one in browse(url, time.time_ns() // 1_000_000)}
    found = pipelines.get(name)
    if found is None:
        known = f". Pipelines that have: {', '.join(pipelines)}" if pipelines else ""
        raise FlintError(f"no pipeline {name} has reported its state to this broker{known}")
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
        raise typer.Exit(_EXIT_NOT_WELL)


@command("pipeline list")
def list_pipelines(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the pipelines that run with this broker, and those that have run."""
    import msgspec

    from flintmq.cli.pipeline_display import coloured, in_words
    from flintmq.spark.pipelines.status_queue import browse

    found = browse(url, time.time_ns() // 1_000_000)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found:
        typer.echo("flintmq: no pipeline has reported its state to this broker", err=True)
        return

    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading in ("pipeline", "state", "flows"):
        table.add_column(heading)
    for heading in ("read", "read/s", "waiting", "last report"):
        table.add_column(heading, justify="right")
    now = time.time_ns() // 1_000_000
    for one in found:
        last_report = f"{max(now - one.updated_ms, 0) // 1000} s ago"
        flows = ", ".join(flow.name for flow in one.flows)
        table.add_row(
            one.pipeline,
            coloured(one.state),
            flows,
            f"{one.rows:,}",
            f"{one.rate:,.0f}",
            in_words(one.lag),
            last_report,
        )
    Console().print(table)
