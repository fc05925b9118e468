"""A pipeline that is told to stop: what its flows did by then counts."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines import runner
from flintmq.spark.pipelines.definition import Flow, Pipeline, Sink, Source
from flintmq.spark.pipelines.progress import FlowProgress
from flintmq.spark.pipelines.runner import _Runner
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
    running = _Runner(PIPELINE, cast(SparkSession, SimpleNamespace()), status)
    query = Query(error)
    progress = FlowProgress("f", cast(StreamingQuery, query))
    running._queries = [(cast(StreamingQuery, query), progress)]
    running.wait_for_batches(threading.Event())
    running.end()
    assert (progress.status.state, status.error, query.stopped) == (state, text, False)
    assert status.state is (State.STOPPED if error is None else State.FAILED)


TOO_SLOW = RuntimeError("[STREAM_FAILED] Query terminated: Python worker failed to connect back.")


class Ended:
    """A query that has come to its end, with these reports."""

    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, error: Exception | None, *reports: object) -> None:
        self.recentProgress: list[Any] = list(reports)
        self._error = error

    def exception(self) -> Exception | None:
        return self._error


def report(rows: int) -> object:
    return SimpleNamespace(
        id="query",
        timestamp="2013-01-01T00:00:00.000Z",
        batchId=0,
        numInputRows=rows,
        processedRowsPerSecond=1.0,
        inputRowsPerSecond=1.0,
        durationMs={},
        sources=[],
        sink=SimpleNamespace(numOutputRows=-1),
    )


@pytest.mark.parametrize(
    ("queries", "starts", "state"),
    [
        ([Ended(TOO_SLOW), Ended(None, report(5))], 2, State.FINISHED),
        ([Ended(TOO_SLOW), Ended(TOO_SLOW), Ended(None)], 2, State.FAILED),
        ([Ended(TOO_SLOW, report(5)), Ended(None)], 1, State.FAILED),
        ([Ended(ValueError("no room")), Ended(None)], 1, State.FAILED),
        ([Ended(None, report(5)), Ended(None)], 1, State.FINISHED),
    ],
)
def test_a_flow_that_found_no_process_is_started_once_more(
    queries: list[Ended], starts: int, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once only, for that reason only, and only before its first batch; what it does then counts."""
    started: list[Ended] = []

    def start(*_: object) -> Ended:
        started.append(queries[len(started)])
        return started[-1]

    monkeypatch.setattr(runner, "frame_of", lambda *_: None)
    monkeypatch.setattr(runner, "start", start)
    monkeypatch.setattr(runner, "lakes_of", lambda *_: ())
    status = PipelineStatus(pipeline="p")
    work = _Runner(PIPELINE, cast(SparkSession, SimpleNamespace()), status)
    work.start()
    while work.follow():
        pass
    assert (len(started), status.state, status.flows[0].state) == (starts, state, state)
    assert status.flows[0].rows == sum(each.numInputRows for query in started for each in query.recentProgress)
    assert ("Run it again" in status.error) == (queries[starts - 1].exception() is TOO_SLOW)


@pytest.mark.parametrize(("failures", "works"), [([TOO_SLOW], True), ([TOO_SLOW] * 2, False), ([ValueError()], False)])
def test_a_source_that_found_no_process_is_looked_at_once_more(
    failures: list[Exception], works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs by then; what is wrong with a definition is said at once."""
    left = iter(failures)

    def frame_of(*_: object) -> None:
        for failure in left:
            raise ConfigurationError("the flow f") from failure

    monkeypatch.setattr(runner, "frame_of", frame_of)
    work = _Runner(PIPELINE, cast(SparkSession, SimpleNamespace()), PipelineStatus(pipeline="p"))
    if works:
        work._frame(PIPELINE.flows[0])
    else:
        with pytest.raises(ConfigurationError):
            work._frame(PIPELINE.flows[0])
