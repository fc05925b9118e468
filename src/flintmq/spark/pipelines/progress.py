"""What Spark tells of a query, added up: rows, rates, how far behind it is."""

import json
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.spark.pipelines.sinks import FilesOf
from flintmq.spark.pipelines.status import FlowStatus

_NEVER: Final = -1


class FlowProgress:
    """Follows one query; `status` is what is known of it."""

    def __init__(self, name: str, query: StreamingQuery, files: FilesOf | None) -> None:
        self.status = FlowStatus(name=name)
        self._query = query
        self._files = files
        self._seen = ""

    def follow(self, query: StreamingQuery) -> None:
        """The same flow, started once more."""
        self._query = query
        self._seen = ""

    def update(self) -> None:
        """Raises what Spark raises when it is gone."""
        # Spark keeps the last hundred: what came since we looked is behind the last one seen.
        reports = self._query.recentProgress
        for report in reports:
            if report.timestamp > self._seen:
                self._take(report)
                self._seen = report.timestamp

    def _take(self, report: StreamingQueryProgress) -> None:
        status = self.status
        status.rows += report.numInputRows
        if report.numInputRows:
            status.batches += 1
            status.batch_ms = report.durationMs.get("triggerExecution", 0)
        status.rate = _finite(report.processedRowsPerSecond)
        status.input_rate = _finite(report.inputRowsPerSecond)
        status.lag = lag(report)
        # Of some sinks, Spark does not know: of several together, for one.
        if report.sink.numOutputRows != _NEVER:
            status.written = (status.written or 0) + report.sink.numOutputRows
        if self._files is not None and report.numInputRows:
            status.files = (status.files or 0) + self._files(str(report.id), report.batchId)


def lag(report: StreamingQueryProgress) -> int | None:
    """How many messages the sources have behind what was read. None where one of them cannot tell."""
    found = 0
    for source in report.sources:
        end, latest = _place(source.endOffset), _place(source.latestOffset)
        if end == _NEVER or latest == _NEVER:
            return None
        found += max(latest - end, 0)
    return found


def _place(text: str | None) -> int:
    """The number of messages before a place in the source's queues, or _NEVER."""
    try:
        place = json.loads(text or "")
    except ValueError:
        return _NEVER
    offsets = place.get("offsets") if isinstance(place, dict) else None
    return sum(offsets.values()) if isinstance(offsets, dict) else _NEVER


def _finite(rate: float | None) -> float:
    """Spark divides by the time of a batch, which may be none."""
    return rate if rate is not None and 0 <= rate < float("inf") else 0.0
