"""Places in queues as Spark keeps them in its checkpoint, and how ranges of offsets become partitions.

A place is {"offsets": {queue: the next message to read}}; where a micro-batch ends, also "since": where it began.
Spark's log has the end of the first micro-batch but not its start, and asks for the start again after a failure: by
then "latest" is somewhere else, and the messages between would be skipped. So the end remembers. "leases" tells which
lease the offsets of an ordinary queue belong to, and "streams" which stream: another one of the same name counts from 0
again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from flintmq.base.errors import ConfigurationError

Offset = dict[str, dict[str, int]]


@dataclass
class OffsetRange(InputPartition):
    """The messages of one task: of a stream, or of a lease, from `start` up to, not including, `end`.

    `partition` is the queue's place in the option, and `generation` the number of the lease or stream; 0: not known.
    """

    queue: str
    partition: int
    start: int
    end: int
    is_leased: bool = False
    generation: int = 0


def saved_offset(offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> Offset:
    """`numbers` are of leases and of streams."""
    return {"offsets": dict(offsets), **{which: dict(found) for which, found in numbers.items() if found}}


def batch_end(since: Mapping[str, int], offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> Offset:
    return {**saved_offset(offsets, **numbers), "since": dict(since)}


def is_at(saved: Offset, offsets: Mapping[str, int], **numbers: Mapping[str, int]) -> bool:
    """Whether a place is that of these offsets, of these leases and streams: offsets of others only look like them."""
    return {key: value for key, value in saved.items() if key != "since"} == saved_offset(offsets, **numbers)


def is_batch_end(saved: Mapping[str, Mapping[str, int]]) -> bool:
    """Or a place before all batches."""
    return "since" in saved


def leases_of(saved: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    return saved.get("leases", {})


def numbers_of(saved: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Of each queue's lease or stream, as far as they are known."""
    return {**saved.get("streams", {}), **leases_of(saved)}


def offsets_of(saved: Mapping[str, Mapping[str, int]], queues: Iterable[str]) -> dict[str, int]:
    """The next message of each queue that the place knows. Raises ConfigurationError for one of another query."""
    offsets = saved.get("offsets", {})
    chosen = [*queues]
    for queue in offsets:
        if queue not in chosen:
            raise ConfigurationError(
                f"the checkpoint is of queue {', '.join(offsets)} and the option queue says {', '.join(chosen)}: a "
                "query keeps its queues, and may get more; for others, start with a new checkpoint location"
            )
    return dict(offsets)


def batch_ranges(start: Offset, end: Offset) -> dict[str, tuple[int, int]]:
    """First offset and end of a micro-batch in each queue; none when it is empty."""
    if start == end:
        return {}
    return _ranges(end, end.get("since", start["offsets"]))


def ranges_before(saved: Offset) -> dict[str, tuple[int, int]]:
    """The same of the micro-batch that ends at this place, if it does."""
    return _ranges(saved, saved["since"]) if is_batch_end(saved) else {}


def _ranges(end: Offset, since: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {queue: (since.get(queue, stop), stop) for queue, stop in end["offsets"].items()}


def split(ranges: Iterable[OffsetRange], at_least: int, most_messages: int) -> list[OffsetRange]:
    """Parts of nearly the same size, in order: about `at_least` so many, as far as there are messages."""
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
    """`most` shared out by what each wants: nobody gets more than that, and nothing is left over that one wants."""
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
    """`whole` shared out by what each wants, at least 1 for each."""
    total = max(sum(wanted.values()), 1)
    return {name: max(whole * want // total, 1) for name, want in wanted.items()}
