"""The options of a lake, and the errors for all others."""

import pytest
from pyspark.sql.types import DoubleType, IntegerType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.capture import Window
from flintmq.spark.lake.events import _digest
from flintmq.spark.lake.options import LakeFormat, lake_read_options, lake_write_options
from flintmq.spark.lake.writer import Lake

SCHEMA = StructType([StructField("n", IntegerType()), StructField("x", DoubleType())])


def test_defaults() -> None:
    """A path is enough; it may be a URI of a file."""
    options = lake_write_options({"path": "file:///lakes/a%20b", "checkpointLocation": "/c", "queryName": "q"})
    assert (options.place.path, options.place.format, options.events) == ("/lakes/a b", LakeFormat.PARQUET, None)
    assert lake_read_options({"path": "/x"}).place.format is None


def test_one_lake() -> None:
    """However its path is written, events of a lake are told under one name, and of others under others."""
    names = [_digest(lake_write_options({"path": path}).place) for path in ("/x", "/x/", "/x//.", "file:///x", "/y")]
    assert [name == names[0] for name in names] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"partitionedBy": "day"}, r"no option partitionedby: did you mean partitionBy\?"),
        ({"path": "s3://bucket/lake"}, "a lake needs a file system"),
        ({"path": "lake"}, "it must be absolute"),
        ({"lakeFormat": "orc"}, "it must be one of parquet, delta, iceberg"),
        ({"partitionBy": "color"}, "there is no column color to partition by: the data has n"),
        ({"partitionBy": "day"}, "day is computed from the column timestamp, which the data does not have"),
        ({"partitionBy": "n,n"}, "the option partitionBy has n twice"),
        ({"partitionBy": "x"}, "the column x is double, by which a lake cannot be partitioned"),
        ({"eventsExchange": "x"}, "events need a broker"),
        ({"transactionalId": "x"}, "the options transactionalId and batchId need each other"),
        ({"transactionalId": "../x", "batchId": "1"}, "it must be up to 128 letters"),
        ({"url": "amqp://h/"}, "the option eventsExchange is missing"),
    ],
)
def test_wrong_options(options: dict[str, str], expected: str) -> None:
    """A wrong option is one clear error that says what would be right."""
    with pytest.raises(ConfigurationError, match=expected):
        Lake(lake_write_options({"path": "/nowhere", **options}), SCHEMA)


def test_nothing_but_partitions() -> None:
    """A file has something in it."""
    with pytest.raises(ConfigurationError, match="needs a column that it is not partitioned by"):
        Lake(lake_write_options({"path": "/nowhere", "partitionBy": "n"}), StructType(SCHEMA.fields[:1]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "the option path is missing"),
        ({"path": "/x", "rowsPerSecond": "0"}, "must be a number greater than 0"),
        ({"path": "/x", "partitionBy": "day"}, "there is no option partitionby: did you mean"),
    ],
)
def test_wrong_options_of_reading(options: dict[str, str], expected: str) -> None:
    """Options of reads are checked in the same way."""
    with pytest.raises(ConfigurationError, match=expected):
        lake_read_options(options)


def test_windows() -> None:
    """A window is a size and a time."""
    assert Window(10, 5).options() == {
        "minMessagesPerTrigger": "10",
        "maxMessagesPerTrigger": "10",
        "maxTriggerDelay": "5s",
    }
    with pytest.raises(ConfigurationError, match="at least one message and one second"):
        Window(0, 5).options()
