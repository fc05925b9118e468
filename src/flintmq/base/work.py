"""The meter of work: code whose cost exceeds the bytes that caused it adds units here.

A unit is about the cost of adding a message to one more queue, half a microsecond. The caller reads the meter before
and after: a connection pays for everything that is done while its frames are read, and a dispatch stops when it has
used its share. So the code that works need not know who caused the work, or who pays for it.

There is one meter per process, because one thread does the work. Brokers in several threads of one program may pay for
each other's work.
"""

from typing import Final, final

from mypy_extensions import i64

_NO_LIMIT: Final = 2**62


@final
class Work:
    """The meter. `spent` is the sum of all units; no new work may begin when it exceeds `limit`."""

    def __init__(self) -> None:
        self.spent: i64 = 0
        self.limit: i64 = _NO_LIMIT

    def begin(self, most: i64) -> i64:
        """Allow at most `most` more units, or fewer if an outer limit is lower; return the outer limit, for `end`."""
        before = self.limit
        self.limit = min(before, self.spent + most)
        return before

    def end(self, before: i64) -> None:
        """Restore the limit that `begin` returned."""
        self.limit = before

    def is_over(self) -> bool:
        """Tell whether the limit is exceeded."""
        return self.spent > self.limit


WORK: Final = Work()
