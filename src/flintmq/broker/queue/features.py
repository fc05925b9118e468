"""Features: what a queue can do beside keeping entries in order, each an object that hears of an entry's life.

A plain queue has none. A queue asks its features once, whenever one comes or goes, of which events they have to hear,
and keeps those that do by event: an event that no feature hears costs one branch.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64, trait

from flintmq.broker.message import Entry

# An entry is taken, becomes ready, or is ready again.
COMING: Final = 1
# An entry is not ready any more.
LEAVING: Final = 2
# An acquired entry comes back, or an entry leaves the queue for good.
SETTLEMENT: Final = 4


@trait
class Feature:
    @abstractmethod
    def hears(self) -> int:
        """The events it has to hear of: COMING, LEAVING and SETTLEMENT, added up."""

    # -- COMING -------------------------------------------------------------------------------------------------

    def taken(self, entry: Entry, now_ms: i64) -> None:
        """The queue takes an entry: it was published, or comes by a commit."""

    def restored(self, entry: Entry, is_outside: bool) -> None:
        """At start-up: an entry is back. With `is_outside`, it is acquired or paused."""

    def ready(self, entry: Entry) -> bool:
        """An entry becomes ready for the first time; False if it is not to, and has left the queue instead."""
        return True

    def ready_again(self, entry: Entry) -> bool:
        """An entry that was acquired becomes ready; False if it is not to, and has left the queue instead."""
        return True

    # -- LEAVING ------------------------------------------------------------------------------------------------

    def left(self, entry: Entry) -> None:
        """An entry is not ready any more: it was acquired, or removed."""

    def page_left(self) -> None:
        """Entries that were packed are not ready any more."""

    # -- SETTLEMENT ---------------------------------------------------------------------------------------------

    def returned(self, entry: Entry) -> bool:
        """An acquired entry comes back; False if it is not to, and has left the queue instead."""
        return True

    def retired(self, entry: Entry) -> None:
        """An entry is in no consumer's hands and will not be ready again: it is a dead letter, or settled.

        One that is a dead letter first is told twice.
        """

    def settled(self, entry: Entry) -> None:
        """An entry leaves the queue for good, right before the journal is told."""


@final
class AwaitedRoom(Feature):
    """Dead letters that the queue refused wait for room: `tell` is called when something leaves it."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def hears(self) -> int:
        return LEAVING

    def left(self, entry: Entry) -> None:
        self._tell()

    def page_left(self) -> None:
        self._tell()
