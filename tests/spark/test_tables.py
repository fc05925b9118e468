"""Tables and views of SQL: what is said once, when they are made, holds for the queries that name them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers import BrokerProcess
from tests.spark.conftest import Queues


@pytest.fixture
def sql(spark: SparkSession, broker: BrokerProcess) -> Iterator[SparkSession]:
    """A session whose tables are gone when the test is done; the broker is known by BROKER_URL."""
    spark.sql("CREATE DATABASE tables_of_a_test")
    spark.sql("USE tables_of_a_test")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE tables_of_a_test CASCADE")


def test_a_table_of_a_queue(sql: SparkSession, queues: Queues) -> None:
    """A table that is made without columns has those of its options, and is read by them."""
    queue = queues.stream(b"a", b"b")
    sql.sql(f"CREATE TABLE t USING flintmq OPTIONS (urlEnv 'BROKER_URL', queue '{queue}', columns 'offset, body')")
    assert [tuple(row) for row in sql.sql("SELECT * FROM t ORDER BY offset").collect()] == [(0, b"a"), (1, b"b")]
    queues.add(queue, b"c")
    assert sql.sql("SELECT count(*) FROM t").first() == (3,)
    assert sql.sql("SELECT count(*) FROM t WITH (startingOffsets = '2')").first() == (1,)


def test_a_table_has_no_password(sql: SparkSession) -> None:
    """What a table keeps goes into files with its columns: a URL is refused, and the error does not show it."""
    with pytest.raises(Exception, match="use the option urlEnv or urlFile") as raised:
        sql.sql("CREATE TABLE t USING flintmq OPTIONS (url 'amqp://u:secret@h/', queue 'q')")
    assert "secret" not in str(raised.value)


def test_inserting(sql: SparkSession, queues: Queues, broker: BrokerProcess) -> None:
    """Rows are published by a view with its options, or into a table with options of the query."""
    out = queues.bound(queues.exchange())
    given = f"url '{broker.url}', exchange '{queues.exchange()}'"
    sql.sql(f"CREATE TEMPORARY VIEW out (routing_key STRING, body STRING) USING flintmq OPTIONS ({given})")
    sql.sql("INSERT INTO out VALUES ('k', 'by a view')")
    sql.sql("DROP VIEW out")
    sql.sql("CREATE TABLE t (routing_key STRING, body STRING) USING flintmq")
    options = f"`urlEnv` = 'BROKER_URL', `exchange` = '{queues.exchange()}'"
    sql.sql(f"INSERT INTO t WITH ({options}) VALUES ('k', 'by a table')")  # noqa: S608 - our own
    assert [message.body for message in queues.taken(out)] == [b"by a view", b"by a table"]


def test_nobody_writes_by_what_another_table_keeps(sql: SparkSession, queues: Queues) -> None:
    """Spark hands on the metadata of columns that are copied: rows never go where another table's options say."""
    queue = queues.stream(b"a")
    sql.sql(f"CREATE TABLE t USING flintmq OPTIONS (urlEnv 'BROKER_URL', queue '{queue}', columns 'body')")
    sql.sql("CREATE TABLE other (body BINARY) USING flintmq")
    with pytest.raises(Exception, match=r"there are no options.*INSERT INTO t WITH .*CREATE TEMPORARY VIEW"):
        sql.sql("INSERT INTO other SELECT * FROM t")


def test_a_table_of_a_lake(sql: SparkSession, tmp_path: Path) -> None:
    """A lake that is there is a table, which is read by its path, and rows are inserted by the same."""
    path = tmp_path / "lake"
    sql.sql("SELECT 1 AS n").write.format("flintmq_lake").option("path", str(path)).mode("append").save()
    sql.sql(f"CREATE TABLE lake USING flintmq_lake OPTIONS (path '{path}')")
    assert [tuple(row) for row in sql.sql("SELECT * FROM lake").collect()] == [(1,)]
    sql.sql(f"INSERT INTO lake WITH (`path` = '{path}') VALUES (2)")  # noqa: S608 - our own
    assert sorted(tuple(row) for row in sql.sql("SELECT * FROM lake").collect()) == [(1,), (2,)]


def test_a_table_without_options(sql: SparkSession) -> None:
    """Where Spark has kept nothing of a table, the error says how its options are given."""
    sql.sql("CREATE TABLE t (body BINARY) USING flintmq OPTIONS (urlEnv 'BROKER_URL', queue 'q')")
    with pytest.raises(Exception, match=r"there are no options.*SELECT \* FROM t WITH"):
        sql.sql("SELECT * FROM t").collect()
