"""Owners of a queue's sequence numbers at start-up: leases, termini and stages set them before entries are restored."""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from flintmq.broker.message import Entry
from flintmq.broker.queue.base import EntryHolder
from flintmq.broker.queue.runs import Runs


@trait
class SequenceReservation:
    """An object that has reserved numbers of a queue, for messages that come later."""

    @abstractmethod
    def found(self, entry: Entry) -> None:
        """At start-up: take an entry that the journal has under a reserved number."""


@final
class SequenceOwners:
    """The numbers that holders of acquired entries claim, and the reserved ones."""

    def __init__(self) -> None:
        self._claims: Runs[EntryHolder] = Runs()
        self._reservations: Runs[SequenceReservation] = Runs()

    def claim(self, first: i64, count: i64, holder: EntryHolder) -> None:
        """Claim `count` numbers from `first` on: their entries are acquired, and go to the holder."""
        self._claims.add(first, count, holder)

    def reserve(self, first: i64, count: i64, reservation: SequenceReservation) -> None:
        """Reserve `count` numbers from `first` on: no other message gets one of them."""
        self._reservations.add(first, count, reservation)

    def holder_of(self, seq: i64) -> EntryHolder | None:
        run = self._claims.find(seq) if self._claims else None
        return None if run is None else run.value

    def reservation_of(self, seq: i64) -> SequenceReservation | None:
        run = self._reservations.find(seq) if self._reservations else None
        return None if run is None else run.value

    @property
    def has_any(self) -> bool:
        """Whether any number is claimed or reserved."""
        return len(self._claims) > 0 or len(self._reservations) > 0

    @property
    def end(self) -> i64:
        """The number after all of these, whether their messages were stored or not."""
        return max(self._claims.end, self._reservations.end)
