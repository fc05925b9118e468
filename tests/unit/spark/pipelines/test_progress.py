"""What is made of the reports of a query."""

import json
from types import SimpleNamespace

import pytest

from flintmq.spark.pipelines.progress import FlowProgress, lag


def place(**offsets: int) -> str:
    return json.dumps({"offsets": offsets})


def report(
    second: int = 0,
    rows: int = 0,
    end: str | None = None,
    latest: str | None = None,
    batch: int = 0,
    written: int = -1,
) -> object:
    return SimpleNamespace(
        id="query",
        timestamp=f"2013-01-01T00:00:{second:02}.000Z",
        batchId=batch,
        numInputRows=rows,
        processedRowsPerSecond=float("nan") if not rows else 50.0,
        inputRowsPerSecond=25.0,
        durationMs={"triggerExecution": 200},
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest)],
        sink=SimpleNamespace(numOutputRows=written),
    )


@pytest.mark.parametrize(
    ("end", "latest", "waiting"),
    [
        (place(a=10, b=5), place(a=10, b=25), 20),
        (place(a=10), place(a=4), 0),
        (place(a=10), None, None),
        (None, place(a=10), None),
        ('{"logOffset": 3}', '{"logOffset": 4}', None),
    ],
)
def test_lag(end: str | None, latest: str | None, waiting: int | None) -> None:
    """How many messages wait is the distance over all queues, and unknown where a source does not say."""
    assert lag(report(end=end, latest=latest)) == waiting  # type: ignore[arg-type]


def test_reports_count_once() -> None:
    """A report that is seen again is not added again; an idle one says how much waits, and is no batch."""
    reports = [report(1, 100, place(a=100), place(a=150))]
    query = SimpleNamespace(recentProgress=reports)
    progress = FlowProgress("f", query, lambda query, batch: 3)  # type: ignore[arg-type]
    progress.update()
    progress.update()
    status = progress.status
    assert (status.rows, status.batches, status.lag, status.rate, status.files) == (100, 1, 50, 50.0, 3)
    reports.append(report(2, 50, place(a=150), place(a=150), batch=1))
    reports.append(report(3, 0, place(a=150), place(a=160), batch=2))
    progress.update()
    assert (status.rows, status.batches, status.lag, status.rate, status.files) == (150, 2, 10, 0.0, 6)


def test_what_was_written() -> None:
    """Rows that a sink took are added up, beside those that were read; where no sink counts, nobody knows."""
    reports = [report(1, 100)]
    progress = FlowProgress("f", SimpleNamespace(recentProgress=reports), None)  # type: ignore[arg-type]
    progress.update()
    assert progress.status.written is None
    reports += [report(2, 100, written=0), report(3, 100, written=40), report(4, 0), report(5, 0, written=2)]
    progress.update()
    assert (progress.status.rows, progress.status.written) == (300, 42)
