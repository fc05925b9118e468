"""Numbers of batches, before a flow starts: Spark's own sinks of files leave out those they know, whoever had them.

A checkpoint numbers its batches from 0, and says in `offsets` which it has planned. A directory that Spark writes files
to says in `_spark_metadata` which batches it has, and not of which query. A batch is planned before it is written: so a
directory that is ahead of the checkpoint has batches of another one.
"""

from typing import Final

from pyspark import SparkContext

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.definition import PARQUET, Flow, Pipeline

_PLANNED: Final = "offsets"
_WRITTEN: Final = "_spark_metadata"


def check_batch_numbers(pipeline: Pipeline, flow: Flow, checkpoint: str) -> None:
    """Raises ConfigurationError where a sink would leave out what the flow is about to read."""
    for sink in flow.sinks:
        if sink.kind != PARQUET:
            continue
        path = next(value for name, value in sink.options.items() if name.lower() == "path")
        written = _highest(f"{path}/{_WRITTEN}")
        planned = _highest(f"{checkpoint}/{_PLANNED}") if written >= 0 else -1
        if written > planned:
            raise ConfigurationError(
                f"{pipeline.where(flow.line)}the flow {flow.name} would lose messages: the directory {path} has "
                f"batches up to number {written} of a query with another checkpoint, and Spark does not write a batch "
                f"whose number is there; the checkpoint {checkpoint} {_described(planned)}. Give the sink a new path, "
                "or bring back the checkpoint that belongs to the directory, or use the sink lake, which knows whose "
                "batches it has"
            )


def _described(planned: int) -> str:
    return f"has come to number {planned}" if planned >= 0 else "is new and begins with number 0"


def _highest(directory: str) -> int:
    """Of the files there whose names are numbers; -1 for none, and where nobody can tell: with Spark Connect."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - Spark's readers pass over what begins with `_`
    jvm = SparkContext._jvm  # noqa: SLF001
    if context is None or jvm is None:
        return -1
    path = jvm.org.apache.hadoop.fs.Path(directory)
    files = path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(path):
        return -1
    # Old ones are put together in files such as `9.compact`.
    names = [str(status.getPath().getName()).partition(".")[0] for status in files.listStatus(path)]
    return max((int(name) for name in names if name.isdecimal()), default=-1)
