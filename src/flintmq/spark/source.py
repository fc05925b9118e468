"""format("flintmq"): what Spark calls to read queues, or to publish to an exchange."""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.catalog import is_table, keeping, of_user, plain, reading, writing
from flintmq.spark.columns import check_read_schema, read_schema
from flintmq.spark.errors import user_errors
from flintmq.spark.reading.options import batch_read_options, read_options, stream_read_options
from flintmq.spark.reading.reader import BatchReader, StreamReader
from flintmq.spark.writing.options import write_options
from flintmq.spark.writing.writer import BatchWriter, StreamWriter

_SELECT: Final = "SELECT * FROM t WITH (`urlEnv` = '...', `queue` = '...')"
_INSERT: Final = "INSERT INTO t WITH (`urlEnv` = '...', `exchange` = '...') SELECT ..."


class FlintMQDataSource(DataSource):
    """Found by name, through the package pyspark_flintmq; or `spark.dataSource.register(FlintMQDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "flintmq"

    def schema(self) -> StructType:
        with user_errors():
            options = of_user(self.options) if is_table(self.options) else self.options
            schema = read_schema(read_options(options).columns)
            return keeping(schema, options) if is_table(self.options) else schema

    def reader(self, schema: StructType) -> BatchReader:
        with user_errors():
            check_read_schema(schema)
            return BatchReader(batch_read_options(reading(self.options, schema, _SELECT)), plain(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        with user_errors():
            check_read_schema(schema)
            return StreamReader(stream_read_options(reading(self.options, schema, _SELECT)), plain(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        with user_errors():
            if overwrite:
                raise ConfigurationError('messages that were published cannot be overwritten: use mode("append")')
            return BatchWriter(write_options(writing(self.options, _INSERT)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """With the output mode complete, every micro-batch publishes the whole result again."""
        with user_errors():
            options = write_options(writing(self.options, _INSERT))
            if options.batch_id is not None:
                raise ConfigurationError("the option batchId is for batches: a query that goes on numbers its own")
            return StreamWriter(options, schema)
