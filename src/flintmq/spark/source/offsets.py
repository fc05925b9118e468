"""Offsets as Spark keeps them in its checkpoint, and the division of ranges of offsets into partitions.

An offset is {"offsets": {queue: the next message to read}}. The end of a micro-batch also has "since": the start of the
micro-batch. Spark's log has the end of the first micro-batch but not its start, and Spark asks for the start again
after a failure. The start "latest" would then be a later one, and messages would be skipped.

"leases" has the numbers of the leases of ordinary queues, and "streams" the numbers of streams, because the offsets of
another lease or stream of the same name count from 0 again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from flintmq.base.errors import ConfigurationError

Offset = dict[str, dict[str, int]]


@dataclass
class OffsetRange(InputPartition):
    """The messages that one task reads from a stream or a lease: `start` up to, not including, `end`.

    `partition` is the queue's place in the option queue. `generation` is the number of the lease or stream; 0 if it is
    not known.
    """

    queue: str
    partition: int
    start: int
    end: int
    is_leased: bool = False
    generation: int = 0


def saved_offset(offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> Offset:
    """The offset of these queues. `numbers` are the entries "leases" and "streams"; empty ones are left out."""
    return {"offsets": dict(offsets), **{which: dict(found) for which, found in numbers.items() if found}}


def batch_end(since: Mapping[str, int], offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> Offset:
    """The offset at which a micro-batch ends that began at the offsets `since`."""
    return {**saved_offset(offsets, **numbers), "since": dict(since)}


def is_at(saved: Offset, offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> bool:
    """Whether `saved` has these offsets, of the same leases and streams; "since" is ignored."""
    return {key: value for key, value in saved.items() if key != "since"} == saved_offset(offsets, **numbers)


def is_batch_end(saved: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether a micro-batch ends at this offset; if not, it is an initial offset."""
    return "since" in saved


def leases_of(saved: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """The number of the lease of each ordinary queue."""
    return saved.get("leases", {})


def numbers_of(saved: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The number of the lease or stream of each queue, if the checkpoint has it."""
    return {**saved.get("streams", {}), **leases_of(saved)}


def offsets_of(saved: Mapping[str, Mapping[str, int]], queues: Iterable[str]) -> dict[str, int]:
    """The next offset of each queue in `saved`. Raises ConfigurationError if one of them is not among `queues`."""
    offsets = saved.get("offsets", {})
    chosen = [*queues]
    for queue in offsets:
        if queue not in chosen:
            raise ConfigurationError(
                f"the checkpoint is of queue {', '.join(offsets)} and the option queue is {', '.join(chosen)}: queues "
                "can be added to a query, but not removed; for other queues, start with a new checkpoint location"
            )
    return dict(offsets)


def batch_ranges(start: Offset, end: Offset) -> dict[str, tuple[int, int]]:
    """The first offset and the end of a micro-batch in each queue; no queues if it is empty."""
    if start == end:
        return {}
    return _ranges(end, end.get("since", start["offsets"]))


def ranges_before(saved: Offset) -> dict[str, tuple[int, int]]:
    """The first offset and the end, in each queue, of the micro-batch that ends at this offset; none without one."""
    return _ranges(saved, saved["since"]) if is_batch_end(saved) else {}


def _ranges(end: Offset, since: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {queue: (since.get(queue, stop), stop) for queue, stop in end["offsets"].items()}


def split(ranges: Iterable[OffsetRange], at_least: int, most_messages: int) -> list[OffsetRange]:
    """Divide ranges into parts of nearly the same size, in order.

    There are about `at_least` parts if there are enough messages, and no part has more than `most_messages`.
    """
    wholes = [whole for whole in ranges if whole.end > whole.start]
    total = sum(whole.end - whole.start for whole in wholes)
    found: list[OffsetRange] = []
    for whole in wholes:
        count = whole.end - whole.start
        parts = min(max(-(-at_least * count // total), -(-count // most_messages)), count)
        edges = [whole.start + count * part // parts for part in range(parts + 1)]
        found += [replace(whole, start=first, end=stop) for first, stop in pairwise(edges)]
    return found


def shares(wanted: Mapping[str, int], most: int) -> dict[str, int]:
    """Divide `most` in proportion to what each name wants. None gets more than it wants, and nothing is left over."""
    total = sum(wanted.values())
    if total <= most:
        return dict(wanted)
    found = {name: most * want // total for name, want in wanted.items()}
    left = most - sum(found.values())
    for name, want in wanted.items():
        more = min(left, want - found[name], 1)
        found[name] += more
        left -= more
    return found


def proportions(wanted: Mapping[str, int], whole: int) -> dict[str, int]:
    """Divide `whole` in proportion to what each name wants, with at least 1 for each."""
    total = max(sum(wanted.values()), 1)
    return {name: max(whole * want // total, 1) for name, want in wanted.items()}
