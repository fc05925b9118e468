"""What is kept of a table in Spark's catalog, and what is not."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from flintmq.base.errors import ConfigurationError
from flintmq.spark.catalog import is_table, keeping, of_user, plain, reading, writing

COLUMNS = StructType([StructField("n", LongType(), True, {"comment": "c"}), StructField("m", LongType())])
# As Spark 4.3 hands them on when a table is made.
SAID = {"provider": "flintmq", "urlenv": "U", "option.urlenv": "U", "queue": "q", "option.queue": "q", "owner": "root"}


def test_what_spark_says_of_a_table() -> None:
    """Its own properties, and its second copy of each option, are none of the user's options."""
    assert is_table(SAID)
    assert not is_table({"urlEnv": "U", "queue": "q"})
    assert of_user(SAID) == {"urlenv": "U", "queue": "q"}


def test_options_are_kept() -> None:
    """Who reads gets them with the columns, and may say others; the columns themselves are as they were."""
    kept = keeping(COLUMNS, of_user(SAID))
    assert reading({}, kept, "") == {"urlenv": "U", "queue": "q"}
    assert reading({"Queue": "other"}, kept, "") == {"urlenv": "U", "queue": "other"}
    assert plain(kept) == COLUMNS


def test_nobody_writes_by_what_is_kept() -> None:
    """Columns take it with them into other tables, for whose rows it is not meant."""
    assert writing({"exchange": "x"}, "") == {"exchange": "x"}
    with pytest.raises(ConfigurationError, match=r"there are no options.*INSERT \.\.\."):
        writing({}, "INSERT ...")
    with pytest.raises(ConfigurationError, match=r"there are no options.*SELECT \.\.\."):
        reading({}, COLUMNS, "SELECT ...")


def test_passwords_are_not_kept() -> None:
    """A URL may have one."""
    with pytest.raises(ConfigurationError, match="say where the broker is with the option urlEnv or urlFile"):
        keeping(COLUMNS, {"url": "amqp://u:p@h/"})
