"""Notes in the journal: facts to restore at the next start.

The notes of one owner are entries of a queue that nobody consumes from. They are written and dropped in the same groups
and batches as the messages that they are about.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import PERSISTENT, Address, ContentCodec, Entry, Message, MessageOptions, Table
from flintmq.broker.ports import Journal, JournalRanges

_NO_ADDRESS: Final = Address("", "")


@final
class NoteCodec(ContentCodec):
    """The codec of notes, which are a body without properties."""

    format = 0

    def headers(self, properties: bytes) -> Table:
        return {}

    def property_text(self, properties: bytes, name: str) -> str:
        return ""

    def property_value(self, properties: bytes, name: str) -> object:
        return None

    def options(self, properties: bytes) -> MessageOptions:
        return PERSISTENT

    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        return properties


NOTE_CODEC: Final = NoteCodec()


@final
class Notes:
    """Writes and drops the notes of the queue `queue_id`."""

    def __init__(self, queue_id: int, journal: Journal) -> None:
        self._id = queue_id
        self._journal = journal
        self._seq: i64 = 0

    def start_at(self, seq: i64) -> None:
        self._seq = seq

    def write(self, text: bytes) -> Entry:
        entry = Entry(Message(_NO_ADDRESS, NOTE_CODEC, NOTE_CODEC.nothing, text, PERSISTENT, 0), self._seq)
        self._seq += 1
        self._journal.append(entry.message, [self._id], [entry])
        return entry

    def drop(self, note: Entry) -> None:
        self._journal.settle(self._id, note)

    def drop_runs(self, ranges: JournalRanges) -> None:
        """Drop notes of which only the places in the journal are known."""
        self._journal.settle_runs(self._id, ranges.seqs, ranges.slots)

    def begin_group(self) -> None:
        """Open a group: after a crash, all that is staged until `end_group` is restored, or nothing of it."""
        self._journal.begin_group()

    def end_group(self) -> None:
        self._journal.end_group()
