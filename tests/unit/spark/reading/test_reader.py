"""Micro-batches: where each ends, by what the stream has and what Spark allows."""

import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

import flintmq.client as fc
from flintmq.spark.columns import read_schema
from flintmq.spark.options import stream_read_options
from flintmq.spark.reading.offsets import OffsetRange, batch_end, place
from flintmq.spark.reading.reader import IDLE_SECONDS, StreamReader
from flintmq.spark.reading.stream import DataLost, Stream

ALL = ReadAllAvailable()


class Reader(StreamReader):
    """Asks no broker: `ends` are what it finds, one after the other, the last for ever."""

    def __init__(self, *ends: int, first: int = 0, **options: str) -> None:
        super().__init__(stream_read_options({"url": "amqp://h/", "queue": "q", **options}), read_schema(False, False))
        self.ends = [*ends]
        self.first = first

    def _stream(self) -> Stream:
        return self  # type: ignore[return-value]

    def bounds(self, timestamp_ms: int = 0) -> fc.StreamInfo:
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        return fc.StreamInfo(self.first, end, self.first)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes by sleeping alone."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(pauses))
    return pauses


def test_all_there_is(slept: list[float]) -> None:
    """Without a limit a micro-batch ends where the stream does, and nobody waits."""
    assert Reader(30).latestOffset(place("q", 10), ALL) == batch_end("q", 10, 30)
    assert slept == []


@pytest.mark.parametrize(("limit", "end"), [(ReadMaxRows(5), 15), (ReadMaxRows(500), 30)])
def test_limited(limit: ReadLimit, end: int) -> None:
    """A limit is kept."""
    assert Reader(30).latestOffset(place("q", 10), limit) == batch_end("q", 10, end)


def test_the_limit_of_the_options() -> None:
    """maxMessagesPerTrigger is the limit that Spark is told."""
    assert Reader(0, maxMessagesPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert Reader(0).getDefaultReadLimit() == ALL


def test_idle(slept: list[float]) -> None:
    """While nothing comes, an answer takes its time, and then is the place that was asked about, as it was."""
    start = batch_end("q", 3, 10)
    assert Reader(10).latestOffset(start, ALL) == start
    assert sum(slept) == pytest.approx(IDLE_SECONDS, abs=0.03)


def test_news_end_the_wait(slept: list[float]) -> None:
    """A message that comes while an answer waits is in that answer."""
    assert Reader(10, 10, 11).latestOffset(place("q", 10), ALL) == batch_end("q", 10, 11)
    assert 0 < sum(slept) < IDLE_SECONDS


def test_available_now(slept: list[float]) -> None:
    """A query that is to end takes what was there when it began, in steps, and does not wait for more."""
    reader = Reader(30, 99)
    reader.prepareForTriggerAvailableNow()
    start = place("q", 10)
    seen = []
    while (end := reader.latestOffset(start, ReadMaxRows(15))) != start:
        seen.append(end["offset"])
        start = end
    assert seen == [25, 30]
    assert slept == []


def test_a_stream_made_anew() -> None:
    """A stream that ends before the checkpoint is another one: an error, or a new start where that was allowed."""
    with pytest.raises(DataLost, match="made anew"):
        Reader(4).latestOffset(place("q", 10), ALL)
    reader = Reader(4, first=1, failOnDataLoss="false")
    end = reader.latestOffset(place("q", 10), ALL)
    assert reader.partitions(place("q", 10), end) == [OffsetRange(1, 4)]


def test_partitions() -> None:
    """A micro-batch is cut as the options say; an empty one has no partition."""
    reader = Reader(0, minPartitions="2", maxMessagesPerPartition="4")
    start, end = place("q", 0), batch_end("q", 0, 10)
    assert reader.partitions(start, end) == [OffsetRange(0, 3), OffsetRange(3, 6), OffsetRange(6, 10)]
    assert reader.partitions(end, end) == []


def test_reported_end() -> None:
    """The place Spark's progress shows is the stream's end, whatever the limit."""
    assert Reader(30).reportLatestOffset() == place("q", 30)
