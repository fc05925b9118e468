"""A stream as a reader sees it: bounds, ranges, and what is done about messages that are gone."""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.source.options import EARLIEST, batch_read_options
from flintmq.spark.source.queue_source import EVERYTHING, DataLost
from flintmq.spark.source.stream import Stream

T = TypeVar("T")


class Log:
    """A broker's stream of one-byte messages, in place of a channel and its connection. A fetch gives three."""

    def __init__(self, first: int, end: int, damaged: frozenset[int] = frozenset()) -> None:
        self._first = first
        self._end = end
        self._damaged = damaged
        self.number = 1

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        return operation(cast(fc.Channel, self))

    def stream_span(self, queue: str, offset: int, end_offset: int, max_bytes: int) -> int:
        return min(offset + max_bytes, end_offset)

    def stream_query(self, queue: str, timestamp_ms: int) -> fc.StreamInfo:
        return fc.StreamInfo(
            self._first, self._end, min(max(timestamp_ms // 1000, self._first), self._end), self.number
        )

    def stream_chunks(self, queue: str, offset: int, end_offset: int, max_bytes: int) -> Iterator[fc.StreamChunk]:
        if offset < self._first:
            raise fc.ChannelClosed(406, "gone")
        stop = min(end_offset, self._end)
        while found := [at for at in range(offset, stop) if at not in self._damaged][:3]:
            following = found[-1] + 1
            yield fc.StreamChunk(offset, following, len(found), bytes(found))
            offset = following


def stream(log: Log, **options: str) -> Stream:
    given = {"url": "amqp://h/", "queue": "q", **options}
    return Stream(cast(ReconnectingClient, log), batch_read_options(given), "q")


def read(log: Log, start: int, end: int, **options: str) -> list[int]:
    return [*b"".join(stream(log, **options).chunks(start, end))]


def test_a_range_in_pieces() -> None:
    """A range is fetched piece by piece, and nothing outside of it."""
    assert read(Log(0, 20), 2, 11) == list(range(2, 11))
    assert read(Log(0, 20), 5, 5) == []


@pytest.mark.parametrize(
    ("log", "start", "end", "left"),
    [
        (Log(5, 20), 2, 8, [5, 6, 7]),
        (Log(15, 20), 2, 8, []),
        (Log(0, 5), 2, 8, [2, 3, 4]),
        (Log(0, 20, frozenset({4, 5})), 2, 8, [2, 3, 6, 7]),
        (Log(0, 20, frozenset({6, 7})), 2, 8, [2, 3, 4, 5]),
    ],
    ids=["retention", "retention of all", "made anew", "damage within", "damage at the end"],
)
def test_messages_that_are_gone(log: Log, start: int, end: int, left: list[int]) -> None:
    """A range with messages missing, however they went, fails; or gives the rest where that was allowed."""
    assert read(log, start, end, failOnDataLoss="false") == left
    with pytest.raises(DataLost, match="failOnDataLoss"):
        read(log, start, end)


def test_other_refusals() -> None:
    """Other errors of the broker are errors of the reader."""

    class Gone(Log):
        def stream_chunks(self, queue: str, offset: int, end_offset: int, max_bytes: int) -> Iterator[fc.StreamChunk]:
            raise fc.ChannelClosed(404, "no queue 'q'")

    with pytest.raises(FlintError, match="404 no queue 'q'"):
        read(Gone(0, 5), 0, 5, failOnDataLoss="false")


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({}, 5, 20),
        ({"startingOffsets": "latest"}, 20, 20),
        ({"startingOffsets": "7", "endingOffsets": "9"}, 7, 9),
        ({"startingOffsets": "20"}, 20, 20),
        ({"startingOffsetsByTimestamp": "8500", "endingOffsetsByTimestamp": "11000"}, 8, 11),
        ({"startingOffsetsByTimestamp": "0"}, 5, 20),
        ({"startingOffsets": "2", "failOnDataLoss": "false"}, 5, 20),
    ],
)
def test_bounds(options: dict[str, str], start: int, end: int) -> None:
    """A read starts and ends at a word, an offset or a time."""
    chosen = stream(Log(5, 20), **options)
    assert (chosen.starting(EARLIEST), chosen.ending()) == (start, end)


def test_bounds_that_are_not_there() -> None:
    """An offset the stream does not have yet, or any more, is refused."""
    with pytest.raises(ConfigurationError, match=r"startingOffsets is 21, and the stream 'q' ends at 20"):
        stream(Log(5, 20), startingOffsets="21").start()
    with pytest.raises(DataLost, match="3 of the messages 2 to 4"):
        stream(Log(5, 20), startingOffsets="2").start()


def test_going_on() -> None:
    """A micro-batch goes on where the last one ended, by messages, bytes or what there is."""
    log = stream(Log(5, 20))
    assert (log.start(), log.resume(7, 0), log.end()) == (20, 7, 20)
    assert log.extend(7, 4, EVERYTHING) == 11
    assert log.extend(7, 99, EVERYTHING) == 20
    assert log.extend(7, 99, 3) == 10
    assert log.extend(20, 99, 3) == 20


def test_going_on_without_what_is_gone() -> None:
    """A place that retention passed, or that another stream of the name has not reached, is an error unless allowed."""
    with pytest.raises(DataLost, match="3 of the messages 2 to 4 of stream 'q' are gone"):
        stream(Log(5, 20)).resume(2, 0)
    with pytest.raises(
        DataLost, match="was deleted and declared again: it ends at offset 20, and the earlier stream was read up to 21"
    ):
        stream(Log(5, 20)).resume(21, 0)
    assert stream(Log(5, 20), failOnDataLoss="false").resume(2, 0) == 5
    assert stream(Log(5, 20), failOnDataLoss="false").resume(21, 0) == 5


def test_a_stream_of_the_same_name() -> None:
    """A stream that was declared again is not continued, and a batch of the earlier stream is not read."""
    log = Log(0, 20)
    source = stream(log)
    number = source.number
    assert (source.resume(5, number), source.resume(5, 0), source.available(number, 5, 9)) == (5, 5, (5, 9))
    log.number = 2
    for act in (source.resume, lambda offset, number: source.available(number, offset, 9)):
        with pytest.raises(DataLost, match="was deleted and declared again"):
            act(5, number)
    lenient = stream(log, failOnDataLoss="false")
    assert (lenient.resume(5, number), lenient.available(number, 5, 9)) == (0, (9, 9))
