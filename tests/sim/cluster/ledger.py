"""What the clients of a simulated cluster know, and what therefore holds on each node that is in sync.

Promised, and checked here:
- A confirmed message, or one of an answered transaction, is on each node that is in sync and whole, whatever its disk
  has lost, until it is acknowledged. So no leader confirms what the next one does not have. Nothing is confirmed while
  too few nodes are in sync.
- What a leader did not have when clients could connect to it, no later leader has, and nobody is told that it is safe.
- A message whose acknowledgement is durable is gone for ever; so is one that was acknowledged in an answered
  transaction.
- Nothing is there twice, or that was not published there.
- What one channel publishes to one queue is in order there, and is delivered in order the first time.
- Whatever was delivered before, by any leader, is flagged as redelivered. A leader gives a message to one consumer.
- A transaction is there as a whole or not at all.
- A record of a stream that was read or confirmed keeps its offset for ever.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from flintmq.broker.message import Entry
from tests.sim.counts import Counts
from tests.sim.ledger import Lost, Unexpected
from tests.sim.messages import plain_content
from tests.sim.node import Node

NUMBER_BYTES: Final = 10


@final
class Figures(Counts):
    """What happened in runs, counted."""

    def __init__(self) -> None:
        self.kills = 0
        self.power_losses = 0
        self.all_powers_lost = 0
        self.stops = 0
        self.stand_stills = 0
        self.partitions = 0
        self.outages = 0
        self.lost_answers = 0
        self.broken_links = 0
        self.slow_networks = 0
        self.stalled_disks = 0
        self.failing_disks = 0
        self.full_disks = 0
        self.lost_disks = 0
        self.wishes = 0
        self.exits = 0
        self.terms = 0
        self.leaders_that_served = 0
        self.inspected_replicas = 0
        self.published = 0
        self.confirmed = 0
        self.transactions = 0
        self.delivered = 0
        self.redelivered = 0
        self.acknowledged = 0
        self.read = 0


@final
class Transaction:
    """Messages that are published, and others that are acknowledged, as one."""

    def __init__(self) -> None:
        self.published: list[Copy] = []
        self.acknowledged: list[Copy] = []
        self.is_asked = False
        # A leader served without its effects.
        self.has_failed = False


@final
class Copy:
    """A message on a queue, or a record of a stream."""

    def __init__(self, number: int, queue: str, channel: int, reign: int, within: Transaction | None) -> None:
        self.number = number
        self.queue = queue
        self.channel = channel
        self.reign = reign
        self.within = within
        # A client was told so, or a leader had it when it began to serve.
        self.is_confirmed = False
        # A leader served without it.
        self.is_missing = False
        self.was_delivered = False
        self.holder: object = None
        # It was acknowledged, in this batch of that reign; by a transaction, if it was one.
        self.is_out = False
        self.out_reign = 0
        self.out_batch: int | None = None
        self.out_within: Transaction | None = None
        # It is known to be gone for ever.
        self.is_gone = False

    def __repr__(self) -> str:
        return f"message {self.number} of {self.queue}"


@final
class Reign:
    """A leader from its recovery on."""

    def __init__(self, number: int, name: str, term: int, node: Node) -> None:
        self.number = number
        self.name = name
        self.term = term
        self.node = node


@final
class Ledger:
    def __init__(self, queues: Iterable[str], stream: str) -> None:
        self.figures = Figures()
        self.trace: Callable[[str], None] | None = None
        self.copies: dict[str, dict[int, Copy]] = {queue: {} for queue in queues}
        self.records: dict[int, Copy] = {}
        self.stream = stream
        # What readers have seen: numbers of messages by offset.
        self.offsets: dict[int, int] = {}
        self.reigns: list[Reign] = []
        # The reign whose leader clients could connect to last.
        self.reign = 0
        # Leaders by whom clients were told that a message is safe.
        self.confirmed_by: set[int] = set()
        # Messages with higher numbers were published while too few nodes were in sync; None if enough are.
        self.short_from: int | None = None
        # Called with the next message that is confirmed.
        self.when_confirmed: Callable[[Copy], None] | None = None
        self._transactions: list[Transaction] = []

    def _say(self, *words: object) -> None:
        if self.trace is not None:
            self.trace(" ".join(map(str, words)))

    def begins(self, name: str, term: int, node: Node) -> Reign:
        reign = Reign(len(self.reigns) + 1, name, term, node)
        self.reigns.append(reign)
        return reign

    # -- publishing ---------------------------------------------------------------------------------------------

    def published(self, number: int, queue: str, channel: int, reign: int, within: Transaction | None) -> Copy:
        copy = Copy(number, queue, channel, reign, within)
        (self.records if queue == self.stream else self.copies[queue])[number] = copy
        self.figures.published += 1
        copy.is_missing = reign < self.reign
        if within is not None:
            within.published.append(copy)
        return copy

    def confirmed(self, copy: Copy) -> None:
        self.figures.confirmed += 1
        self._say(copy, "is confirmed")
        self._is_safe(copy)
        if self.short_from is not None and copy.number > self.short_from:
            raise Lost(f"{copy} was confirmed while too few nodes were in sync")
        self.confirmed_by.add(copy.reign)
        if self.when_confirmed is not None:
            call, self.when_confirmed = self.when_confirmed, None
            call(copy)

    def _is_safe(self, copy: Copy) -> None:
        if copy.is_missing:
            raise Lost(f"{copy} was confirmed by a leader, and a later one has not got it")
        copy.is_confirmed = True

    def committing(self, transaction: Transaction, reign: int) -> None:
        transaction.is_asked = True
        if reign < self.reign:
            transaction.has_failed = True
        else:
            self._transactions.append(transaction)

    def committed(self, transaction: Transaction) -> None:
        self.figures.transactions += 1
        self._say("a transaction of", transaction.published, transaction.acknowledged, "is done")
        if transaction.has_failed:
            raise Lost("a transaction was answered by a leader, and a later one has nothing of it")
        for copy in transaction.published:
            self._is_safe(copy)
        for copy in transaction.acknowledged:
            if copy.out_within is not transaction:
                raise Unexpected(f"{copy} was delivered again, and acknowledged in a transaction")
            copy.is_gone = True

    # -- consuming ----------------------------------------------------------------------------------------------

    def delivered(
        self, queue: str, number: int, redelivered: bool, holder: object, reign: int, latest: dict[object, int]
    ) -> Copy:
        copy = self.copies[queue].get(number)
        if copy is None:
            raise Unexpected(f"{queue} delivered {number}, which was not published there")
        self._say(copy, "is delivered", "again" if redelivered else "")
        self.figures.delivered += 1
        self.figures.redelivered += redelivered
        if not redelivered:
            key = (queue, copy.channel)
            if latest.get(key, 0) >= number:
                raise Unexpected(f"{queue} delivered {number} behind {latest[key]}")
            latest[key] = number
        if reign < self.reign:
            # By a leader that does not know yet that it was replaced.
            return copy
        if copy.is_gone:
            raise Unexpected(f"{copy} was delivered after it was acknowledged")
        if copy.is_missing:
            raise Unexpected(f"{copy} was delivered, and was not there when the leader began")
        if copy.was_delivered and not redelivered:
            raise Unexpected(f"{copy} was delivered again, and did not say so")
        if copy.holder is not None:
            raise Unexpected(f"{copy} was delivered to two consumers")
        if copy.is_out and copy.out_batch is not None:
            raise Unexpected(f"{copy} was delivered by the leader that knew of its acknowledgement")
        copy.was_delivered = True
        copy.is_out = False
        copy.out_within = None
        copy.holder = holder
        return copy

    def acknowledged(self, copy: Copy, reign: int, within: Transaction | None = None) -> None:
        if reign < self.reign:
            return
        self.figures.acknowledged += 1
        self._say(copy, "is acknowledged")
        copy.holder = None
        copy.is_out = True
        copy.out_reign = reign
        copy.out_batch = None
        copy.out_within = within

    def acknowledgement_arrived(self, copy: Copy, reign: int, batch: int) -> None:
        if copy.is_out and copy.out_reign == reign and copy.out_within is None:
            copy.out_batch = batch

    def gave_back(self, copy: Copy, reign: int) -> None:
        """Whoever had it is gone; so its acknowledgement may not have arrived."""
        if copy.holder is not None and reign == self.reign:
            copy.holder = None

    def read(self, offset: int, number: int) -> None:
        self.figures.read += 1
        copy = self.records.get(number)
        if copy is None:
            raise Unexpected(f"the stream has {number}, which was not published there")
        if self.offsets.setdefault(offset, number) != number:
            raise Unexpected(f"the stream has {number} at offset {offset}, where {self.offsets[offset]} was")
        if copy.is_missing:
            raise Unexpected(f"{copy} was read, and a later leader has not got it")

    # -- what a node has ----------------------------------------------------------------------------------------

    def found(self, reign: Reign, contents: dict[str, list[Entry]]) -> None:
        """A leader begins to serve: from now on, this is what there is."""
        self.reign = reign.number
        self.figures.leaders_that_served += 1
        self.check(contents, f"{reign.name}, which leads in term {reign.term},")
        for queue, copies in self.copies.items():
            there = {_number(entry): entry for entry in contents.get(queue, ())}
            for number, copy in copies.items():
                copy.holder = None
                entry = there.get(number)
                if entry is None:
                    if copy.is_out:
                        copy.is_gone = True
                    elif not copy.is_gone:
                        copy.is_missing = True
                        if copy.within is not None:
                            copy.within.has_failed = True
                    continue
                # All nodes in sync have it.
                copy.is_confirmed = True
                copy.is_out = False
                if copy.out_within is not None:
                    copy.out_within.has_failed = True
                    copy.out_within = None
                if copy.was_delivered and not entry.redelivered:
                    raise Unexpected(f"{copy} was delivered before, and {reign.name} does not know")
        there_too = set(numbers(contents.get(self.stream, ())))
        for number, copy in self.records.items():
            copy.is_confirmed |= number in there_too
            copy.is_missing |= number not in there_too
        # Each of them has taken effect now, or has failed.
        self._transactions.clear()

    def check(self, contents: dict[str, list[Entry]], node: str) -> None:
        """Whether a node has what it must have, and nothing else. Raises Violation."""
        for queue, copies in self.copies.items():
            there = numbers(contents.get(queue, ()))
            self._check_order(there, copies, node, queue)
            for number in there:
                copy = copies[number]
                if copy.is_missing:
                    raise Unexpected(f"{node} has {copy}, which an earlier leader had not got")
                if copy.within is not None and not copy.within.is_asked:
                    raise Unexpected(f"{node} has {copy}, whose transaction was not committed")
                if copy.is_gone or self._is_out_for_good(copy):
                    raise Unexpected(f"{node} has {copy}, whose acknowledgement was durable")
            present = set(there)
            for number, copy in copies.items():
                if copy.is_confirmed and not (copy.is_out or copy.is_gone) and number not in present:
                    raise Lost(f"{node} has not got {copy}, which is confirmed")
        there = numbers(contents.get(self.stream, ()))
        self._check_order(there, self.records, node, self.stream)
        for offset, number in self.offsets.items():
            if offset >= len(there) or there[offset] != number:
                raise Lost(f"{node} has not got {number} at offset {offset} of the stream, where it was read")
        present = set(there)
        for number, copy in self.records.items():
            if copy.is_confirmed and number not in present:
                raise Lost(f"{node} has not got {copy}, which is confirmed")
            if copy.is_missing and number in present:
                raise Unexpected(f"{node} has {copy}, which an earlier leader had not got")
        self._check_transactions(contents, node)

    def _check_order(self, there: list[int], copies: dict[int, Copy], node: str, queue: str) -> None:
        latest: dict[int, int] = {}
        for number in there:
            copy = copies.get(number)
            if copy is None:
                raise Unexpected(f"{node} has {number} on {queue}, which was not published there")
            before = latest.get(copy.channel, 0)
            if before >= number:
                what = "twice" if before == number else f"behind {before}"
                raise Unexpected(f"{node} has {copy} {what}")
            latest[copy.channel] = number

    def _is_out_for_good(self, copy: Copy) -> bool:
        if not copy.is_out or copy.out_batch is None:
            return False
        return self.reigns[copy.out_reign - 1].node.storage.durable_batch >= copy.out_batch

    def _check_transactions(self, contents: dict[str, list[Entry]], node: str) -> None:
        present = {queue: set(numbers(entries)) for queue, entries in contents.items()}
        for transaction in self._transactions:
            effects = set()
            for copy in transaction.published:
                if not (copy.is_out or copy.is_gone):
                    effects.add(copy.number in present.get(copy.queue, ()))
            for copy in transaction.acknowledged:
                if copy.out_within is transaction and copy.is_confirmed:
                    effects.add(copy.number not in present.get(copy.queue, ()))
            if len(effects) > 1:
                raise Unexpected(
                    f"{node} has a part of the transaction of {transaction.published}, {transaction.acknowledged}"
                )


def numbers(entries: Iterable[Entry]) -> list[int]:
    """The numbers of the messages on a queue, in order."""
    return [_number(entry) for entry in entries]


def _number(entry: Entry) -> int:
    return plain_content(entry.message)[0]
