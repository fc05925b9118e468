"""Segments of the journal that should be there and are not.

Each segment's header names the one that was before it when it was made, as its `extra` (0: none, or a file of format 3,
which does not say). Only the oldest are ever removed, so of two that are there the later one names the earlier one.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

# Of the last segment, where the definitions say that a clean stop has ended it.
END_IS_MISSING: Final = "the end of the file is missing, which it had when the broker stopped"


def missing_between(numbers: Sequence[int], previous: Callable[[int], int]) -> list[tuple[int, str]]:
    """Of these segments, in order, those that are named and missing: the number, and a reason that says more.

    `previous` is what a segment's header names; 0 where that is not known.
    """
    found: list[tuple[int, str]] = []
    for earlier, later in pairwise(numbers):
        named = previous(later)
        if named > earlier:
            more = f", and others behind segment {earlier} may be" if named > earlier + 1 else ""
            found.append((named, f"the segment is missing{more}: segment {later} was written behind it"))
    return found


def missing_behind(numbers: Sequence[int], written: int) -> list[tuple[int, str]]:
    """`written` is the newest segment that the definitions know to hold something; 0 where they do not say."""
    if numbers and numbers[-1] >= written:
        return []
    last = numbers[-1] if numbers else 0
    more = f", and others behind segment {last} may be" if written > last + 1 else ""
    return [(written, f"the segment is missing{more}: the definitions say that it was written to")] if written else []
