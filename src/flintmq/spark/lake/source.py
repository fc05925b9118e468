"""format("flintmq_lake"): what Spark calls to write a lake, and to read one."""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.catalog import is_table, keeping, of_user, plain, reading, writing
from flintmq.spark.errors import user_errors
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.lake.reader import LakeBatchReader, LakeStreamReader, check_columns, lake_table
from flintmq.spark.lake.writer import LakeBatchWriter, LakeStreamWriter

_SELECT: Final = "SELECT * FROM t WITH (`path` = '...')"
_INSERT: Final = "INSERT INTO t WITH (`path` = '...') SELECT ..."


class LakeDataSource(DataSource):
    """Found by name, through the package pyspark_flintmq_lake; or `spark.dataSource.register(LakeDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "flintmq_lake"

    def schema(self) -> StructType:
        with user_errors():
            options = of_user(self.options) if is_table(self.options) else self.options
            schema = lake_table(lake_read_options(options).place).schema()
            return keeping(schema, options) if is_table(self.options) else schema

    def reader(self, schema: StructType) -> LakeBatchReader:
        with user_errors():
            options = lake_read_options(reading(self.options, schema, _SELECT))
            check_columns(schema, options.place)
            return LakeBatchReader(options, plain(schema))

    def streamReader(self, schema: StructType) -> LakeStreamReader:
        with user_errors():
            options = lake_read_options(reading(self.options, schema, _SELECT))
            check_columns(schema, options.place)
            return LakeStreamReader(options, plain(schema))

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        with user_errors():
            if overwrite:
                raise ConfigurationError('a lake is added to, and not overwritten: use mode("append"), or another path')
            return LakeBatchWriter(lake_write_options(writing(self.options, _INSERT)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        """With the output mode complete, every micro-batch adds the whole result again."""
        with user_errors():
            options = lake_write_options(writing(self.options, _INSERT))
            if options.transactional_id:
                raise ConfigurationError(
                    "the options transactionalId and batchId are for batches: a query that goes on numbers its own"
                )
            return LakeStreamWriter(options, schema)
