"""Places in a stream as Spark keeps them in its checkpoint, and how a range of offsets becomes partitions.

A place is {"queue": name, "offset": the next message to read}; where a micro-batch ends, also "since": where it began.
Spark's log has the end of the first micro-batch but not its start, and asks for the start again after a failure: by
then "latest" is somewhere else, and the messages between would be skipped. So the end remembers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from flintmq.base.errors import ConfigurationError

Place = dict[str, str | int]


@dataclass
class OffsetRange(InputPartition):
    """The messages of one task: from `start` up to, not including, `end`."""

    start: int
    end: int


def place(queue: str, offset: int) -> Place:
    return {"queue": queue, "offset": offset}


def batch_end(queue: str, since: int, offset: int) -> Place:
    return {"queue": queue, "since": since, "offset": offset}


def offset_of(saved: Mapping[str, str | int], queue: str) -> int:
    """The next message to read. Raises ConfigurationError for a place in another queue."""
    if saved.get("queue") != queue:
        raise ConfigurationError(
            f"the checkpoint is of queue {saved.get('queue')!r} and the option queue says {queue!r}: a query keeps its "
            "queue; start with a new checkpoint location"
        )
    return int(saved["offset"])


def batch_range(start: Place, end: Place, queue: str) -> tuple[int, int]:
    """First offset and end of a micro-batch; equal when it is empty."""
    stop = offset_of(end, queue)
    if start == end:
        return stop, stop
    return int(end.get("since", offset_of(start, queue))), stop


def split(start: int, end: int, at_least: int, most_messages: int) -> list[OffsetRange]:
    """Ranges of nearly the same size, in order: `at_least` so many, as far as there are messages."""
    count = end - start
    parts = min(max(at_least, -(-count // most_messages)), count)
    edges = [start + count * part // parts for part in range(parts + 1)] if parts > 0 else []
    return [OffsetRange(first, last) for first, last in pairwise(edges)]
