"""What a user is told of an error that came through every layer of Spark."""

import pytest

from flintmq.spark.pipelines import Flow, Sink, Source
from flintmq.spark.pipelines.spark_errors import cause, line_of_sql

OURS = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted: Task 0 failed
Traceback (most recent call last):
  File "worker.py", line 2052, in main
    process()
flintmq.spark.errors.QueryFailed: no queue 'orders' in vhost '/': declare it, or correct the name

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""
THEIRS = """\
An error occurred while calling o43.load.
: org.apache.spark.SparkException: the worker raised
Traceback (most recent call last):
  File "transforms.py", line 3, in shout
    return body.dekode()
AttributeError: 'bytes' object has no attribute 'dekode'

	at org.apache.spark.sql.Dataset.load(Dataset.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OURS, "no queue 'orders' in vhost '/': declare it, or correct the name"),
        (THEIRS, "AttributeError: 'bytes' object has no attribute 'dekode'"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] no `x`. SQLSTATE: 42P01\nsecond line",
            "[TABLE_OR_VIEW_NOT_FOUND] no `x`. SQLSTATE: 42P01",
        ),
        ("", "RuntimeError"),
    ],
)
def test_cause(text: str, said: str) -> None:
    """One line: what FlintMQ said, else what was raised in Python, else what Spark says first."""
    assert cause(RuntimeError(text)) == said


@pytest.mark.parametrize(
    ("text", "line"),
    [("no such field; line 3 pos 17", 22), ("Syntax error (line 1, pos 0)", 20), ("something else", 20)],
)
def test_line_of_sql(text: str, line: int) -> None:
    """Spark counts lines of the SQL; the user has those of the file."""
    flow = Flow("f", Source("flintmq", {}), (Sink("console"),), sql="SELECT", line=9, sql_line=20)
    assert line_of_sql(RuntimeError(text), flow) == line


def test_a_machine_that_is_busy() -> None:
    """What Spark says of a process that did not start in time helps nobody; that it may be run again does."""
    error = RuntimeError(
        "[STREAM_FAILED] Query terminated: org.apache.spark.SparkException: Python worker failed to connect back."
    )
    assert "Run it again" in cause(error)
