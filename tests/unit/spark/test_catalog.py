"""What is kept of a table in Spark's catalog, and what is not."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.catalog import is_table, read_options, user_options, with_options, without_options, write_options

COLUMNS = StructType([StructField("n", LongType(), True, {"comment": "c"}), StructField("m", LongType())])
# As Spark 4.3 hands them on when a table is made.
SAID = {"provider": "flintmq", "urlenv": "U", "option.urlenv": "U", "queue": "q", "option.queue": "q", "owner": "root"}


def test_what_spark_says_of_a_table() -> None:
    """Its own properties, and its second copy of each option, are none of the user's options."""
    assert is_table(SAID)
    assert not is_table({"urlEnv": "U", "queue": "q"})
    assert user_options(SAID) == {"urlenv": "U", "queue": "q"}


def test_options_are_kept() -> None:
    """Who reads gets them with the columns, and may say others; the columns themselves are as they were."""
    kept = with_options(COLUMNS, user_options(SAID))
    assert read_options({}, kept, "") == {"urlenv": "U", "queue": "q"}
    assert read_options({"Queue": "other"}, kept, "") == {"urlenv": "U", "queue": "other"}
    assert without_options(kept) == COLUMNS


def test_nobody_writes_by_what_is_kept() -> None:
    """Columns take it with them into other tables, for whose rows it is not meant."""
    assert write_options({"exchange": "x"}, "") == {"exchange": "x"}
    with pytest.raises(ConfigurationError, match=r"there are no options.*INSERT \.\.\."):
        write_options({}, "INSERT ...")
    with pytest.raises(ConfigurationError, match=r"there are no options.*SELECT \.\.\."):
        read_options({}, COLUMNS, "SELECT ...")


def test_passwords_are_not_kept() -> None:
    """A URL may have one."""
    with pytest.raises(ConfigurationError, match="use the option urlEnv or urlFile"):
        with_options(COLUMNS, {"url": "amqp://u:p@h/"})
