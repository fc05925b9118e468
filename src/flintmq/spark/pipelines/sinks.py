"""Where a flow's rows go: by a streaming writer where there is one sink, batch by batch where there are several."""

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
from flintmq.spark.writing.options import write_options
from flintmq.spark.writing.rows import RowEncoder

LAKE_FORMAT: Final = "flintmq_lake"
# What a person reads of a batch, and of a value.
CONSOLE_ROWS: Final = 20
CONSOLE_WIDTH: Final = 40
# Of a checkpoint, the file that says which query has it.
_METADATA: Final = "metadata"


def write(writer: DataStreamWriter, pipeline: Pipeline, flow: Flow, checkpoint: str) -> StreamingQuery:
    """Starts the query."""
    options = [sink_options(pipeline, flow, number) for number in range(len(flow.sinks))]
    sinks = [ConfiguredSink(sink.kind, given) for sink, given in zip(flow.sinks, options, strict=True)]
    if len(sinks) > 1 or sinks[0].kind == CONSOLE:
        return writer.foreachBatch(BatchWriter(sinks, checkpoint)).start()
    return writer.format(sinks[0].format).options(**sinks[0].options).start()


def lakes_of(pipeline: Pipeline, flow: Flow) -> list[Path]:
    """The flow's sinks that keep count of what they get, in their manifests."""
    options = [sink_options(pipeline, flow, number) for number, sink in enumerate(flow.sinks) if sink.kind == LAKE]
    return [lake_write_options(given).place.root for given in options]


def check_columns(pipeline: Pipeline, flow: Flow, schema: StructType) -> None:
    """Raises ConfigurationError for columns that are nothing a message has."""
    for number, sink in enumerate(flow.sinks):
        if sink.kind == FLINTMQ:
            try:
                RowEncoder(schema, write_options(sink_options(pipeline, flow, number)))
            except ConfigurationError as error:
                raise ConfigurationError(f"{pipeline.where(flow.line)}the flow {flow.name}: {error}") from error


@dataclass(frozen=True)
class ConfiguredSink:
    """A sink with all that its writer must be told."""

    kind: str
    options: Options

    @property
    def format(self) -> str:
        return LAKE_FORMAT if self.kind == LAKE else self.kind


class BatchWriter:
    """Writes a batch to each sink in turn. With Spark Connect, it travels to the server."""

    def __init__(self, sinks: list[ConfiguredSink], checkpoint: str) -> None:
        self._sinks = sinks
        self._checkpoint = checkpoint
        self._query = ""
        # As PySpark asks of what it takes for a function.
        self.__name__ = "BatchWriter"

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if len(self._sinks) > 1:
            # Read and computed once, whatever the number of sinks.
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
    """The id of the query that has a checkpoint. Behind Spark Connect, nobody else tells whose a batch is."""
    said = spark.read.text(f"{checkpoint}/{_METADATA}").first()
    if said is None:
        raise FlintError(f"the checkpoint {checkpoint} does not say whose it is: begin with a new one")
    return str(json.loads(said.value)["id"])


def _show(frame: DataFrame, batch: int, options: Options) -> None:
    sys.stdout.write(f"batch {batch}\n")
    frame.show(int(options.get("rows", CONSOLE_ROWS)), truncate=int(options.get("width", CONSOLE_WIDTH)))
    sys.stdout.flush()
