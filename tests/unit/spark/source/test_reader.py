"""Micro-batches: where each ends, by what the queues have and what Spark allows."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import MESSAGE, read_schema
from flintmq.spark.source.offsets import Offset, OffsetRange, batch_end, saved_offset
from flintmq.spark.source.options import stream_read_options
from flintmq.spark.source.queue_source import EVERYTHING, DataLost, QueueSource
from flintmq.spark.source.reader import IDLE_SECONDS, StreamReader

pytestmark = pytest.mark.usefixtures("slept")

ALL = ReadAllAvailable()


class Given(QueueSource):
    """A queue whose end is each of `ends`, one after the other, the last for ever."""

    def __init__(self, *ends: int, first: int = 0) -> None:
        self.ends = [*ends]
        self.first = first
        self.resumed: list[int] = []
        self.sizes: list[int] = []

    def start(self) -> int:
        return self.first

    def resume(self, offset: int, lease: int) -> int:
        self.resumed.append(offset)
        return max(offset, self.first)

    def end(self) -> int:
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]

    def extend(self, start: int, messages: int, size: int) -> int:
        self.sizes.append(size)
        return start + messages


class Reader(StreamReader):
    """Asks no broker."""

    def __init__(self, *ends: int, first: int = 0, **options: str) -> None:
        super().__init__(stream_read_options({"url": "amqp://h/", "queue": "q", **options}), read_schema(MESSAGE))
        self.sources: dict[str, QueueSource] = {"q": Given(*ends, first=first)} if ends else {}

    def _sources(self) -> dict[str, QueueSource]:
        return self.sources


def at(offset: int) -> Offset:
    return saved_offset({"q": offset})


def upto(since: int, offset: int) -> Offset:
    return batch_end({"q": since}, {"q": offset})


def test_all_there_is(slept: list[float]) -> None:
    """Without a limit a micro-batch ends where the queue does, and nobody waits."""
    assert Reader(30).latestOffset(at(10), ALL) == upto(10, 30)
    assert slept == []


@pytest.mark.parametrize(("limit", "end"), [(ReadMaxRows(5), 15), (ReadMaxRows(500), 30)])
def test_limited(limit: ReadLimit, end: int) -> None:
    """A limit is kept."""
    assert Reader(30).latestOffset(at(10), limit) == upto(10, end)


def test_the_limit_of_the_options() -> None:
    """maxMessagesPerTrigger is the limit that Spark is told; maxBytesPerTrigger is for the queue to keep."""
    assert Reader(0, maxMessagesPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert Reader(0).getDefaultReadLimit() == ALL
    for reader, size in ((Reader(30), EVERYTHING), (Reader(30, maxBytesPerTrigger="1000"), 1000)):
        reader.latestOffset(at(10), ALL)
        source = reader.sources["q"]
        assert isinstance(source, Given)
        assert source.sizes == [size]


def test_what_spark_has(slept: list[float]) -> None:
    """A queue learns what Spark has by being asked for more, also when there is no more."""
    source = Given(10)
    reader = Reader()
    reader.sources = {"q": source}
    reader.latestOffset(upto(3, 10), ALL)
    assert source.resumed == [10]


def test_nothing_new(slept: list[float]) -> None:
    """Without new messages, the answer waits a while, and is then the unchanged offset."""
    start = upto(3, 10)
    assert Reader(10).latestOffset(start, ALL) == start
    assert sum(slept) == pytest.approx(IDLE_SECONDS, abs=0.03)


def test_a_queue_that_gives_nothing(slept: list[float]) -> None:
    """If messages cannot be leased, the answer waits, too; with availableNow, the query ends."""

    class Paused(Given):
        def extend(self, start: int, messages: int, size: int) -> int:
            return start

    for is_to_end, pause in ((False, IDLE_SECONDS), (True, 0)):
        slept.clear()
        reader = Reader()
        reader.sources = {"q": Paused(30)}
        if is_to_end:
            reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(at(10), ALL) == at(10)
        assert sum(slept) == pause


def test_news_end_the_wait(slept: list[float]) -> None:
    """A message that comes while an answer waits is in that answer."""
    assert Reader(10, 10, 11).latestOffset(at(10), ALL) == upto(10, 11)
    assert 0 < sum(slept) < IDLE_SECONDS


def test_a_window(slept: list[float]) -> None:
    """Fewer messages than a micro-batch is to have are left there until its time has come; enough of them are taken."""
    few = Reader(15, minMessagesPerTrigger="10", maxTriggerDelay="2s")
    while few.latestOffset(at(10), ALL) == at(10):
        assert sum(slept) < 3
    assert sum(slept) == pytest.approx(2, abs=0.1)
    enough = Reader(15, 20, minMessagesPerTrigger="10", maxTriggerDelay="2s")
    assert enough.latestOffset(at(10), ALL) == upto(10, 20)
    assert sum(slept) < 2.2


class Losing(Given):
    """A queue that is lost while a query waits at it, and is there again."""

    def __init__(self, losses: int) -> None:
        super().__init__(30)
        self.losses = losses

    def end(self) -> int:
        if self.losses:
            self.losses -= 1
            raise DataLost("gone")
        return super().end()


def test_a_loss_while_it_waits(slept: list[float]) -> None:
    """If losing messages is allowed, the query continues with those that exist; otherwise it fails."""
    lenient = Reader(failOnDataLoss="false")
    lenient.sources = {"q": Losing(2)}
    assert lenient.latestOffset(upto(3, 10), ALL) == upto(10, 30)
    lenient.sources = {"q": Losing(1)}
    assert lenient.reportLatestOffset() == {"offsets": {}}
    strict = Reader()
    strict.sources = {"q": Losing(1)}
    with pytest.raises(DataLost, match="gone"):
        strict.latestOffset(upto(3, 10), ALL)
    strict.sources = {"q": Losing(1)}
    with pytest.raises(DataLost, match="gone"):
        strict.reportLatestOffset()
    for_good = Reader(failOnDataLoss="false")
    for_good.sources = {"q": Losing(9)}
    with pytest.raises(DataLost, match="gone"):
        for_good.latestOffset(upto(3, 10), ALL)


def test_a_queue_that_is_made_anew_while_it_waits(slept: list[float]) -> None:
    """No batch has the offsets of one stream and the number of another."""

    class Anew(Given):
        """The stream that is there, one after the other."""

        which = 1

        @property
        def number(self) -> int:
            return self.which

        def resume(self, offset: int, number: int) -> int:
            return offset if number == self.which else 0

        def extend(self, start: int, messages: int, size: int) -> int:
            self.which = 2
            return super().extend(start, messages, size)

    reader = Reader()
    reader.sources = {"q": Anew(30)}
    end = reader.latestOffset(batch_end({"q": 3}, {"q": 10}, streams={"q": 1}), ALL)
    assert end == batch_end({"q": 0}, {"q": 30}, streams={"q": 2})


def test_a_checkpoint_that_falls_behind() -> None:
    """A batch of a lease is planned only when Spark has told that it has the one before, if that was planned here."""
    first, second = (batch_end({"q": at}, {"q": at + 5}, leases={"q": 7}) for at in (0, 5))
    reader = Reader(0)
    assert len(reader.partitions(at(0), first)) == 1
    with pytest.raises(ConfigurationError, match="asyncProgressTrackingEnabled"):
        reader.partitions(first, second)
    reader.commit(first)
    assert len(reader.partitions(first, second)) == len(reader.partitions(first, second)) == 1
    assert reader.partitions(second, second) == []
    after_a_restart = Reader(0)
    assert len(after_a_restart.partitions(first, second)) == 1
    streams = Reader(0)
    assert len(streams.partitions(at(0), upto(0, 5))) == len(streams.partitions(upto(0, 5), upto(5, 9))) == 1


def test_available_now(slept: list[float]) -> None:
    """A query that is to end takes what was there when it began, in steps, and does not wait for more."""
    reader = Reader(30, 99)
    reader.prepareForTriggerAvailableNow()
    start = at(10)
    seen = []
    while (end := reader.latestOffset(start, ReadMaxRows(15))) != start:
        seen.append(end["offsets"]["q"])
        start = end
    assert seen == [25, 30]
    assert slept == []


def test_going_on_elsewhere() -> None:
    """A batch begins after lost messages, and the offset is kept if the batch is empty."""
    reader = Reader(30, first=20)
    end = reader.latestOffset(at(10), ALL)
    assert reader.partitions(at(10), end) == [OffsetRange("q", 0, 20, 30)]
    assert Reader(20, first=20).latestOffset(at(10), ALL) == upto(20, 20)


def test_where_it_begins_stays() -> None:
    """Spark asks before each trigger until there is a batch: what comes meanwhile is not skipped by "latest"."""
    reader = Reader(20, first=20)
    assert reader.initialOffset() == at(20)
    reader.sources["q"] = Given(25, first=25)
    assert reader.initialOffset() == at(20)


def test_several_queues() -> None:
    """A limit is shared out by what waits on each queue, and each has partitions of its own."""
    reader = Reader(queue="a,b,c", maxMessagesPerPartition="10")
    reader.sources = {"a": Given(40), "b": Given(5), "c": Given(17, first=7)}
    start = reader.initialOffset()
    assert start == saved_offset({"a": 0, "b": 0, "c": 7})
    end = reader.latestOffset(start, ReadMaxRows(11))
    assert end == batch_end({"a": 0, "b": 0, "c": 7}, {"a": 8, "b": 1, "c": 9})
    assert reader.partitions(start, end) == [
        OffsetRange("a", 0, 0, 8),
        OffsetRange("b", 1, 0, 1),
        OffsetRange("c", 2, 7, 9),
    ]


def test_a_queue_that_was_added() -> None:
    """A query that gets one more queue reads it from where the options say."""
    reader = Reader(queue="a,b")
    reader.sources = {"a": Given(10), "b": Given(5, first=2)}
    assert reader.latestOffset(saved_offset({"a": 3}), ALL) == batch_end({"a": 3, "b": 2}, {"a": 10, "b": 5})


def test_partitions() -> None:
    """A micro-batch is cut as the options say; an empty one has no partition."""
    reader = Reader(0, minPartitions="2", maxMessagesPerPartition="4")
    parts = [OffsetRange("q", 0, 0, 3), OffsetRange("q", 0, 3, 6), OffsetRange("q", 0, 6, 10)]
    assert reader.partitions(at(0), upto(0, 10)) == parts
    assert reader.partitions(upto(0, 10), upto(0, 10)) == []


def test_generations_travel_with_partitions() -> None:
    """Each task knows which lease or stream its offsets belong to, however a batch is cut."""
    reader = Reader(0, maxMessagesPerPartition="5")
    end = batch_end({"q": 0}, {"q": 10}, leases={"q": 7})
    assert reader.partitions(at(0), end) == [
        OffsetRange("q", 0, 0, 5, is_leased=True, generation=7),
        OffsetRange("q", 0, 5, 10, is_leased=True, generation=7),
    ]


def test_reported_end() -> None:
    """The place Spark's progress shows is the queue's end, whatever the limit."""
    assert Reader(30).reportLatestOffset() == at(30)
