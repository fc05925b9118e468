"""The data source behind format("flintmq_lake"): Spark calls it to write a lake and to read one."""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark import catalog
from flintmq.spark.errors import user_errors
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.lake.reader import LakeBatchReader, LakeStreamReader, check_columns, lake_table
from flintmq.spark.lake.writer import LakeBatchWriter, LakeStreamWriter

_SELECT: Final = "SELECT * FROM t WITH (`path` = '...')"
_INSERT: Final = "INSERT INTO t WITH (`path` = '...') SELECT ..."


class LakeDataSource(DataSource):
    """Reads and writes lakes.

    Spark finds it by its name, through the package pyspark_flintmq_lake, or by
    `spark.dataSource.register(LakeDataSource)`. All methods raise ConfigurationError for wrong options or columns.
    """

    @classmethod
    def name(cls) -> str:
        return "flintmq_lake"

    def schema(self) -> StructType:
        with user_errors():
            is_table = catalog.is_table(self.options)
            options = catalog.user_options(self.options) if is_table else self.options
            schema = lake_table(lake_read_options(options).place).schema()
            return catalog.with_options(schema, options) if is_table else schema

    def reader(self, schema: StructType) -> LakeBatchReader:
        with user_errors():
            options = lake_read_options(catalog.read_options(self.options, schema, _SELECT))
            check_columns(schema, options.place)
            return LakeBatchReader(options, catalog.without_options(schema))

    def streamReader(self, schema: StructType) -> LakeStreamReader:
        with user_errors():
            options = lake_read_options(catalog.read_options(self.options, schema, _SELECT))
            check_columns(schema, options.place)
            return LakeStreamReader(options, catalog.without_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        with user_errors():
            if overwrite:
                raise ConfigurationError('a lake cannot be overwritten: use mode("append"), or another path')
            return LakeBatchWriter(lake_write_options(catalog.write_options(self.options, _INSERT)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        """Accept all output modes: with the mode complete, every micro-batch adds the whole result again."""
        with user_errors():
            options = lake_write_options(catalog.write_options(self.options, _INSERT))
            if options.transactional_id:
                raise ConfigurationError(
                    "the options transactionalId and batchId are for batch writes: a streaming query numbers its own "
                    "batches"
                )
            return LakeStreamWriter(options, schema)
