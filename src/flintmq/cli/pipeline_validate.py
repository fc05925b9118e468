"""`flintmq pipeline validate`: what is wrong with a definition, before anything runs."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.base.counting import counted
from flintmq.base.errors import ConfigurationError

File = Annotated[
    str, typer.Argument(metavar="FILE", help="The definition: pipeline.yaml, pipeline.py, or pipeline.py:name.")
]
Log = Annotated[Path | None, typer.Option(metavar="FILE", help="Spark's own log; else it is not kept.")]
NO_LOG: Final = Path(os.devnull)
_MASTER: Final = "local[1]"
# Nothing runs: what compiles code that runs for long, and collects its garbage beside it, costs more than it gains.
_SHORT_LIVED: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def spark_packages() -> Iterator[None]:
    """A package that is not installed is no traceback. Raises ConfigurationError."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyspark", "pyarrow", "pandas", "ruamel", "py4j"):
            raise ConfigurationError(
                f"pipelines need {error.name}, which is not installed: pip install 'flintmq[spark]'"
            ) from error
        raise


def validate(
    file: File,
    definition_only: Annotated[
        bool, typer.Option("--definition-only", help="Do not start Spark: SQL and transforms are not looked at.")
    ] = False,
    log: Log = None,
) -> None:
    """Check a pipeline's definition, and its SQL with Spark's own eyes. No broker is asked, and nothing runs."""
    with spark_packages():
        from flintmq.spark.pipelines.loading import load

        pipeline = load(file)
        if not definition_only:
            from flintmq.cli.pipeline_display import Display
            from flintmq.spark.pipelines.flow import check
            from flintmq.spark.pipelines.session import session

            with ExitStack() as stack:
                display = stack.enter_context(Display())
                display.say(f"Starting Spark ({_MASTER}) ...")
                settings = {**_SHORT_LIVED, **pipeline.spark}
                spark = stack.enter_context(session(pipeline.name, _MASTER, settings, log or NO_LOG))
                display.say(f"Checking {counted(len(pipeline.flows), 'flow')} ...")
                for flow in pipeline.flows:
                    check(pipeline, flow, spark)
    for flow in pipeline.flows:
        sinks = ", ".join(sink.kind for sink in flow.sinks)
        typer.echo(f"{pipeline.name}.{flow.name}: {flow.source.kind} -> {sinks}, {flow.trigger.in_words}")
