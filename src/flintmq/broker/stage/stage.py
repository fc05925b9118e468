"""Staged publishes: tasks publish messages that nobody sees yet, and a driver commits whole batches.

A stage is known by its transactional id. Opening it makes the opener its only writer, with an epoch that is higher than
all before. Batches are numbered, and none is committed twice. The journal already has the tasks' messages (see
copies.py), so that a commit writes one small group: the committed attempts, and the number of their batch. From then on
they are published, whatever happens; moving them to their queues takes several ticks, and then their notes are dropped.

The notes of a stage, each a letter and decimal numbers:
    s <epoch> <next batch> <owners>           state: the current and previous owners, and the first uncommitted batch
    b <epoch> <batch> <partition> <attempt>   an attempt has begun; the others identify it by this note's number
    r <attempt> <queue> <first> <count>       it has reserved numbers of a queue, or of the staged copies
    c <attempt> <messages> [<queue> <count>]...
                                              it is complete, with so many messages, and so many entries of each queue
    w <attempt> <attempt>...                  these are committed
    p <attempt> <queue> <first> <last> <offset>
                                              copies with these numbers go to a stream, from this offset on
    d                                         the stage is to be forgotten
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import InternalError, PreconditionFailed, StorageError
from flintmq.base.limits import STAGE_ATTEMPTS_MAX, STAGE_OWNERS_MAX
from flintmq.broker.message import Entry, Message
from flintmq.broker.notes import Notes
from flintmq.broker.ports import Journal, StageRecord
from flintmq.broker.queue.base import Queue, Recoverable
from flintmq.broker.queue.capacity import has_room_for
from flintmq.broker.queue.reservation import put_reserved
from flintmq.broker.queue.runs import Runs
from flintmq.broker.queue.sequence_owners import SequenceReservation
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.stage.copies import Attempt, Commit, Key, QueuePart
from flintmq.broker.stage.deferred_append import AppendNotes, DeferredAppend
from flintmq.broker.tap import Client
from flintmq.broker.tick import SteppedWork

if TYPE_CHECKING:
    from flintmq.broker.stage.registry import StageRegistry

_STATE: Final = b"s"
_BEGIN: Final = b"b"
_RUN: Final = b"r"
_COMPLETE: Final = b"c"
_COMMIT: Final = b"w"
_APPEND: Final = b"p"
_RETIREMENT: Final = b"d"
# Dropping a note is as much work as this many messages.
_NOTE_WEIGHT: Final = 8
# The low bits of an epoch, below the id: one stage cannot have so many epochs.
_EPOCHS_BITS: Final = 32


@final
class Committed:
    """The result of a commit. `already`: the batch was committed before, and nothing was published now."""

    def __init__(self, published: i64, already: bool) -> None:
        self.published: i64 = published
        self.already = already


@final
class StagedCopies(Recoverable):
    """Staged messages for queues that do not store them under their own sequence numbers: entries of a hidden queue."""

    def __init__(self, stage_id: i64, journal: Journal) -> None:
        # Ids of stages and queues are distinct. Notes of queues that deduplicate use negative ids, too.
        self.id: i64 = -stage_id
        self._journal = journal
        self._seq: i64 = 0
        self._reserved: Runs[SequenceReservation] = Runs()

    def reserve(self, count: i64) -> i64:
        first = self._seq
        self._seq += count
        return first

    def reserved(self, first: i64, count: i64, reservation: SequenceReservation) -> None:
        self._reserved.add(first, count, reservation)

    def restore(self, entry: Entry) -> None:
        run = self._reserved.find(entry.seq)
        if run is not None:
            run.value.found(entry)
        else:
            # Their queue was deleted, so nothing else would settle these entries.
            self._journal.settle(self.id, entry)

    def start_at(self, seq: i64) -> None:
        self._seq = max(seq, self._reserved.end)
        self._reserved = Runs()


@final
class Stage(Recoverable, SteppedWork):
    def __init__(self, record: StageRecord, stages: "StageRegistry") -> None:
        self.record = record
        # Higher than the epochs of an earlier stage of the same name: an id is never used twice.
        self.epoch: i64 = record.id << _EPOCHS_BITS
        self.owner = ""
        # Previous owners, which were taken over.
        self._former: list[str] = []
        # The first batch that is not committed.
        self.next_batch: i64 = 0
        self.journal = stages.journal
        self.pages = stages.tick.pages
        self.copies = StagedCopies(record.id, stages.journal)
        self.gone = False
        # The time of the writer's last call, 0 before the first one since the broker started.
        self.used_ms: i64 = 0
        self._stages = stages
        self._notes = Notes(record.id, stages.journal)
        self._state: Entry | None = None
        self._attempts: dict[Key, Attempt] = {}
        self._commits: deque[Commit] = deque()
        self._discards: deque[Attempt] = deque()
        self._is_busy = False
        # The note that the stage is to be forgotten, with its definition, as soon as its other notes are gone.
        self._retirement: Entry | None = None
        # The notes that were found so far. Used at start-up only.
        self._found: dict[int, Attempt] = {}
        self._found_commits: list[tuple[Entry, list[int]]] = []
        self._appends: list[tuple[Entry, QueuePart, int, int]] = []

    # -- the writer ---------------------------------------------------------------------------------------------

    def open(self, owner: str) -> None:
        """Open the stage for an owner.

        The current owner continues, as its tasks do several times; a new one takes over.

        From then on nobody else writes. Whatever other owners staged and did not commit is discarded. Previous owners
        cannot return, so that two writers that were given the same transactional id by mistake do not take it from each
        other in turns: raises PreconditionFailed.
        """
        self.used_ms = self._stages.tick.now_ms
        if self._retirement is not None:
            self._former = []
        elif owner in self._former:
            raise PreconditionFailed(self._fenced)
        elif self._state is not None:
            if owner == self.owner:
                return
            self._former = [*self._former, self.owner][-STAGE_OWNERS_MAX:]
        for attempt in list(self._attempts.values()):
            self.discard(attempt, self._fenced)
        self.next_batch = 0
        self.owner = owner
        self.epoch += 1
        self._write_state()

    def _write_state(self) -> None:
        self._notes.begin_group()
        self._note_state()
        self._notes.end_group()

    def _note_state(self) -> None:
        if self._retirement is not None:
            self._notes.drop(self._retirement)
            self._retirement = None
        before = self._state
        text = b"%s %d %d " % (_STATE, self.epoch, self.next_batch)
        self._state = self._notes.write(text + _encode_owners([self.owner, *self._former]))
        if before is not None:
            self._notes.drop(before)

    @property
    def _fenced(self) -> str:
        return f"{self._name} has been taken over by another writer"

    @property
    def _name(self) -> str:
        return f"transactional id '{self.record.name}' in vhost '{self.record.vhost}'"

    @property
    def _recovered_client(self) -> Client:
        """The client of commits that were found at start-up: the user is known, the connection is gone."""
        return Client("", 0, self.record.user, self.record.vhost)

    def _check(self, epoch: int) -> None:
        # The client's number may not fit an i64.
        if self._retirement is not None or epoch != int(self.epoch):
            raise PreconditionFailed(self._fenced)
        self.used_ms = self._stages.tick.now_ms

    def begin(self, epoch: int, key: Key) -> Attempt:
        """Begin an attempt of a partition's task. An earlier one with the same key is discarded.

        Raises PreconditionFailed if another writer has taken over, or if there are too many attempts.
        """
        self._check(epoch)
        earlier = self._attempts.get(key)
        if earlier is not None:
            batch, partition, number = key
            self.discard(earlier, f"batch {batch}, partition {partition}, attempt {number} has begun again elsewhere")
        if len(self._attempts) >= STAGE_ATTEMPTS_MAX:
            raise PreconditionFailed(f"{self._name} has {STAGE_ATTEMPTS_MAX} attempts: commit or abort their batches")
        if key[0] < self.next_batch:
            late = Attempt(self, key, self.epoch, -1)
            late.is_late = True
            return late
        note = self._notes.write(b"%s %d %d %d %d" % (_BEGIN, self.epoch, *key))
        attempt = Attempt(self, key, self.epoch, note.seq)
        attempt.notes.append(note)
        self._attempts[key] = attempt
        return attempt

    def commit(self, epoch: int, batch: int, attempts: dict[int, int], client: Client | None = None) -> Committed:
        """Publish these attempts, given by partition, unless the batch was committed before. Discard all others.

        `client` is the committer, for tracing.

        The commit is final once this batch of the journal is durable. Raises PreconditionFailed, without any change, if
        another writer has taken over, an attempt is not complete, a queue has no room, or all queues of a message were
        deleted.
        """
        self._check(epoch)
        if batch < self.next_batch:
            self._discard_through(batch, "this batch is already committed")
            return Committed(0, True)
        chosen: list[Attempt] = []
        for partition, number in attempts.items():
            attempt = self._attempts.get((batch, partition, number))
            if attempt is None or not attempt.is_complete:
                raise PreconditionFailed(
                    f"batch {batch}, partition {partition}, attempt {number} of {self._name} is not complete: "
                    "stage the batch again"
                )
            if attempt.lost > 0:
                raise PreconditionFailed(
                    f"{self._name} has {attempt.lost} messages of batch {batch}, partition {partition}, attempt "
                    f"{number}, whose queues were deleted: stage the batch again"
                )
            chosen.append(attempt)
        _check_room(chosen)
        self.next_batch = batch + 1
        self._notes.begin_group()
        try:
            note = self._notes.write(b" ".join([_COMMIT, *[b"%d" % attempt.serial for attempt in chosen]]))
            self._note_state()
        finally:
            self._notes.end_group()
        count: i64 = 0
        for attempt in chosen:
            del self._attempts[attempt.key]
            attempt.is_committed = True
            count += attempt.count
        self._commits.append(Commit(chosen, note, client or self._recovered_client))
        self._work()
        self._discard_through(batch, f"batch {batch} was committed without this attempt")
        return Committed(count, False)

    def abort(self, epoch: int, batch: int) -> None:
        """Discard the attempts of a batch. Raises PreconditionFailed if another writer has taken over."""
        self._check(epoch)
        for attempt in list(self._attempts.values()):
            if attempt.key[0] == batch:
                self.discard(attempt, f"batch {batch} was aborted")

    @property
    def is_retired(self) -> bool:
        return self._retirement is not None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is staged, and nothing is on its way to queues."""
        return not (self.is_retired or self._attempts or self._commits or self._discards)

    def retire(self) -> None:
        """Forget the stage once its committed messages are on their queues. Nothing more can be staged."""
        for attempt in list(self._attempts.values()):
            self.discard(attempt, f"{self._name} was forgotten")
        if self._retirement is None:
            self._retirement = self._notes.write(_RETIREMENT)
        self._work()

    def drop_state(self) -> None:
        """Drop the notes of the stage itself, so that a restart knows nothing of it."""
        for note in (self._state, self._retirement):
            if note is not None:
                self._notes.drop(note)

    # -- attempts -----------------------------------------------------------------------------------------------

    def note_run(self, attempt: Attempt, queue: Queue, first: i64, count: i64) -> None:
        attempt.notes.append(self._notes.write(b"%s %d %d %d %d" % (_RUN, attempt.serial, queue.id, first, count)))

    def note_complete(self, attempt: Attempt) -> None:
        """Note that an attempt is complete. Without the note, a restart discards the attempt.

        There is no note if a restart would not find all of the messages.
        """
        if attempt.is_late or not attempt.is_kept:
            return
        numbers: list[int] = [int(attempt.serial), int(attempt.count)]
        for queue, part in attempt.parts.items():
            numbers += [queue.id, int(part.count)]
        attempt.completion = self._notes.write(b" ".join([_COMPLETE, *[b"%d" % number for number in numbers]]))

    def discard(self, attempt: Attempt, why: str) -> None:
        """Discard an attempt that is not committed: none of its messages will be published."""
        attempt.closed_reason = why
        if attempt.is_late:
            return
        if self._attempts.get(attempt.key) is attempt:
            del self._attempts[attempt.key]
        self._discard(attempt)
        self._work()

    def _discard(self, attempt: Attempt) -> None:
        """Make a restart discard the attempt, too, whatever is left of it by then."""
        if attempt.completion is not None:
            # The group puts the dropped note before anything that is settled in the same batch.
            self._notes.begin_group()
            self._notes.drop(attempt.completion)
            self._notes.end_group()
            attempt.completion = None
        self._discards.append(attempt)

    def _discard_through(self, batch: i64, why: str) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.key[0] <= batch:
                self.discard(attempt, why)

    def page_out(self) -> None:
        for attempt in self._attempts.values():
            for part in attempt.parts.values():
                part.pack()

    # -- the tick -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if not self._is_busy and not self.gone:
            self._is_busy = True
            self._stages.tick.stages.append(self)

    def step(self, messages: i64) -> bool:
        """Move about `messages` messages to their queues. Returns True if there are more.

        Raises InternalError if some cannot be read back. The next start finds them in the journal.
        """
        self._is_busy = False
        if self.gone:
            return False
        if self._retirement is not None and not self._commits and not self._discards:
            # The removal is in a later batch than everything that has to be on the disk before it.
            self._stages.retired(self)
            return False
        try:
            while messages > 0 and self._commits:
                count = self._publish_some(self._commits[0])
                if count == 0:
                    break
                messages -= count
            while messages > 0 and self._discards:
                messages -= self._discard_some(self._discards[0])
        except StorageError as error:
            # The notes stay, so that the next start finds the messages.
            if self._commits:
                self._commits.popleft()
            else:
                self._discards.popleft()
            raise InternalError(str(error)) from error
        finally:
            if self._commits or self._discards or self._retirement is not None:
                self._work()
        return self._is_busy

    def _publish_some(self, commit: Commit) -> i64:
        """Publish some messages of a commit. Returns how many, 0 if streams have to get theirs first."""
        while not commit.parts:
            if commit.next_attempt == len(commit.attempts):
                if commit.appends_pending > 0:
                    return 0
                return self._drop_notes(commit)
            attempt = commit.attempts[commit.next_attempt]
            commit.next_attempt += 1
            commit.parts.extend(attempt.parts.values())
        part = commit.parts[0]
        if part.queue.gone:
            count = self._drop_some(part)
            if part.is_empty:
                commit.parts.popleft()
            return count
        entries = part.take_some()
        queue = part.queue
        tap = self._stages.tick.tap
        # The messages are collected before the queue gets the entries, because a queue may release what is in them.
        messages: list[Message] = [] if tap is None else [entry.message for entry in entries]
        if part.store is not None:
            put_reserved(part.store, entries)
        elif not entries:
            # The restart found that the stream has all of them.
            pass
        elif isinstance(queue, StreamQueue):
            commit.appends_pending += 1
            self._stages.tick.deferred.append(DeferredAppend(_AppendNotes(self, commit, part), queue, entries))
        else:
            self._publish_copies(part, entries)
        if part.is_empty:
            commit.parts.popleft()
        if tap is not None:
            # Tracing comes last: the entries have left their part, and an error here must not lose them.
            for message in messages:
                tap.committed(commit.client, queue, message)
        return len(entries) + 1

    def _publish_copies(self, part: QueuePart, entries: list[Entry]) -> None:
        """Publish copies to a queue that creates its own entries.

        The journal gets those and the settlement in one group.
        """
        self._notes.begin_group()
        try:
            queues = [part.queue]
            for entry in entries:
                self._stages.deliver(entry.message, queues)
                if entry.segment != 0:
                    self.journal.settle(part.id, entry)
        finally:
            self._notes.end_group()

    def note_append(self, part: QueuePart, entries: list[Entry], offset: i64) -> Entry:
        """Write a note that these entries of a part will be in their stream from this offset on."""
        numbers = (part.attempt.serial, part.queue.id, entries[0].seq, entries[-1].seq, offset)
        return self._notes.write(b"%s %d %d %d %d %d" % (_APPEND, *numbers))

    def drop_append_note(self, note: Entry) -> None:
        """Drop a note, because nothing was appended."""
        self._notes.drop(note)

    def appended(self, part: QueuePart, entries: list[Entry], note: Entry | None) -> None:
        """The stream has these entries: settle them in one group with the note."""
        self._notes.begin_group()
        for entry in entries:
            if entry.segment != 0:
                self.journal.settle(part.id, entry)
        if note is not None:
            self._notes.drop(note)
        self._notes.end_group()

    def _drop_some(self, part: QueuePart) -> i64:
        """Settle some entries of a part, in a group, so that this precedes the removal of the notes about the part."""
        self._notes.begin_group()
        try:
            return part.drop_some() + 1
        finally:
            self._notes.end_group()

    def _drop_notes(self, commit: Commit) -> i64:
        """Drop the notes of a finished commit.

        Its own note is the last one: it says nothing about attempts without notes.
        """
        if commit.dropped_attempts < len(commit.attempts):
            commit.dropped_attempts += 1
            return self._drop_notes_of(commit.attempts[commit.dropped_attempts - 1])
        self._notes.drop(commit.note)
        self._commits.popleft()
        return 1

    def _drop_notes_of(self, attempt: Attempt) -> i64:
        """Drop the notes of an attempt in a group. Returns the work, in messages."""
        notes = attempt.notes
        attempt.notes = []
        if attempt.completion is not None:
            notes.append(attempt.completion)
            attempt.completion = None
        self._notes.begin_group()
        for note in notes:
            self._notes.drop(note)
        self._notes.end_group()
        return (len(notes) + 1) * _NOTE_WEIGHT

    def _discard_some(self, attempt: Attempt) -> i64:
        parts = attempt.parts
        if not parts:
            self._discards.popleft()
            return self._drop_notes_of(attempt)
        # In any order, at a cost that does not depend on the number of parts.
        queue, part = parts.popitem()
        count = self._drop_some(part)
        if not part.is_empty:
            parts[queue] = part
        return count

    def discard_all(self) -> None:
        """Discard everything: the virtual host is deleted, with its queues and its definition."""
        self.gone = True
        for attempt in list(self._attempts.values()):
            self.discard(attempt, f"vhost '{self.record.vhost}' is deleted")
        for commit in self._commits:
            self._notes.drop(commit.note)
            self._discards.extend(commit.attempts)
        self._commits.clear()
        while self._discards:
            try:
                self._discard_some(self._discards[0])
            except StorageError:
                self._discards.popleft()
        self.drop_state()

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """Restore a note. Notes come before the entries of any queue, in the order in which they were written."""
        body = entry.message.body
        kind = body[:1]
        if kind == _STATE:
            _, epoch, next_batch, owners = body.split(b" ", 3)
            self.epoch = int(epoch)
            self.next_batch = int(next_batch)
            self.owner, *self._former = _decode_owners(owners)
            self._state = entry
            return
        if kind == _RETIREMENT:
            self._retirement = entry
            return
        numbers = [int(word) for word in body.split(b" ")[1:]]
        if kind == _BEGIN:
            epoch_then, batch, partition, number = numbers
            begun = Attempt(self, (batch, partition, number), epoch_then, entry.seq)
            begun.notes.append(entry)
            self._found[int(entry.seq)] = begun
        elif kind == _COMMIT:
            self._found_commits.append((entry, numbers))
            for serial in numbers:
                self._attempt_found(serial).is_committed = True
        elif kind == _RUN:
            serial, queue_id, first, count = numbers
            attempt = self._attempt_found(serial)
            attempt.notes.append(entry)
            queue = self._stages.queue_by_id(queue_id)
            if queue is not None:
                attempt.part_of(queue).reserve_again(first, count)
        elif kind == _APPEND:
            serial, queue_id, _, last, offset = numbers
            stream = self._stages.queue_by_id(queue_id)
            if stream is None:
                self._notes.drop(entry)
            else:
                self._appends.append((entry, self._attempt_found(serial).part_of(stream), last, offset))
        else:
            attempt = self._attempt_found(numbers[0])
            attempt.completion = entry
            attempt.count = numbers[1]
            attempt.expected = numbers[2:]

    def _attempt_found(self, serial: int) -> Attempt:
        """Return the attempt of this serial number; create a nameless one if the note of its beginning was damaged."""
        found = self._found.get(serial)
        if found is None:
            found = Attempt(self, (-1, -1, -1), 0, serial)
            self._found[serial] = found
        return found

    def start_at(self, seq: i64) -> None:
        self._notes.start_at(seq)
        for note, part, last, offset in self._appends:
            self._settle_appended(note, part, last, offset)
        self._appends = []
        for note, serials in self._found_commits:
            self._commits.append(Commit([self._found.pop(serial) for serial in serials], note, self._recovered_client))
        for attempt in self._found.values():
            attempt.is_complete = attempt.completion is not None and self._is_whole(attempt)
            is_known = attempt.epoch == self.epoch and attempt.key[0] >= self.next_batch
            is_wanted = self._retirement is None and attempt.is_complete and is_known
            earlier = self._attempts.get(attempt.key)
            if is_wanted and earlier is not None:
                self.discard(earlier, "it has begun again")
            if is_wanted:
                self._attempts[attempt.key] = attempt
            else:
                self._discard(attempt)
        self._found = {}
        self._found_commits = []
        if self._commits or self._discards or self._retirement is not None:
            self._work()

    def _is_whole(self, attempt: Attempt) -> bool:
        """Whether all counted messages were found, except those of queues that were deleted since."""
        expected = attempt.expected
        attempt.expected = []
        for queue_id, count in zip(expected[::2], expected[1::2], strict=True):
            queue = self._stages.queue_by_id(queue_id)
            if queue is not None and attempt.part_of(queue).count != count:
                return False
        return True

    def _settle_appended(self, note: Entry, part: QueuePart, last: i64, offset: i64) -> None:
        """Settle the copies up to the number `last` that the stream has from `offset` on."""
        self._stages.tick.has_appended = True
        stream = part.queue
        assert isinstance(stream, StreamQueue)
        self._notes.begin_group()
        part.settle_first(stream.log.next_offset - offset, last)
        self._notes.drop(note)
        self._notes.end_group()


