"""Whose the numbers of a queue are at start-up: notes of leases, termini and stages say so before its entries come."""

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from mypy_extensions import i64, trait

from flintmq.broker.message import Entry
from flintmq.broker.queue.runs import Runs

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue


@trait
class EntryHolder:
    """Keeps acquired entries of a queue for a client that may come back for them."""

    @abstractmethod
    def queue_gone(self, queue: "Queue") -> None:
        """The queue is deleted: settle what is held of it."""

    @abstractmethod
    def claimed(self, queue: "Queue", entry: Entry) -> None:
        """At start-up: take an entry that was claimed from the queue."""


@trait
class SequenceReservation:
    """Has reserved numbers of a queue, for messages that come to it later."""

    @abstractmethod
    def found(self, entry: Entry) -> None:
        """At start-up: take an entry that the journal has under a reserved number."""


@final
class SequenceOwners:
    """The numbers that are claimed by holders of acquired entries, and those that are reserved."""

    def __init__(self) -> None:
        self._claims: Runs[EntryHolder] = Runs()
        self._reservations: Runs[SequenceReservation] = Runs()

    def claim(self, first: i64, count: i64, holder: EntryHolder) -> None:
        """The entries with these numbers are acquired, and go to their holder."""
        self._claims.add(first, count, holder)

    def reserve(self, first: i64, count: i64, reservation: SequenceReservation) -> None:
        """These numbers are reserved, and no other message gets one of them."""
        self._reservations.add(first, count, reservation)

    def holder_of(self, seq: i64) -> EntryHolder | None:
        run = self._claims.find(seq) if self._claims else None
        return None if run is None else run.value

    def reservation_of(self, seq: i64) -> SequenceReservation | None:
        run = self._reservations.find(seq) if self._reservations else None
        return None if run is None else run.value

    @property
    def end(self) -> i64:
        """The number behind all of these: notes speak of them, whether their messages were kept or not."""
        return max(self._claims.end, self._reservations.end)
