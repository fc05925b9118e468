"""Run a pipeline: start all of its flows, follow them, and stop them together."""

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
# The longest wait for the current batches after a stop. A batch that takes longer is repeated by the next run.
PATIENCE_SECONDS: Final = 30.0
_BATCH_POLL_SECONDS: Final = 0.05


class Stop:
    """A request to stop. The first one stops a pipeline after the current batches, the second one at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hurry = threading.Event()

    def ask(self) -> None:
        """Ask to stop. Can be called in a signal handler."""
        if self.asked.is_set():
            self.hurry.set()
        self.asked.set()


Watch = Callable[[PipelineStatus], None]


def run(pipeline: Pipeline, spark: SparkSession, stop: Stop, watch: Watch, master: str = "") -> PipelineStatus:
    """Run a pipeline until all flows are finished, one fails, or `stop` is asked; `watch` gets each change of the
    status.

    Return the last status, whose state is FINISHED, STOPPED or FAILED. Raises FlintError if a flow does not start.
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
    except Exception as error:  # noqa: BLE001 - a JVM that ended causes any error
        # The signal that stops this process may have ended the JVM, too.
        if not stop.asked.is_set():
            status.state = State.FAILED
            status.error = f"Spark has ended: {cause(error)}"
    runner.end()
    watch(status)
    return status


class _Runner:
    """The queries of one run; it keeps `status` up to date."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, status: PipelineStatus) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._status = status
        self._queries: list[tuple[StreamingQuery, FlowProgress]] = []
        # Functions that start a flow again, by its name. Each is used once at most.
        self._again: dict[str, Callable[[], StreamingQuery]] = {}

    def start(self) -> None:
        """Start all flows, after Spark has analyzed all of them. Raises FlintError."""
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
        # The machine was too busy to analyze the flow. It can be tried again, because no query runs yet.
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
        """Update the status. False if all flows are finished, or one has failed."""
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
        """Start a flow again, once, if the machine was too busy for its first batch; its checkpoint has its state."""
        error = query.exception()
        again = self._again.pop(flow.name, None)
        if error is None or again is None or flow.batches or not is_too_slow(error):
            return None
        flow.state = State.STARTING
        return again()

    def _ended(self, query: StreamingQuery, progress: FlowProgress) -> None:
        """Note that a query has ended by itself: it is finished, or it has failed."""
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
        """Stop each flow after its current batch, after PATIENCE_SECONDS, or as soon as `hurry` is set."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for query, progress in self._queries:
            before = progress.status.batches
            while query.isActive and time.monotonic() < deadline and not hurry.wait(_BATCH_POLL_SECONDS):
                progress.update()
                if not query.status["isTriggerActive"] or progress.status.batches != before:
                    break
            if query.isActive:
                query.stop()
            else:
                self._ended(query, progress)

    def end(self) -> None:
        """Stop all running flows. Errors are ignored, because Spark may have ended."""
        for query, progress in self._queries:
            with suppress(Exception):
                progress.update()
                if query.isActive:
                    query.stop()
            if progress.status.state in (State.STARTING, State.RUNNING):
                progress.status.state = State.STOPPED
        if self._status.state in (State.STARTING, State.RUNNING, State.STOPPING):
            self._status.state = State.STOPPED