@final
class _AppendNotes(AppendNotes):
    """The notes of one deferred append: of one part of a commit."""

    def __init__(self, stage: Stage, commit: Commit, part: QueuePart) -> None:
        self._stage = stage
        self._commit = commit
        self._part = part

    def write(self, entries: list[Entry], offset: i64) -> Entry:
        return self._stage.note_append(self._part, entries, offset)

    def drop(self, note: Entry) -> None:
        self._stage.drop_append_note(note)

    def appended(self, entries: list[Entry], note: Entry | None) -> None:
        self._commit.appends_pending -= 1
        self._stage.appended(self._part, entries, note)


def _check_room(attempts: list[Attempt]) -> None:
    """Raises PreconditionFailed if a full queue would refuse some of the attempts' messages."""
    counts: dict[Queue, int] = {}
    sizes: dict[Queue, int] = {}
    for attempt in attempts:
        for queue, part in attempt.parts.items():
            if queue.is_guarded and not queue.gone:
                counts[queue] = counts.get(queue, 0) + part.count
                sizes[queue] = sizes.get(queue, 0) + part.size
    for queue, count in counts.items():
        if not has_room_for(queue, count, sizes[queue]):
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{queue.vhost}' has no room for the staged messages"
            )


def _encode_owners(owners: list[str]) -> bytes:
    """Encode owners, each with its length in front: an owner may be any text."""
    texts = [owner.encode() for owner in owners]
    return b"".join([b"%d:%s" % (len(text), text) for text in texts])


def _decode_owners(data: bytes) -> list[str]:
    owners: list[str] = []
    while data:
        length, _, data = data.partition(b":")
        owners.append(data[: int(length)].decode())
        data = data[int(length) :]
    return owners
