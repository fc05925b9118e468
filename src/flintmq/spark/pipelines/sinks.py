"""Where a flow's rows go: by a streaming writer where there is one sink, batch by batch where there are several."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.lake.options import lake_write_options
from flintmq.spark.pipelines.broker_options import batch_options, is_numbered, sink_options
from flintmq.spark.pipelines.definition import CONSOLE, FLINTMQ, LAKE, Flow, Options, Pipeline
from flintmq.spark.writing.options import write_options
from flintmq.spark.writing.rows import RowEncoder

LAKE_FORMAT: Final = "flintmq_lake"
# Of a batch, by the query's id and its number.
FilesOf = Callable[[str, int], int]
# What a person reads of a batch, and of a value.
CONSOLE_ROWS: Final = 20
CONSOLE_WIDTH: Final = 40


def write(writer: DataStreamWriter, pipeline: Pipeline, flow: Flow) -> StreamingQuery:
    """Starts the query."""
    kinds = [sink.kind for sink in flow.sinks]
    if len(kinds) > 1 or kinds[0] == CONSOLE:
        outlets = [Outlet(kind, batch_options(pipeline, flow, number)) for number, kind in enumerate(kinds)]
        return writer.foreachBatch(EachBatch(outlets)).start()
    outlet = Outlet(kinds[0], sink_options(pipeline, flow, 0))
    return writer.format(outlet.format).options(**outlet.options).start()


def files_of(pipeline: Pipeline, flow: Flow) -> FilesOf | None:
    """How many files a batch of the flow's query wrote, where its sink keeps count."""
    if len(flow.sinks) != 1 or flow.sinks[0].kind != LAKE:
        return None
    manifest = Manifest(lake_write_options(sink_options(pipeline, flow, 0)).place.root)

    def count(query: str, batch: int) -> int:
        decided = manifest.batch(query, batch)
        return 0 if decided is None else len(decided.files)

    return count


def check_columns(pipeline: Pipeline, flow: Flow, schema: StructType) -> None:
    """Raises ConfigurationError for columns that are nothing a message has."""
    for number, sink in enumerate(flow.sinks):
        if sink.kind == FLINTMQ:
            try:
                RowEncoder(schema, write_options(sink_options(pipeline, flow, number)))
            except ConfigurationError as error:
                raise ConfigurationError(f"{pipeline.where(flow.line)}the flow {flow.name}: {error}") from error


@dataclass(frozen=True)
class Outlet:
    """A sink with all that its writer must be told."""

    kind: str
    options: Options

    @property
    def format(self) -> str:
        return LAKE_FORMAT if self.kind == LAKE else self.kind

    @property
    def is_numbered(self) -> bool:
        """Whether a batch that comes again is known by its number."""
        return is_numbered(self.options)


class EachBatch:
    """Writes a batch to each sink in turn. With Spark Connect, it travels to the server."""

    def __init__(self, outlets: list[Outlet]) -> None:
        self._outlets = outlets
        # As PySpark asks of what it takes for a function.
        self.__name__ = "EachBatch"

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if len(self._outlets) > 1:
            # Read and computed once, whatever the number of sinks.
            frame.persist()
        try:
            for outlet in self._outlets:
                if outlet.kind == CONSOLE:
                    _show(frame, batch, outlet.options)
                else:
                    options = {**outlet.options, "batchId": str(batch)} if outlet.is_numbered else outlet.options
                    frame.write.format(outlet.format).options(**options).mode("append").save()
        finally:
            if len(self._outlets) > 1:
                frame.unpersist()


def _show(frame: DataFrame, batch: int, options: Options) -> None:
    sys.stdout.write(f"batch {batch}\n")
    frame.show(int(options.get("rows", CONSOLE_ROWS)), truncate=int(options.get("width", CONSOLE_WIDTH)))
    sys.stdout.flush()
