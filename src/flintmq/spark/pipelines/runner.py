"""A pipeline at work: all of its flows are started, followed, and brought to an end together."""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.pipelines.definition import Flow, Pipeline
from flintmq.spark.pipelines.flow import frame_of, start
from flintmq.spark.pipelines.progress import FlowProgress
from flintmq.spark.pipelines.sinks import lakes_of
from flintmq.spark.pipelines.spark_errors import cause, is_too_slow
from flintmq.spark.pipelines.status import FlowStatus, PipelineStatus, State

POLL_SECONDS: Final = 0.25
# How long a batch may take to end once it was asked to; it is repeated by the next run if it does not.
PATIENCE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05


class Stop:
    """Asked once: end behind the batch that runs. Asked again: end now."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hurry = threading.Event()

    def ask(self) -> None:
        if self.asked.is_set():
            self.hurry.set()
        self.asked.set()


Watch = Callable[[PipelineStatus], None]


def run(pipeline: Pipeline, spark: SparkSession, stop: Stop, watch: Watch, master: str = "") -> PipelineStatus:
    """Runs until all flows are done, one fails, or it is asked to stop; `watch` is told of every step.

    The last status says how it ended: FINISHED, STOPPED or FAILED. Raises FlintError for what cannot even start.
    """
    status = PipelineStatus(
        pipeline=pipeline.name,
        description=pipeline.description,
        master=master,
        host=socket.gethostname(),
        pid=os.getpid(),
        started_ms=time.time_ns() // 1_000_000,
    )
    runner = _Runner(pipeline, spark, status)
    try:
        watch(status)
        if not stop.asked.is_set():
            runner.start()
        while runner.follow():
            watch(status)
            if stop.asked.wait(POLL_SECONDS):
                status.state = State.STOPPING
                watch(status)
                runner.wait_for_batches(stop.hurry)
                break
    except FlintError as error:
        status.state = State.FAILED
        status.error = str(error)
        runner.end()
        watch(status)
        raise
    except Exception as error:  # noqa: BLE001 - whatever a connection to a JVM that ended says
        # Spark's process was told to end, too, by whoever told this one.
        if not stop.asked.is_set():
            status.state = State.FAILED
            status.error = f"Spark is gone: {cause(error)}"
    runner.end()
    watch(status)
    return status


class _Runner:
    def __init__(self, pipeline: Pipeline, spark: SparkSession, status: PipelineStatus) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._status = status
        self._queries: list[tuple[StreamingQuery, FlowProgress]] = []
        # How to start a flow once more, by its name, as long as that may be done.
        self._again: dict[str, Callable[[], StreamingQuery]] = {}

    def start(self) -> None:
        """Raises FlintError. All flows are understood before the first one runs."""
        pipeline = self._pipeline
        frames = [self._frame(flow) for flow in pipeline.flows]
        for flow, frame in zip(pipeline.flows, frames, strict=True):
            query = self._query(flow, frame)
            self._queries.append((query, FlowProgress(flow.name, query, lakes_of(pipeline, flow))))
            self._again[flow.name] = partial(self._query, flow, frame)
        self._status.flows = [progress.status for _, progress in self._queries]
        self._status.state = State.RUNNING

    def _frame(self, flow: Flow) -> DataFrame:
        try:
            return frame_of(self._pipeline, flow, self._spark)
        except ConfigurationError as error:
            if error.__cause__ is None or not is_too_slow(error.__cause__):
                raise
        # The machine was too busy to look at the flow's source: nothing runs yet.
        return frame_of(self._pipeline, flow, self._spark)

    def _query(self, flow: Flow, frame: DataFrame) -> StreamingQuery:
        try:
            return start(self._pipeline, flow, frame)
        except ConfigurationError:
            raise
        except Exception as error:
            where = self._pipeline.where(flow.line)
            raise ConfigurationError(f"{where}the flow {flow.name} does not start: {cause(error)}") from error

    def follow(self) -> bool:
        """What has come of it since. False when all of it is done, or something failed."""
        for at, (query, progress) in enumerate(self._queries):
            progress.update()
            flow = progress.status
            if query.isActive:
                if flow.batches or "Initializing" not in query.status["message"]:
                    flow.state = State.RUNNING
            elif again := self._another_start(query, flow):
                self._queries[at] = (again, progress)
                progress.follow(again)
            else:
                self._ended(query, progress)
        if self._queries and all(progress.status.state is State.FINISHED for _, progress in self._queries):
            self._status.state = State.FINISHED
        return self._status.state is State.RUNNING

    def _another_start(self, query: StreamingQuery, flow: FlowStatus) -> StreamingQuery | None:
        """Once, where the machine was too busy for a flow's first batch: its checkpoint knows what to do again."""
        error = query.exception()
        again = self._again.pop(flow.name, None)
        if error is None or again is None or flow.batches or not is_too_slow(error):
            return None
        flow.state = State.STARTING
        return again()

    def _ended(self, query: StreamingQuery, progress: FlowProgress) -> None:
        """By itself: it is done, or it failed."""
        flow = progress.status
        error = query.exception()
        progress.update()
        flow.lag = 0 if error is None and flow.lag is not None else flow.lag
        flow.state = State.FINISHED if error is None else State.FAILED
        if error is not None:
            flow.error = cause(error)
            self._status.state = State.FAILED
            self._status.error = f"the flow {flow.name} failed: {flow.error}"

    def wait_for_batches(self, hurry: threading.Event) -> None:
        """Until no flow is in the middle of a batch, or patience is at its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for query, progress in self._queries:
            before = progress.status.batches
            while query.isActive and time.monotonic() < deadline and not hurry.wait(_LOOK_SECONDS):
                progress.update()
                if not query.status["isTriggerActive"] or progress.status.batches != before:
                    break
            if query.isActive:
                query.stop()
            else:
                self._ended(query, progress)

    def end(self) -> None:
        """Whatever still runs stops here. Spark may be gone by now."""
        for query, progress in self._queries:
            with suppress(Exception):
                progress.update()
                if query.isActive:
                    query.stop()
            if progress.status.state in (State.STARTING, State.RUNNING):
                progress.status.state = State.STOPPED
        if self._status.state in (State.STARTING, State.RUNNING, State.STOPPING):
            self._status.state = State.STOPPED
