"""What a broker owes after a crash, kept by the clients: per queue, what became of every message they know of.

A message is known by its name, `<publisher>-<number>`; numbers of one publisher grow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

# How many of a kind a failure lists.
_SHOWN = 5


class Fate(Enum):
    """Where a message of a queue is."""

    SENT = "sent, and not confirmed: it may be there or not"
    DUE = "confirmed, or seen after a crash: it has to be there"
    ACKED = "acknowledged, and nothing said that this was synced: it may come back"
    GONE = "acknowledged and synced, or missing after a crash: it must not come back"


class LedgerError(AssertionError):
    """The broker broke a promise; the text says which, of which queue, and about which messages."""


@dataclass(frozen=True)
class Seen:
    """A message as a client got it."""

    name: str
    redelivered: bool


@dataclass
class QueueLedger:
    """A queue. What happened between two crashes is entered in the order of the methods below."""

    queue: str
    fates: dict[str, Fate] = field(default_factory=dict)
    # Delivered at least once, so that every other time must be marked as such.
    _delivered: set[str] = field(default_factory=set)
    # What the last look found, in that order.
    _looked: list[str] = field(default_factory=list)

    def sent(self, names: Iterable[str]) -> None:
        for name in names:
            assert name not in self.fates, f"{name} is sent twice: a fault of the test"
            self.fates[name] = Fate.SENT

    def confirmed(self, names: Iterable[str]) -> None:
        for name in names:
            if self.fates[name] is Fate.SENT:
                self.fates[name] = Fate.DUE

    def delivered(self, seen: Sequence[Seen]) -> None:
        """What consumers got, in this order."""
        self._fail_on("came back after it was settled", [s.name for s in seen if self.fates.get(s.name) is Fate.GONE])
        self._fail_on("was never published", [s.name for s in seen if s.name not in self.fates])
        first = []
        for message in seen:
            if not message.redelivered:
                first.append(message.name)
                self._fail_on("came twice, not marked as redelivered", self._delivered & {message.name})
            self._delivered.add(message.name)
        self._check_order(first)

    def acked(self, names: Iterable[str], synced: int) -> None:
        """Acknowledgements that were sent; the first `synced` of them are known to be on the disk."""
        for place, name in enumerate(names):
            self.fates[name] = Fate.GONE if place < synced else Fate.ACKED

    def looked(self, seen: Sequence[Seen], lost: Iterable[str] = (), *, after_crash: bool = True) -> None:
        """All that is on the queue after a restart, in order. `lost` are messages that were not to survive it.

        After a crash every message is marked as redelivered, and after a stop in order those that were delivered.
        """
        for name in lost:
            self.fates[name] = Fate.GONE
        names = [message.name for message in seen]
        there = set(names)
        if len(there) < len(names):
            self._fail_on("is there more than once", [name for name in there if names.count(name) > 1])
        self._fail_on("was never published", there - self.fates.keys())
        self._fail_on("came back after it was settled", [name for name in names if self.fates[name] is Fate.GONE])
        due = [name for name, fate in self.fates.items() if fate is Fate.DUE]
        self._fail_on("was confirmed and is lost", [name for name in due if name not in there])
        unmarked = [message.name for message in seen if not message.redelivered]
        wrong = unmarked if after_crash else [name for name in unmarked if name in self._delivered]
        self._fail_on("is not marked as redelivered", wrong)
        self._check_order(names)
        before = [name for name in self._looked if name in there]
        again = set(before)
        if [name for name in names if name in again] != before:
            raise LedgerError(f"{self.queue}: the order is not the one that was found before")
        # A crash decides what was open: what is there is on the disk, and what is not was never, or is settled.
        for name, fate in self.fates.items():
            if fate is not Fate.GONE:
                self.fates[name] = Fate.DUE if name in there else Fate.GONE
        self._looked = names

    @property
    def due(self) -> set[str]:
        return {name for name, fate in self.fates.items() if fate is Fate.DUE}

    def _check_order(self, names: Iterable[str]) -> None:
        """What one publisher sent to a queue stays in its order."""
        highest: dict[str, int] = {}
        for name in names:
            publisher, _, number = name.rpartition("-")
            if int(number) <= highest.get(publisher, -1):
                raise LedgerError(f"{self.queue}: {name} comes behind {publisher}-{highest[publisher]}")
            highest[publisher] = int(number)

    def _fail_on(self, what: str, names: Iterable[str]) -> None:
        found = sorted(names)
        if found:
            shown = ", ".join(f"{name} ({self.fates.get(name, Fate.SENT).value})" for name in found[:_SHOWN])
            raise LedgerError(f"{self.queue}: {len(found)} message(s), each {what}: {shown}")


@dataclass
class StreamLedger:
    """A stream: records stay, so what was read once is read again at its offset."""

    stream: str
    # Name by offset, as found after the last crash.
    records: list[str] = field(default_factory=list)
    _sent: set[str] = field(default_factory=set)
    _due: list[str] = field(default_factory=list)

    def sent(self, names: Iterable[str]) -> None:
        self._sent.update(names)

    def confirmed(self, names: Iterable[str]) -> None:
        self._due += names

    def looked(self, offset: int, names: Sequence[str]) -> None:
        """The records from an offset on to the end, after a restart."""
        known = self.records[offset:]
        if list(names[: len(known)]) != known:
            raise LedgerError(f"{self.stream}: records from offset {offset} on are not what they were")
        self.records += names[len(known) :]
        if len(set(self.records)) < len(self.records):
            raise LedgerError(f"{self.stream}: a record is there twice")
        strangers = set(names) - self._sent
        if strangers:
            raise LedgerError(f"{self.stream}: never published: {sorted(strangers)[:_SHOWN]}")
        lost = set(self._due) - set(self.records)
        if lost:
            raise LedgerError(f"{self.stream}: confirmed and lost: {sorted(lost)[:_SHOWN]}")
        highest: dict[str, int] = {}
        for name in self.records:
            publisher, _, number = name.rpartition("-")
            if int(number) <= highest.get(publisher, -1):
                raise LedgerError(f"{self.stream}: {name} comes behind {publisher}-{highest[publisher]}")
            highest[publisher] = int(number)
        # What was sent and is not there now will never be.
        self._sent &= set(self.records)
        self._due = []
