"""A flow in Spark: a data frame from its source, and a query that writes it to its sinks."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.bodies import Body, Framing, Kind, OnMismatch, decode_bodies
from flintmq.spark.pipelines.batch_numbers import check_batch_numbers
from flintmq.spark.pipelines.definition import FLINTMQ, LAKE, SOURCE_VIEW, Flow, Pipeline
from flintmq.spark.pipelines.flow_options import source_options
from flintmq.spark.pipelines.sinks import LAKE_FORMAT, check_columns, write
from flintmq.spark.pipelines.spark_errors import cause, line_of_sql


def frame_of(pipeline: Pipeline, flow: Flow, spark: SparkSession) -> DataFrame:
    """The data frame for the flow's sinks; no query is started. Raises ConfigurationError if Spark refuses the flow."""
    # Each flow has its own session, so that its views are not visible to other flows.
    session = spark.newSession()
    with _located_errors(pipeline, flow, is_sql=False):
        source = _source(pipeline, flow, session)
        tables = {name: _table(pipeline, name, session) for name in pipeline.tables}
        # Spark Connect analyzes a data frame only when its schema is asked for.
        for frame in (source, *tables.values()):
            _ = frame.schema
        if flow.transform is not None:
            takes_tables = len(inspect.signature(flow.transform).parameters) > 1
            return flow.transform(source, tables) if takes_tables else flow.transform(source)
    if not flow.sql:
        return source
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    source.createOrReplaceTempView(SOURCE_VIEW)
    with _located_errors(pipeline, flow, is_sql=True):
        frame = session.sql(flow.sql)
        _ = frame.schema
    return frame


@contextmanager
def _located_errors(pipeline: Pipeline, flow: Flow, is_sql: bool) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{pipeline.where(flow.line)}the flow {flow.name}: {error}") from error
    except Exception as error:
        # Errors of a transform, and errors of the data source that came through Spark, also arrive here.
        line = line_of_sql(error, flow) if is_sql else flow.line
        raise ConfigurationError(f"{pipeline.where(line)}the flow {flow.name}: {cause(error)}") from error


def check(pipeline: Pipeline, flow: Flow, spark: SparkSession) -> None:
    """Raises ConfigurationError if Spark or one of the sinks refuses the flow."""
    frame = frame_of(pipeline, flow, spark)
    check_columns(pipeline, flow, frame.schema)


def start(pipeline: Pipeline, flow: Flow, frame: DataFrame) -> StreamingQuery:
    """Start the flow and return its query.

    Raises ConfigurationError if its checkpoint and its sink do not belong together, and errors of Spark.
    """
    checkpoint = f"{pipeline.checkpoints}/{flow.name}"
    check_batch_numbers(pipeline, flow, checkpoint)
    writer = (
        frame.writeStream.queryName(f"{pipeline.name}.{flow.name}")
        .outputMode(flow.output_mode)
        .option("checkpointLocation", checkpoint)
    )
    every = flow.trigger.every
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return write(writer, pipeline, flow, checkpoint)


def _source(pipeline: Pipeline, flow: Flow, session: SparkSession) -> DataFrame:
    source = flow.source
    reader = session.readStream
    if source.kind == FLINTMQ:
        frame = reader.format(FLINTMQ).options(**source_options(pipeline, flow)).load()
    elif source.kind == LAKE:
        frame = reader.format(LAKE_FORMAT).options(**source.options).load()
    else:
        options = {name: value for name, value in source.options.items() if name not in ("format", "path", "schema")}
        files = reader.format(source.options["format"]).schema(source.options["schema"]).options(**options)
        frame = files.load(source.options["path"])
    if source.decode is not None:
        decode = source.decode
        body = Body(
            Kind(decode.format),
            decode.schema,
            OnMismatch(decode.on_mismatch),
            framing=Framing(decode.framing),
            schema_id=decode.schema_id,
            writers=decode.writers,
        )
        frame = decode_bodies(frame, body)
    watermark = source.watermark
    if watermark is not None:
        if watermark.expression:
            frame = frame.withColumn(watermark.column, expr(watermark.expression))
        frame = frame.withWatermark(watermark.column, watermark.delay)
    return frame


def _table(pipeline: Pipeline, name: str, session: SparkSession) -> DataFrame:
    table = pipeline.tables[name]
    reader = session.read.options(**table.options)
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == LAKE:
        return reader.format(LAKE_FORMAT).option("path", table.path).load()
    return reader.format(table.format).load(table.path)
