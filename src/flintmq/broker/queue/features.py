"""Features of queues beyond keeping entries in order: each is an object that is told of events in an entry's life.

A plain queue has none. When a feature is added or removed, the queue asks all of them which events they hear, and keeps
them by event. So an event that no feature hears costs one branch.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64, trait

from flintmq.broker.message import Entry

# An entry is taken, becomes ready, or is ready again.
COMING: Final = 1
# An entry is no longer ready.
LEAVING: Final = 2
# An acquired entry comes back, or an entry leaves the queue for good.
SETTLEMENT: Final = 4


@trait
class Feature:
    @abstractmethod
    def hears(self) -> int:
        """The events that the feature is told of: the sum of COMING, LEAVING and SETTLEMENT."""

    # -- COMING -------------------------------------------------------------------------------------------------

    def taken(self, entry: Entry, now_ms: i64) -> None:
        """The queue takes an entry, which was published directly or by a commit."""

    def restored(self, entry: Entry, is_outside: bool) -> None:
        """At start-up: an entry is restored. With `is_outside`, it is acquired or paused."""

    def ready(self, entry: Entry) -> bool:
        """An entry becomes ready for the first time. Returns False if it has left the queue instead."""
        return True

    def ready_again(self, entry: Entry) -> bool:
        """An entry that was acquired becomes ready again. Returns False if it has left the queue instead."""
        return True

    # -- LEAVING ------------------------------------------------------------------------------------------------

    def left(self, entry: Entry) -> None:
        """An entry is no longer ready: it was acquired, or removed."""

    def page_left(self) -> None:
        """Packed entries are no longer ready."""

    # -- SETTLEMENT ---------------------------------------------------------------------------------------------

    def returned(self, entry: Entry) -> bool:
        """An acquired entry comes back. Returns False if it has left the queue instead."""
        return True

    def retired(self, entry: Entry) -> None:
        """No consumer has the entry, and it will not be ready again: it is a dead letter, or settled.

        This is told twice for a dead letter: when it becomes one, and when it is settled.
        """

    def settled(self, entry: Entry) -> None:
        """An entry leaves the queue for good. The journal is told directly after this."""


@final
class AwaitedRoom(Feature):
    """Calls `tell` when an entry leaves the queue: dead letters that it refused wait for room."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def hears(self) -> int:
        return LEAVING

    def left(self, entry: Entry) -> None:
        self._tell()

    def page_left(self) -> None:
        self._tell()
