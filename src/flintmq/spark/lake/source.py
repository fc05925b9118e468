"""format("flintmq_lake"): what Spark calls to write a lake, and to read one."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.failures import told
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.lake.reading import LakeBatchReader, LakeStreamReader, check_columns, lake_table
from flintmq.spark.lake.writer import LakeBatchWriter, LakeStreamWriter


class LakeDataSource(DataSource):
    """Found by name, through the package pyspark_flintmq_lake; or `spark.dataSource.register(LakeDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "flintmq_lake"

    def schema(self) -> StructType:
        with told():
            return lake_table(lake_read_options(self.options).place).schema()

    def reader(self, schema: StructType) -> LakeBatchReader:
        with told():
            options = lake_read_options(self.options)
            check_columns(schema, options.place)
            return LakeBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> LakeStreamReader:
        with told():
            options = lake_read_options(self.options)
            check_columns(schema, options.place)
            return LakeStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        with told():
            if overwrite:
                raise ConfigurationError('a lake is added to, and not overwritten: use mode("append"), or another path')
            return LakeBatchWriter(lake_write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        """With the output mode complete, every micro-batch adds the whole result again."""
        with told():
            options = lake_write_options(self.options)
            if options.transactional_id:
                raise ConfigurationError(
                    "the options transactionalId and batchId are for batches: a query that goes on numbers its own"
                )
            return LakeStreamWriter(options, schema)
