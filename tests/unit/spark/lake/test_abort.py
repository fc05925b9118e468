"""The files of an aborted write: those of a failed attempt are removed, those of a possible batch stay."""

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import WriterCommitMessage

from flintmq.spark.lake import files as task_files
from flintmq.spark.lake.data_file import Batch
from flintmq.spark.lake.formats.plain import ParquetLake
from flintmq.spark.lake.manifest import LakeDamaged, Manifest
from flintmq.spark.lake.options import lake_write_options
from flintmq.spark.lake.writer import Lake, LakeBatchWriter, LakeStreamWriter, Written
from tests.spark.lakes import FORMATS, parquet_files, rows
from tests.unit.spark.lake.test_writer import SCHEMA, a_lake, batch, messages

Messages = list[WriterCommitMessage | None]


def said(lake: Lake, start: int, end: int) -> Written:
    """The result of a task, as the driver gets it."""
    return Written("query", lake.write(iter([messages(start, end)])), lake.attempt)


def stream_writer(path: Path, format: str) -> LakeStreamWriter:
    """A writer as Spark creates it for a commit or an abort."""
    return LakeStreamWriter(lake_write_options({"path": str(path), "lakeFormat": format}), SCHEMA)


@pytest.mark.parametrize("format", FORMATS)
def test_a_job_that_failed(tmp_path: Path, format: str) -> None:
    """All that its tasks wrote is removed, also by those that were killed before they said so; what others wrote, of
    the same query and number, is not.
    """
    path = tmp_path / "lake"
    decided = a_lake(path, format)
    decided.commit(batch(decided, 0, messages(0, 10)))
    other = said(a_lake(path, format), 10, 20)
    there = parquet_files(path)
    failed = a_lake(path, format)
    heard: Messages = [said(failed, 10, 15), None]
    failed.write(iter([messages(15, 20)]))
    stream_writer(path, format).abort(heard, 1)
    assert parquet_files(path) == there
    stream_writer(path, format).abort([None, None], 1)
    stream_writer(path, format).commit([other], 1)
    assert rows(path, format, "offset") == [(n,) for n in range(20)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_job_of_which_nobody_answered(tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture) -> None:
    """Which attempt it was is not known, so that what killed tasks wrote stays, and the log says so."""
    path = tmp_path / "lake"
    a_lake(path, format).write(iter([messages(0, 10)]))
    with caplog.at_level(logging.WARNING, "flintmq"):
        stream_writer(path, format).abort([], 7)
        assert not caplog.text
        stream_writer(path, format).abort([None, None], 7)
    assert "batch 7 was aborted, and none of its tasks has reported its files" in caplog.text
    assert len(parquet_files(path)) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_job_that_failed(tmp_path: Path, format: str) -> None:
    """The writer is the one that its tasks had: it knows their attempt when none of them has said a word."""
    path = tmp_path / "lake"
    options = lake_write_options({"path": str(path), "lakeFormat": format})
    writer = LakeBatchWriter(options, SCHEMA)
    writer.write(iter([messages(0, 10)]))
    writer.abort([None])
    assert not parquet_files(path)


@pytest.mark.parametrize("format", FORMATS)
def test_an_abort_while_it_is_not_known_whether_it_is_committed(
    tmp_path: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All tasks were done: a commit that Spark does not wait for any more may be about to decide. Files stay, the log
    says so, and the commit is whole.
    """
    path = tmp_path / "lake"
    lake = a_lake(path, format)
    heard: Messages = [said(lake, 0, 10)]
    with caplog.at_level(logging.WARNING, "flintmq"):
        stream_writer(path, format).abort(heard, 0)
    assert "it is unknown whether batch 0 of query is being decided: 1 files" in caplog.text
    stream_writer(path, format).commit(heard, 0)
    caplog.clear()
    stream_writer(path, format).abort(heard, 0)
    assert rows(path, format, "offset") == [(n,) for n in range(10)]
    assert not caplog.text


@pytest.mark.parametrize("format", FORMATS)
def test_an_abort_after_another_driver_decided(tmp_path: Path, format: str) -> None:
    """Then it is known, and what the other one did not write goes."""
    path = tmp_path / "lake"
    winner, loser = a_lake(path, format), a_lake(path, format)
    heard: Messages = [said(loser, 0, 10)]
    loser.write(iter([messages(0, 10)]))
    winner.commit(batch(winner, 0, messages(0, 10)))
    stream_writer(path, format).abort(heard, 0)
    assert rows(path, format, "offset") == [(n,) for n in range(10)]
    assert len(parquet_files(path)) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_commit_that_fails_before_it_decides(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver knows that a batch is not decided: its files are removed, and it is written again."""
    path = tmp_path / "lake"
    heard: Messages = [said(a_lake(path, format), 0, 10)]
    with monkeypatch.context() as broken:
        broken.setattr(Manifest, "describe", failing)
        with pytest.raises(OSError, match="no room"):
            stream_writer(path, format).commit(heard, 0)
    assert not parquet_files(path)
    stream_writer(path, format).abort(heard, 0)
    assert not caplog.text
    stream_writer(path, format).commit([said(a_lake(path, format), 0, 10)], 0)
    assert rows(path, format, "offset") == [(n,) for n in range(10)]


@pytest.mark.parametrize("is_decided", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_a_commit_that_fails_while_it_decides(
    tmp_path: Path, format: str, is_decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch may be decided, or be so in a moment, whatever was raised: its files stay."""
    path = tmp_path / "lake"
    heard: Messages = [said(a_lake(path, format), 0, 10)]
    written = parquet_files(path)
    decide = Manifest.decide

    def broken(manifest: Manifest, wanted: Batch) -> Batch:
        if is_decided:
            decide(manifest, wanted)
        raise OSError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "decide", broken)
        with pytest.raises(OSError, match="no answer"):
            stream_writer(path, format).commit(heard, 0)
        stream_writer(path, format).abort(heard, 0)
    assert parquet_files(path) == written
    stream_writer(path, format).commit([said(a_lake(path, format), 0, 10)], 0)
    assert rows(path, format, "offset") == [(n,) for n in range(10)]


@pytest.mark.parametrize("broken", ["sync", "pq.ParquetWriter.write_table"])
def test_a_file_that_cannot_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """On a full disk, say: the task that fails takes the file with it."""
    monkeypatch.setattr(f"{task_files.__name__}.{broken}", failing)
    with pytest.raises(OSError, match="no room"):
        a_lake(tmp_path / "lake").write(iter([messages(0, 10, keys=3)]))
    assert not parquet_files(tmp_path / "lake")


def test_a_file_that_cannot_be_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left behind empty."""

    class Writer(pq.ParquetWriter):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - what it takes
            super().__init__(*arguments, **options)
            failing()

    monkeypatch.setattr(pq, "ParquetWriter", Writer)
    with pytest.raises(OSError, match="no room"):
        a_lake(tmp_path / "lake").write(iter([messages(0, 10)]))
    assert not parquet_files(tmp_path / "lake")


def test_a_table_that_does_not_take_a_decided_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a job that would be another batch in its next run says how to complete it."""
    path = tmp_path / "lake"
    options = {"path": str(path)}
    writer = LakeBatchWriter(lake_write_options(options), SCHEMA)
    heard: Messages = [writer.write(iter([messages(0, 10)]))]
    with monkeypatch.context() as broken:
        broken.setattr(ParquetLake, "commit", failing)
        with pytest.raises(Exception, match=r"Run this again with the options transactionalId=batch-\S+ and") as raised:
            writer.commit(heard)
        writer.abort(heard)
    name = str(raised.value).partition("transactionalId=")[2].partition(" ")[0]
    again = LakeBatchWriter(lake_write_options({**options, "transactionalId": name, "batchId": "0"}), SCHEMA)
    again.commit([again.write(iter([messages(0, 10)]))])
    assert rows(path, "parquet", "offset") == [(n,) for n in range(10)]
    assert len(parquet_files(path)) == 1


def test_a_batch_that_is_damaged_is_not_to_be_run_again(tmp_path: Path) -> None:
    """No options complete it."""
    path = tmp_path / "lake"
    lake = a_lake(path)
    decided = batch(lake, 0, messages(0, 10))
    Manifest(path).decide(decided)
    min(parquet_files(path)).unlink()
    with pytest.raises(LakeDamaged, match="another program has removed it"):
        lake.commit(decided)


def failing(*_: object, **__: object) -> None:
    raise OSError("no room")
