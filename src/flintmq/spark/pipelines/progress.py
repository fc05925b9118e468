"""The progress of a flow from the reports of Spark: rows, rates and lag."""

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

_UNKNOWN: Final = -1


class FlowProgress:
    """Follows the query of a flow and keeps its status in `status`."""

    def __init__(self, name: str, query: StreamingQuery, lakes: Sequence[Path] = ()) -> None:
        """`lakes` are the directories of the lakes among the sinks."""
        self._lakes = [_LakeProgress(root) for root in lakes]
        self.status = FlowStatus(name=name, lakes=[lake.status for lake in self._lakes])
        self._query = query
        self._seen = ""

    def follow(self, query: StreamingQuery) -> None:
        """Follow another query of this flow, which was started again."""
        self._query = query
        self._seen = ""

    def update(self) -> None:
        """Read new reports. Raises errors of Spark, for example if it has ended."""
        # Spark keeps the last hundred reports, so that those since the last call are among them.
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
            # A query that aggregates writes without input, too: windows that a watermark has closed.
            lake.count(str(report.id), report.batchId)
        known = [lake.status for lake in self._lakes if lake.status.files is not None]
        if known:
            status.files = sum(lake.files or 0 for lake in known)
        # Spark does not count the rows of some sinks, such as several together. A lake's count holds for all of them.
        if report.sink.numOutputRows != _UNKNOWN:
            status.written = (status.written or 0) + report.sink.numOutputRows
        elif known:
            status.written = known[0].rows


class _LakeProgress:
    """Counts the rows and files that one lake got from one query, by its manifest, which has all batches."""

    def __init__(self, root: Path) -> None:
        self.status = LakeStatus(path=str(root))
        self._manifest = Manifest(root)
        self._counted = _UNKNOWN

    def count(self, query: str, batch: int) -> None:
        """Count a batch. Errors are ignored, because they must not end the query."""
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
    """The number of messages in the sources that were not read yet. None if one of the sources does not report it."""
    found = 0
    for source in report.sources:
        end, latest = _messages_before(source.endOffset), _messages_before(source.latestOffset)
        if end == _UNKNOWN or latest == _UNKNOWN:
            return None
        found += max(latest - end, 0)
    return found


def _messages_before(text: str | None) -> int:
    """The number of messages before an offset of the source, the sum of all queues; or _UNKNOWN."""
    try:
        offset = json.loads(text or "")
    except ValueError:
        return _UNKNOWN
    offsets = offset.get("offsets") if isinstance(offset, dict) else None
    return sum(offsets.values()) if isinstance(offsets, dict) else _UNKNOWN


def _finite(rate: float | None) -> float:
    """A rate of Spark, or 0 if it is infinite: Spark divides by the time of a batch, which may be 0."""
    return rate if rate is not None and 0 <= rate < float("inf") else 0.0
