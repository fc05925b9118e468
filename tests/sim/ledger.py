"""What the clients of a simulated node know, and what therefore may and may not happen.

Promised, and checked here:
- A confirmed persistent message on a durable queue is there after any end of the node, unless there is a reason: it was
  acknowledged, purged, expired, pushed out, rejected too often. Where such a reason makes a dead letter, that is there.
- Nothing is there that was not published to that queue, that was settled by a batch which had become durable, or that
  is among the dead letters as well.
- A delivery of what was delivered before, or was there at a start, is flagged as redelivered, unless it is the same
  delivery that goes on behind a start. No message is in two hands at once.
- What one channel publishes to one queue is in order there, and is delivered in order the first time: in the order of
  the commits, where it is in transactions.
- A transaction is there as a whole or not at all, whatever others its session has; as a whole once it was answered.
- A record of a stream that a reader has seen keeps its offset for ever.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from flintmq.broker.message import Entry
from tests.sim.counts import Counts
from tests.sim.messages import Copy, Hands, Sent, is_whole, plain_content
from tests.sim.topology import Line, Topology


class Violation(AssertionError):
    """Something happened that may not happen."""


class Lost(Violation):
    """Something is not there that has to be."""


class Unexpected(Violation):
    """Something is there that may not be."""


class FailedRecovery(Violation):
    """A node does not start on what another one has left."""


@final
class Figures(Counts):
    """What happened in runs, counted."""

    def __init__(self) -> None:
        self.power_losses = 0
        self.kills = 0
        self.stops = 0
        self.faults = 0
        self.flipped_bits = 0
        self.published = 0
        self.confirmed = 0
        self.refused = 0
        self.delivered = 0
        self.redelivered = 0
        self.settled = 0
        self.transactions = 0

        self.lost = 0
        self.unexpected = 0
        self.failed_recoveries = 0

    def count(self, violation: Exception) -> None:
        """What ended a run."""
        if isinstance(violation, Lost):
            self.lost += 1
        elif isinstance(violation, FailedRecovery):
            self.failed_recoveries += 1
        else:
            self.unexpected += 1


# What a transaction did to a delivery.
ACK: Final = 0
REJECT: Final = 1
REQUEUE: Final = 2


@final
class Group:
    """A transaction: what it publishes and settles takes effect when its commit is asked for, or never."""

    def __init__(self) -> None:
        self.publishes: list[Sent] = []
        self.settlements: list[tuple[Line, Copy, int]] = []
        # Of its settlements, those whose message would have been there for sure otherwise.
        self.telling: list[tuple[Line, Copy]] = []
        self.is_asked = False
        self.is_done = False
        self.has_failed = False


@final
class Ledger:
    def __init__(self, topology: Topology) -> None:
        self.figures = Figures()
        self.topology = topology
        self.lines = {line.name: line for line in topology.lines}
        self.messages: dict[int, Sent] = {}
        self.clock_ms: Callable[[], int] = lambda: 0
        # Told of everything that happens to messages, if somebody wants to know.
        self.trace: Callable[[str], None] | None = None
        # Whether the disk was damaged: what is there has to be whole, and may be less, or more, than was promised.
        self.is_damaged = False
        # Whether the last life of the node ended in order.
        self.was_stopped = False
        # Whether the server may have closed connections whose clients have not heard of it yet.
        self.is_closing: Callable[[], bool] = lambda: False
        # Numbers of messages that were on a queue for sure when it was deleted.
        self._buried: set[int] = set()
        self._groups: list[Group] = []
        # Messages that are taken once only, which a start did not find: nobody took them, then.
        self._missing: set[tuple[Line, int]] = set()

    def _note(self, number: int, what: str) -> None:
        if self.trace is not None:
            self.trace(f"message {number} {what}")

    # -- publishing ---------------------------------------------------------------------------------------------

    def published(self, sent: Sent) -> None:
        """It is on its way; nobody knows how far it gets."""
        self.messages[sent.number] = sent
        self.figures.published += 1
        self._note(sent.number, f"is published: {sent}")
        for line in sent.lines:
            line.arrivals += 1
            if sent.number not in line.copies:
                line.copies[sent.number] = Copy(sent)
            line.copies[sent.number].purged |= line.purges > 0

    def published_again(self, sent: Sent) -> None:
        """The node says that it has not got it, so it is sent once more."""
        for line in sent.lines:
            if sent.number in line.done:
                raise Unexpected(f"{line} had {sent.number}, and the node has forgotten that")
            self._missing.discard((line, sent.number))
        self.published(sent)

    def confirmed(self, sent: Sent) -> None:
        self.figures.confirmed += 1
        self._note(sent.number, "is confirmed")
        for line in sent.lines:
            if (line, sent.number) in self._missing:
                raise Lost(f"{sent.number} is confirmed, and not on {line}")
        if sent.mandatory and not sent.lines and not sent.returned:
            raise Unexpected(f"{sent.number} went nowhere, and was confirmed before it was returned")
        self._is_sure(sent)

    def _is_sure(self, sent: Sent) -> None:
        for line in sent.lines:
            copy = line.copies.get(sent.number)
            if copy is not None and ((sent.persistent and line.durable) or line.is_stream):
                copy.is_sure = True

    def refused(self, sent: Sent) -> None:
        self.figures.refused += 1
        self._note(sent.number, "is refused")

    def returned(self, number: int) -> None:
        sent = self.messages.get(number)
        # Of a queue that was there when it was published, and was deleted before it got there, it comes back.
        if sent is None or not sent.mandatory or not all(line.is_temporary for line in sent.lines):
            raise Unexpected(f"{number} was returned, and should not have been")
        sent.returned = True

    # -- delivering ---------------------------------------------------------------------------------------------

    def delivered(
        self,
        line: Line,
        number: int,
        body: bytes,
        redelivered: bool,
        holder: Hands | None,
        latest: dict[object, int],
        starts: int = 0,
    ) -> Copy:
        """`latest` is what its receiver got last of each channel, priority and queue.

        `starts` is how many there were since its header came, in a delivery that was cut off by them and is resumed.
        What that said holds: no other link has had the message (amqp-1.0 part 3 §3.2.1, first-acquirer), and these
        starts make no second delivery of it.
        """
        self._note(
            number,
            f"is delivered from {line}{', again' if redelivered else ''}{', needs no ack' if holder is None else ''}",
        )
        sent = self.messages.get(number)
        if sent is None or sent.body != body:
            raise Unexpected(f"{line} delivered what nobody published: {number}, {body[:20]!r}")
        copy = line.copies.get(number)
        if copy is None:
            copy = self._letter(line, sent)
        # What comes to a channel that the server has closed, or takes back from one, tells nothing.
        is_sure = not any(hands is not None and hands.may_be_over for hands in (copy.holder, holder))
        if copy.holder is not None and is_sure and not self.is_closing():
            raise Unexpected(f"{line} delivered {number} while somebody has it")
        # It may have been on its way to a channel that has lost it by now to somebody whose link is faster.
        may_be_late = holder is not None and holder.may_be_over
        if copy.is_out and may_be_late:
            # Whose settlement that is may be on its way, or in a transaction that will be committed, or be lost.
            return copy
        if not self.is_closing() and copy.is_out and copy.out_arrived and not copy.doubtful:
            raise Unexpected(f"{line} delivered {number}, which was settled before")
        # A client may read its delivery long after the server closed the connection, and gave it to somebody else.
        was_seen = copy.was_delivered or copy.starts > starts
        if was_seen and not redelivered and not may_be_late and not self.is_closing():
            raise Unexpected(f"{line} delivered {number} again, and did not say so")
        if number in line.done:
            raise Unexpected(f"{line} delivered {number}, which it had before, and takes once only")
        if sent.delay_ms and line in sent.lines and self.clock_ms() < sent.at_ms + sent.delay_ms:
            raise Unexpected(f"{line} delivered {number} before its time")
        self.figures.delivered += 1
        if redelivered:
            self.figures.redelivered += 1
        elif line.source is None and not sent.delay_ms and not line.deduplicates:
            key = (line, sent.channel, sent.priority)
            if latest.get(key, -1) >= sent.place:
                raise Unexpected(f"{line} delivered {number}, in place {sent.place}, behind {latest[key]}")
            latest[key] = sent.place
        copy.was_delivered = True
        copy.is_out = copy.out_arrived = copy.doubtful = copy.rejected = False
        copy.out_batch = None
        copy.settled_in = None
        copy.holder = holder
        return copy

    def _letter(self, line: Line, sent: Sent) -> Copy:
        """A copy among the dead letters that nobody knew of: there has to be a reason for it."""
        if not self._may_have_come(line, sent):
            raise Unexpected(f"{line} has {sent.number}, which was never published there")
        copy = Copy(sent)
        line.copies[sent.number] = copy
        return copy

    def _may_have_come(self, line: Line, sent: Sent) -> bool:
        """Whether a message may be among these dead letters."""
        if line.is_temporary:
            # Published to one of this name, that was deleted before it got there.
            namesakes = [each for each in sent.lines if each.name == line.name]
            return bool(namesakes) and sent.number not in self._buried
        source = line.source
        if source is None:
            return False
        copy = source.copies.get(sent.number)
        if copy is None:
            # It may have come by there without anybody seeing it.
            return self._may_have_come(source, sent) and self._may_leave(source, Copy(sent))
        return self._may_leave(source, copy)

    def _may_leave(self, line: Line, copy: Copy) -> bool:
        """Whether there is a reason for a message to leave its queue without an acknowledgement."""
        return copy.rejected or self._may_leave_alone(line, copy)

    def _may_leave_alone(self, line: Line, copy: Copy) -> bool:
        """Whether there is one without a client's rejection."""
        if line.max_length is not None and self._arrivals(line) > line.max_length:
            return True
        if line.delivery_limit is not None and copy.returns + line.hands_lost > line.delivery_limit:
            return True
        ttls = [ttl for ttl in (line.ttl_ms, copy.sent.ttl_ms if line.source is None else None) if ttl is not None]
        return bool(ttls) and copy.sent.at_ms + min(ttls) <= self.clock_ms()

    def _arrivals(self, line: Line) -> int:
        """How many messages may have come to a queue: of dead letters nobody knows who saw them come."""
        return line.arrivals + (self._arrivals(line.source) if line.source is not None else 0)

    # -- settling -----------------------------------------------------------------------------------------------

    def settled(self, copy: Copy, how: int) -> None:
        """A client has said so; the server has not heard it yet."""
        self._note(copy.sent.number, f"is settled: {('ack', 'reject', 'requeue')[how]}")
        self.figures.settled += 1
        copy.holder = None
        if how == REQUEUE:
            copy.returns += 1
            return
        copy.is_out = True
        copy.rejected = how == REJECT

    def settlement_arrived(self, copy: Copy, batch: int | None) -> None:
        """The server has taken it in, and handed over to the disk what came with this batch and before."""
        self._note(copy.sent.number, f"its settlement has arrived, in batch {batch}")
        if copy.is_out:
            copy.out_arrived = True
            copy.out_batch = batch

    def given_away(self, copy: Copy, batch: int | None) -> None:
        """It was delivered to somebody who does not acknowledge."""
        copy.is_out = True
        self.settlement_arrived(copy, batch)

    def gave_back(self, copies: Sequence[Copy], outs: Sequence[Copy]) -> None:
        """A channel is over: who had something has it no more, and what it settled last may not have arrived."""
        for copy in copies:
            self._note(copy.sent.number, "is given back")
            copy.holder = None
            copy.returns += 1
        for copy in outs:
            if copy.is_out and not copy.out_arrived:
                self._note(copy.sent.number, "may be settled, or given back")
                copy.doubtful = True
                copy.returns += 1

    def purging(self, line: Line) -> None:
        """A purge was asked for, or a deletion; until it is answered, what comes may be gone, too."""
        line.purges += 1
        line.was_purged = True
        for copy in line.copies.values():
            copy.purged = True
            copy.was_sure = copy.is_sure

    def purged(self, line: Line) -> None:
        line.purges -= 1

    def deleted(self, line: Line) -> None:
        """It is gone for good: another one may be made under its name."""
        self._buried |= {number for number, copy in line.copies.items() if copy.was_sure}
        if self.lines.get(line.name) is line:
            del self.lines[line.name]

    # -- transactions -------------------------------------------------------------------------------------------

    def committing(self, group: Group) -> None:
        group.is_asked = True
        self._groups.append(group)
        for line, copy, how in group.settlements:
            if how != REQUEUE and copy.is_sure and not copy.purged and not self._may_leave(line, copy):
                group.telling.append((line, copy))
            self.settled(copy, how)
            copy.settled_in = group
        for sent in group.publishes:
            self.published(sent)

    def committed(self, group: Group) -> None:
        """It was answered, and so is durable."""
        group.is_done = True
        self.figures.transactions += 1
        for sent in group.publishes:
            self._is_sure(sent)
        for _, copy, _ in group.settlements:
            # What went back to its queue may be somebody else's by now, whose settlement is another one.
            if copy.settled_in is group:
                self.settlement_arrived(copy, 0)

    def failed(self, group: Group) -> None:
        """It was refused: nothing of it took effect."""
        group.has_failed = True
        for sent in group.publishes:
            self._note(sent.number, "is not there, as its transaction failed")
        for sent in group.publishes:
            for line in sent.lines:
                line.copies.pop(sent.number, None)
        for _, copy, _ in group.settlements:
            copy.returns += 1
            if copy.settled_in is group:
                # Nobody has had it since.
                copy.is_out = copy.rejected = False

    # -- streams ------------------------------------------------------------------------------------------------

    def read(self, line: Line, offset: int, number: int, body: bytes) -> None:
        """A reader of a stream got a record."""
        sent = self.messages.get(number)
        if sent is None or sent.body != body or number not in line.copies:
            raise Unexpected(f"{line} has {number} at {offset}, which nobody published")
        if line.records.setdefault(offset, number) != number:
            raise Unexpected(f"{line} had {line.records[offset]} at {offset}, and has {number} now")
        self.figures.delivered += 1

    # -- what a start finds -------------------------------------------------------------------------------------

    def found(self, contents: Mapping[str, Sequence[Entry]], durable: int) -> None:
        """Compare what is on the queues with what is known; it is what is known from now on.

        `durable` is the newest batch that was reported durable before the end.
        """
        there: dict[Line, dict[int, Entry]] = {}
        for line in self.lines.values():
            entries = contents.get(line.name)
            if entries is None and line.is_sure and line.durable and not line.is_leaving:
                raise Lost(f"{line} is gone")
            there[line] = self._numbered(line, entries or ())
        for name in contents:
            line_found = self.lines.get(name)
            if line_found is None or not line_found.durable:
                raise Unexpected(f"there is a queue {name}, which should be gone")
        for line, entries_by_number in there.items():
            if line.is_stream:
                self._compare_stream(line, entries_by_number)
            else:
                self._compare(line, entries_by_number, there, durable)
        if not self.is_damaged:
            for group in self._groups:
                self._compare_group(group, there)
        self._begin_anew(there, durable)

    def _numbered(self, line: Line, entries: Sequence[Entry]) -> dict[int, Entry]:
        found: dict[int, Entry] = {}
        latest: dict[tuple[int, int], int] = {}
        for entry in entries:
            number, body = plain_content(entry.message)
            sent = self.messages.get(number)
            if sent is None and self.is_damaged and is_whole(body):
                # Its settlement was lost long after everybody else forgot of it.
                continue
            if sent is None or sent.body != body:
                raise Unexpected(f"{line} has what nobody published: {number}, {body[:20]!r}")
            if number in found:
                raise Unexpected(f"{line} has {number} twice")
            found[number] = entry
            self._note(number, f"is found on {line}, {entry.returns} returns")
            if not line.is_stream and not entry.redelivered and not self._is_new(line, number):
                raise Unexpected(f"{line} does not know that {number} may have been delivered before")
            if line.source is None and not sent.delay_ms and not line.deduplicates:
                key = (sent.channel, sent.priority)
                if latest.get(key, -1) > sent.place:
                    raise Unexpected(f"{line} has {number}, in place {sent.place}, behind {latest[key]}")
                latest[key] = sent.place
        return found

    def _is_new(self, line: Line, number: int) -> bool:
        """A node that was stopped in order knows what nobody has had."""
        copy = line.copies.get(number)
        return self.was_stopped and (copy is None or not copy.was_delivered)

    def _compare(
        self, line: Line, found: Mapping[int, Entry], there: Mapping[Line, Mapping[int, Entry]], durable: int
    ) -> None:
        for number in found:
            copy = line.copies.get(number)
            sent = self.messages[number]
            if not sent.persistent:
                raise Unexpected(f"{line} has {number}, which was not to be kept")
            if self.is_damaged:
                continue
            if copy is None and not self._may_have_come(line, sent):
                raise Unexpected(f"{line} has {number}, which was never published there")
            if self._is_over(line, number, durable) or number in line.done:
                raise Unexpected(f"{line} has {number}, which was settled durably")
            source = line.source
            while source is not None:
                if number in there[source]:
                    raise Unexpected(f"{source} has {number}, and so has {line} with its dead letters")
                source = source.source
        if self.is_damaged:
            return
        for number, copy in line.copies.items():
            if copy.is_sure and not self._is_accounted_for(line, copy, there):
                raise Lost(f"{line} has lost {number}")

    def _is_over(self, line: Line, number: int, durable: int) -> bool:
        """Whether the copy, or what became of it among the dead letters, was settled durably."""
        copy = line.copies.get(number)
        if (
            copy is not None
            and copy.is_out
            and copy.out_arrived
            and copy.out_batch is not None
            and copy.out_batch <= durable
        ):
            return True
        return any(self._is_over(target, number, durable) for target in line.dead_letters)

    def _is_accounted_for(self, line: Line, copy: Copy, there: Mapping[Line, Mapping[int, Entry]]) -> bool:
        number = copy.sent.number
        if number in there[line] or copy.purged or line.gave_away or line.is_leaving:
            return True
        if copy.is_out and not copy.rejected:
            return True
        if not self._may_leave(line, copy):
            return False
        for target in line.dead_letters:
            letter = target.copies.get(number)
            if letter is None:
                letter = Copy(copy.sent)
                letter.purged = target.was_purged
            if not self._is_accounted_for(target, letter, there):
                return False
        return True

    def _compare_stream(self, line: Line, found: Mapping[int, Entry]) -> None:
        offsets = {int(entry.seq): number for number, entry in found.items()}
        for number in found:
            if number not in line.copies:
                raise Unexpected(f"{line} has {number}, which was never published there")
        if self.is_damaged:
            return
        first = min(offsets, default=0) if line.retires else 0
        for offset, number in line.records.items():
            if offset >= first and offsets.get(offset) != number and (offsets or not line.retires):
                raise Lost(f"{line} had {number} at {offset}, and has {offsets.get(offset)} now")
        for number, copy in line.copies.items():
            if copy.is_sure and number not in found and not line.retires:
                raise Lost(f"{line} has lost {number}")
        line.records = offsets

    def _compare_group(self, group: Group, there: Mapping[Line, Mapping[int, Entry]]) -> None:
        """All of a transaction, or nothing of it."""
        signs: dict[str, bool] = {}
        for sent in group.publishes:
            for line in sent.lines:
                copy = line.copies.get(sent.number)
                if not sent.persistent or not line.durable or line.is_stream or copy is None or line not in there:
                    continue
                if sent.number in there[line]:
                    signs[f"{sent.number} is on {line}"] = True
                elif not self._is_accounted_for(line, copy, there):
                    signs[f"{sent.number} is not on {line}"] = False
        for line, copy in group.telling if not group.has_failed else ():
            if line.gave_away or copy.purged or not copy.is_out or self._may_leave_alone(line, copy):
                continue
            number = copy.sent.number
            signs[f"{number} is {'still' if number in there[line] else 'no more'} on {line}"] = (
                number not in there[line]
            )
        if group.is_done and False in signs.values():
            raise Lost(f"a transaction was answered, and is lost: {signs}")
        if group.has_failed and True in signs.values():
            raise Unexpected(f"a transaction was refused, and took effect: {signs}")
        if len(set(signs.values())) > 1:
            raise Unexpected(f"half a transaction: {signs}")

    def _begin_anew(self, there: Mapping[Line, Mapping[int, Entry]], durable: int) -> None:
        """What was found is there for good, and all else is gone for good."""
        kept: dict[int, Sent] = {}
        for line, found in there.items():
            copies: dict[int, Copy] = {}
            for number, known in line.copies.items():
                if not (line.deduplicates or known.sent.is_once):
                    continue
                if self._is_over(line, number, durable):
                    line.done.add(number)
                elif number not in found and not self.is_damaged and not self._is_accounted_for(line, known, there):
                    self._missing.add((line, number))
            for number in found:
                before = line.copies.get(number)
                copy = Copy(self.messages[number])
                copy.is_sure = True
                if before is None:
                    before = Copy(copy.sent)
                copy.was_delivered = before.was_delivered
                copy.starts = before.starts + (line.is_stream or found[number].redelivered)
                copy.returns = max(before.returns, int(found[number].returns))
                copies[number] = copy
                kept[number] = copy.sent
            line.copies = copies
            line.arrivals = len(copies)
            line.gave_away = line.was_purged = False
            line.purges = line.hands_lost = 0
            line.is_sure &= line.durable
        self.messages = kept
        self._groups = []
        self.is_damaged = False
        # Whether the last life of the node ended in order.
        self.was_stopped = False

    def forget_unfinished(self, names: set[str]) -> None:
        """Of the queues that were being made or deleted, those that are not there are gone."""
        for name, line in list(self.lines.items()):
            if line.is_temporary and (line.is_leaving or not line.is_sure):
                if name in names:
                    line.is_sure, line.is_leaving = True, False
                else:
                    del self.lines[name]
