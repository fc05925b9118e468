"""The meter of work: what costs more than the bytes that asked for it adds units here, wherever it is done.

A unit is about what it takes to put a message on one more queue, half a microsecond. Whoever hands work out looks at
the meter before and after: a connection pays for all that is done while its frames are read, and a dispatch stops when
it has spent its share. So the code that does the work needs to know neither who asked for it nor who pays.

There is one meter in a process, as one thread does the work. Brokers in several threads of one program may pay for each
other.
"""

from typing import Final, final

from mypy_extensions import i64

_NO_LIMIT: Final = 2**62


@final
class Work:
    """`spent` are all units there ever were; `limit` is where nothing more is to be begun."""

    def __init__(self) -> None:
        self.spent: i64 = 0
        self.limit: i64 = _NO_LIMIT

    def begin(self, most: i64) -> i64:
        """From now on so many units may be spent, or fewer where less is left of an earlier limit; returns that one."""
        before = self.limit
        self.limit = min(before, self.spent + most)
        return before

    def end(self, before: i64) -> None:
        """The limit of before holds again."""
        self.limit = before

    def is_over(self) -> bool:
        """Whether more was spent than the limit."""
        return self.spent > self.limit


WORK: Final = Work()
