"""Detection of missing journal segments.

The header of each segment names the previous segment, as its `extra` (0: there was none, or the file has format 3,
which does not name it). Only the oldest segments are ever removed, so of two neighbours the later one names the earlier
one.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

# The damage of a last segment without a seal, if the definitions say that a clean stop ended it.
END_IS_MISSING: Final = "the end of the file is missing, which it had when the broker stopped"


def missing_between(numbers: Sequence[int], previous: Callable[[int], int]) -> list[tuple[int, str]]:
    """The missing segments between the segments `numbers`, in ascending order: number, and reason.

    `previous` returns the previous segment that the header of a segment names; 0 if unknown.
    """
    found: list[tuple[int, str]] = []
    for earlier, later in pairwise(numbers):
        named = previous(later)
        if named > earlier:
            more = f", and others behind segment {earlier} may be" if named > earlier + 1 else ""
            found.append((named, f"the segment is missing{more}: segment {later} was written behind it"))
    return found


def missing_behind(numbers: Sequence[int], written: int) -> list[tuple[int, str]]:
    """The missing segment after the last of `numbers`: number, and reason. `written` is the newest segment that the
    definitions record as written; 0 if unknown.
    """
    if numbers and numbers[-1] >= written:
        return []
    last = numbers[-1] if numbers else 0
    more = f", and others behind segment {last} may be" if written > last + 1 else ""
    return [(written, f"the segment is missing{more}: the definitions say that it was written to")] if written else []
