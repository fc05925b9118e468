"""The status of a flow from the reports of its query."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.manifest import Description, Manifest
from flintmq.spark.lake.options import LakeFormat
from flintmq.spark.pipelines.progress import FlowProgress, lag
from flintmq.spark.pipelines.status import LakeStatus


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
    progress = FlowProgress("f", query)  # type: ignore[arg-type]
    progress.update()
    progress.update()
    status = progress.status
    assert (status.rows, status.batches, status.lag, status.rate) == (100, 1, 50, 50.0)
    reports.append(report(2, 50, place(a=150), place(a=150), batch=1))
    reports.append(report(3, 0, place(a=150), place(a=160), batch=2))
    progress.update()
    assert (status.rows, status.batches, status.lag, status.rate, status.files) == (150, 2, 10, 0.0, None)


def test_what_was_written() -> None:
    """Rows that a sink took are added up, beside those that were read; where no sink counts, nobody knows."""
    reports = [report(1, 100)]
    progress = FlowProgress("f", SimpleNamespace(recentProgress=reports))  # type: ignore[arg-type]
    progress.update()
    assert progress.status.written is None
    reports += [report(2, 100, written=0), report(3, 100, written=40), report(4, 0), report(5, 0, written=2)]
    progress.update()
    assert (progress.status.rows, progress.status.written) == (300, 42)


def lake(root: Path, *batches: int) -> Path:
    """A lake with two files of ten rows in each of these batches of the query."""
    manifest = Manifest(root)
    manifest.describe(Description(LakeFormat.PARQUET, StructType([StructField("n", LongType())]), ()))
    for number in batches:
        manifest.decide(Batch("query", number, tuple(DataFile(f"{number}-{n}.parquet", 10, 500) for n in range(2))))
    return root


def test_what_lakes_got(tmp_path: Path) -> None:
    """Where Spark does not know, because a batch goes to several sinks, each lake's manifest does: rows, files, bytes,
    also of a batch for which nothing came; and no batch counts twice.
    """
    roots = [lake(tmp_path / "one", 0), lake(tmp_path / "two", 0, 1), tmp_path / "elsewhere"]
    reports = [report(1, 100, batch=0)]
    progress = FlowProgress("f", SimpleNamespace(recentProgress=reports), roots)  # type: ignore[arg-type]
    progress.update()
    assert (progress.status.written, progress.status.files) == (20, 4)
    reports += [report(2, 0, batch=1)]
    progress.update()
    lake(roots[0], 1)
    reports += [report(3, 0, batch=1), report(4, 100, batch=2)]
    progress.update()
    assert (progress.status.written, progress.status.files) == (40, 8)
    assert progress.status.lakes == [
        LakeStatus(path=str(roots[0]), rows=40, files=4, size_bytes=2000),
        LakeStatus(path=str(roots[1]), rows=40, files=4, size_bytes=2000),
        LakeStatus(path=str(roots[2])),
    ]


def test_what_spark_counts_itself(tmp_path: Path) -> None:
    """What Spark says of a single sink is what was written."""
    reports = [report(1, 100, batch=0, written=15)]
    roots = [lake(tmp_path / "one", 0)]
    progress = FlowProgress("f", SimpleNamespace(recentProgress=reports), roots)  # type: ignore[arg-type]
    progress.update()
    assert (progress.status.written, progress.status.files) == (15, 2)


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    """A number that is not to be had is no reason for a query to end."""
    root = lake(tmp_path / "one", 0)
    (root / "_flintmq/manifest/query" / f"{0:020d}.json").write_text('{"version": 2}')
    reports = [report(1, 100, batch=0)]
    progress = FlowProgress("f", SimpleNamespace(recentProgress=reports), [root])  # type: ignore[arg-type]
    progress.update()
    assert (progress.status.rows, progress.status.files) == (100, None)
