"""What Spark tells of a query, added up: rows, rates, how far behind it is."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.base.errors import FlintError
from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.pipelines.status import FlowStatus, LakeStatus

_NEVER: Final = -1


class FlowProgress:
    """Follows one query; `status` is what is known of it."""

    def __init__(self, name: str, query: StreamingQuery, lakes: Sequence[Path] = ()) -> None:
        """`lakes` are the directories of those that are sinks of the query."""
        self._lakes = [_LakeProgress(root) for root in lakes]
        self.status = FlowStatus(name=name, lakes=[lake.status for lake in self._lakes])
        self._query = query
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
        for lake in self._lakes:
            # One that aggregates writes also when nothing has come: what a watermark has closed.
            lake.count(str(report.id), report.batchId)
        known = [lake.status for lake in self._lakes if lake.status.files is not None]
        if known:
            status.files = sum(lake.files or 0 for lake in known)
        # Of some sinks, Spark does not know: of several together, for one. Then all get what a lake among them gets.
        if report.sink.numOutputRows != _NEVER:
            status.written = (status.written or 0) + report.sink.numOutputRows
        elif known:
            status.written = known[0].rows


class _LakeProgress:
    """What one lake got of one query, by its manifest, which knows whatever way a batch came there."""

    def __init__(self, root: Path) -> None:
        self.status = LakeStatus(path=str(root))
        self._manifest = Manifest(root)
        self._counted = _NEVER

    def count(self, query: str, batch: int) -> None:
        """What cannot be read is not counted: a query does not end by that."""
        status = self.status
        if batch <= self._counted:
            return
        with suppress(FlintError, OSError, ValueError):
            decided = self._manifest.batch(query, batch)
            if decided is None and self._manifest.description() is None:
                return
            files = decided.files if decided else ()
            status.rows = (status.rows or 0) + sum(file.rows for file in files)
            status.files = (status.files or 0) + len(files)
            status.size_bytes = (status.size_bytes or 0) + sum(file.size_bytes for file in files)
            self._counted = batch if decided else self._counted


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
