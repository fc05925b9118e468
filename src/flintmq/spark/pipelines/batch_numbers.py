"""A check of batch numbers before a flow starts: Spark's file sinks skip known numbers, even those of another query.

A checkpoint numbers its batches from 0 on, and lists those it has planned in `offsets`. A directory to which Spark
writes files lists its batches in `_spark_metadata`, without the query. Spark plans a batch before it writes it. A
directory that is ahead of the checkpoint therefore has batches of another checkpoint.
"""

from typing import Final

from pyspark import SparkContext

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.definition import PARQUET, Flow, Pipeline

_PLANNED: Final = "offsets"
_WRITTEN: Final = "_spark_metadata"


def check_batch_numbers(pipeline: Pipeline, flow: Flow, checkpoint: str) -> None:
    """Raises ConfigurationError if a sink would skip the flow's next batches; `checkpoint` is the flow's directory."""
    for sink in flow.sinks:
        if sink.kind != PARQUET:
            continue
        path = next(value for name, value in sink.options.items() if name.lower() == "path")
        written = _highest(f"{path}/{_WRITTEN}")
        planned = _highest(f"{checkpoint}/{_PLANNED}") if written >= 0 else -1
        if written > planned:
            raise ConfigurationError(
                f"{pipeline.where(flow.line)}the flow {flow.name} would lose messages: the directory {path} has "
                f"batches up to number {written} of a query with another checkpoint, and Spark skips a batch whose "
                f"number is there; the checkpoint {checkpoint} {_described(planned)}. Give the sink a new path, "
                "or restore the checkpoint that belongs to the directory, or use the sink lake, which tells the "
                "batches of queries apart"
            )


def _described(planned: int) -> str:
    return f"has reached number {planned}" if planned >= 0 else "is new and begins with number 0"


def _highest(directory: str) -> int:
    """The highest number that is the name of a file there; -1 if there is none, or with Spark Connect."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - Spark's readers skip names with `_`
    jvm = SparkContext._jvm  # noqa: SLF001
    if context is None or jvm is None:
        return -1
    path = jvm.org.apache.hadoop.fs.Path(directory)
    files = path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    if not files.exists(path):
        return -1
    # Spark compacts old batches to files such as `9.compact`.
    names = [str(status.getPath().getName()).partition(".")[0] for status in files.listStatus(path)]
    return max((int(name) for name in names if name.isdecimal()), default=-1)
