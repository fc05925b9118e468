"""Write a flow to its sinks: with a streaming writer if there is one sink, with foreachBatch if there are several."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.lake.options import lake_write_options
from flintmq.spark.pipelines.definition import CONSOLE, FLINTMQ, LAKE, Flow, Options, Pipeline
from flintmq.spark.pipelines.flow_options import batch_options, sink_options
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.rows import RowEncoder

LAKE_FORMAT: Final = "flintmq_lake"
# Defaults of the sink console: rows of a batch, and characters of a value.
CONSOLE_ROWS: Final = 20
CONSOLE_WIDTH: Final = 40
# The file of a checkpoint with the id of its query.
_METADATA: Final = "metadata"


def write(writer: DataStreamWriter, pipeline: Pipeline, flow: Flow, checkpoint: str) -> StreamingQuery:
    """Start the query that writes to all sinks of a flow. Raises errors of Spark."""
    options = [sink_options(pipeline, flow, number) for number in range(len(flow.sinks))]
    sinks = [ConfiguredSink(sink.kind, given) for sink, given in zip(flow.sinks, options, strict=True)]
    if len(sinks) > 1 or sinks[0].kind == CONSOLE:
        return writer.foreachBatch(BatchWriter(sinks, checkpoint)).start()
    return writer.format(sinks[0].format).options(**sinks[0].options).start()


def lakes_of(pipeline: Pipeline, flow: Flow) -> list[Path]:
    """The directories of the lakes among the flow's sinks, whose manifests count rows."""
    options = [sink_options(pipeline, flow, number) for number, sink in enumerate(flow.sinks) if sink.kind == LAKE]
    return [lake_write_options(given).place.root for given in options]


def check_columns(pipeline: Pipeline, flow: Flow, schema: StructType) -> None:
    """Raises ConfigurationError if the sink flintmq cannot publish rows with these columns."""
    for number, sink in enumerate(flow.sinks):
        if sink.kind == FLINTMQ:
            try:
                RowEncoder(schema, write_options(sink_options(pipeline, flow, number)))
            except ConfigurationError as error:
                raise ConfigurationError(f"{pipeline.where(flow.line)}the flow {flow.name}: {error}") from error


@dataclass(frozen=True)
class ConfiguredSink:
    """A sink with all options of its writer."""

    kind: str
    options: Options

    @property
    def format(self) -> str:
        """The name of its format in Spark."""
        return LAKE_FORMAT if self.kind == LAKE else self.kind


class BatchWriter:
    """The function for foreachBatch: writes a batch to each sink in turn. Spark Connect pickles it to the server."""

    def __init__(self, sinks: list[ConfiguredSink], checkpoint: str) -> None:
        self._sinks = sinks
        self._checkpoint = checkpoint
        self._query = ""
        # PySpark needs this attribute of a function.
        self.__name__ = "BatchWriter"

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if len(self._sinks) > 1:
            # Spark reads and computes the batch once for all sinks.
            frame.persist()
            self._query = self._query or query_id(self._checkpoint, frame.sparkSession)
        try:
            for sink in self._sinks:
                if sink.kind == CONSOLE:
                    _show(frame, batch, sink.options)
                else:
                    options = batch_options(sink.kind, sink.options, self._query, batch)
                    frame.write.format(sink.format).options(**options).mode("append").save()
        finally:
            if len(self._sinks) > 1:
                frame.unpersist()


def query_id(checkpoint: str, spark: SparkSession) -> str:
    """The id of the query in a checkpoint: with Spark Connect, a batch does not have it. Raises FlintError."""
    row = spark.read.text(f"{checkpoint}/{_METADATA}").first()
    if row is None:
        raise FlintError(f"the checkpoint {checkpoint} does not have the id of its query: begin with a new one")
    return str(json.loads(row.value)["id"])


def _show(frame: DataFrame, batch: int, options: Options) -> None:
    sys.stdout.write(f"batch {batch}\n")
    frame.show(int(options.get("rows", CONSOLE_ROWS)), truncate=int(options.get("width", CONSOLE_WIDTH)))
    sys.stdout.flush()
