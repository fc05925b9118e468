"""The data source behind format("flintmq"): Spark calls it to read queues and to publish to an exchange."""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark import catalog
from flintmq.spark.columns import check_read_schema, read_schema
from flintmq.spark.errors import user_errors
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.writer import BatchWriter, StreamWriter
from flintmq.spark.source.options import batch_read_options, read_options, stream_read_options
from flintmq.spark.source.reader import BatchReader, StreamReader

_SELECT: Final = "SELECT * FROM t WITH (`urlEnv` = '...', `queue` = '...')"
_INSERT: Final = "INSERT INTO t WITH (`urlEnv` = '...', `exchange` = '...') SELECT ..."


class FlintMQDataSource(DataSource):
    """Reads queues and publishes to exchanges.

    Spark finds it by its name, through the package pyspark_flintmq, or by
    `spark.dataSource.register(FlintMQDataSource)`. All methods raise ConfigurationError for wrong options or columns.
    """

    @classmethod
    def name(cls) -> str:
        return "flintmq"

    def schema(self) -> StructType:
        with user_errors():
            is_table = catalog.is_table(self.options)
            options = catalog.user_options(self.options) if is_table else self.options
            schema = read_schema(read_options(options).columns)
            return catalog.with_options(schema, options) if is_table else schema

    def reader(self, schema: StructType) -> BatchReader:
        with user_errors():
            check_read_schema(schema)
            return BatchReader(
                batch_read_options(catalog.read_options(self.options, schema, _SELECT)), catalog.without_options(schema)
            )

    def streamReader(self, schema: StructType) -> StreamReader:
        with user_errors():
            check_read_schema(schema)
            return StreamReader(
                stream_read_options(catalog.read_options(self.options, schema, _SELECT)),
                catalog.without_options(schema),
            )

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        with user_errors():
            if overwrite:
                raise ConfigurationError('published messages cannot be overwritten: use mode("append")')
            return BatchWriter(write_options(catalog.write_options(self.options, _INSERT)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Accept all output modes: with the mode complete, every micro-batch publishes the whole result again."""
        with user_errors():
            options = write_options(catalog.write_options(self.options, _INSERT))
            if options.batch_id is not None:
                raise ConfigurationError(
                    "the option batchId is for batch writes: a streaming query numbers its own batches"
                )
            return StreamWriter(options, schema)
