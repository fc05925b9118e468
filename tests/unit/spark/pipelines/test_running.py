"""A pipeline that is told to stop: what its flows did by then counts."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.spark.pipelines.definition import Flow, Pipeline, Sink, Source
from flintmq.spark.pipelines.progress import FlowProgress
from flintmq.spark.pipelines.running import _Running
from flintmq.spark.pipelines.status import PipelineStatus, State

PIPELINE = Pipeline("p", (Flow("f", Source("flintmq", {}), (Sink("console"),)),), "/tmp/state")


class Query:
    """In a batch, in which it ends by itself when it is looked at for the second time."""

    def __init__(self, error: Exception | None) -> None:
        self.looks = 0
        self.stopped = False
        self.recentProgress: list[object] = []
        self.status = {"isTriggerActive": True, "message": ""}
        self._error = error

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.looks += 1
        return self.looks < 2

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [(None, State.FINISHED, ""), (ValueError("no room"), State.FAILED, "the flow f failed: no room")],
)
def test_what_ends_in_its_last_batch(error: Exception | None, state: State, text: str) -> None:
    """A flow that fails after it was told to stop has failed, and one that is done is done."""
    status = PipelineStatus(pipeline="p", state=State.STOPPING)
    running = _Running(PIPELINE, cast(SparkSession, SimpleNamespace()), status)
    query = Query(error)
    progress = FlowProgress("f", cast(StreamingQuery, query), None)
    running._queries = [(cast(StreamingQuery, query), progress)]
    running.wait_for_batches(threading.Event())
    running.end()
    assert (progress.status.state, status.error, query.stopped) == (state, text, False)
    assert status.state is (State.STOPPED if error is None else State.FAILED)
