"""Appends staged copies to a stream exactly once, although streams and the journal are separate files.

A note in the journal precedes the append: it says which copies follow, and at which offset the first one will be.
Writing it is the last action of a tick. The copies are appended directly behind that tick's batch, before anything else
can be. They are written to disk only after the note, and are settled together with it in the journal, which is written
after the streams. A restart that finds the note can therefore tell from the end of the stream how many copies it has.
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from flintmq.broker.message import Entry
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.tick import DeferredWork


@trait
class AppendNotes:
    """Writes and drops the notes of one deferred append."""

    @abstractmethod
    def write(self, entries: list[Entry], offset: i64) -> Entry:
        """Write a note that these entries will be in their stream from this offset on."""

    @abstractmethod
    def drop(self, note: Entry) -> None:
        """Drop a note, because nothing was appended."""

    @abstractmethod
    def appended(self, entries: list[Entry], note: Entry | None) -> None:
        """The stream has the messages: settle the copies together with the note."""


@final
class DeferredAppend(DeferredWork):
    """Messages of one part of a commit, to be appended to a stream directly behind the tick's batch."""

    def __init__(self, notes: AppendNotes, stream: StreamQueue, entries: list[Entry]) -> None:
        self._notes = notes
        self._stream = stream
        self._entries = entries
        self._note: Entry | None = None

    def plan(self, offsets: dict[int, int]) -> None:
        stream = self._stream
        if stream.gone:
            return
        offset = offsets.get(stream.id, stream.log.next_offset)
        offsets[stream.id] = offset + len(self._entries)
        # The note of an earlier plan was not in any batch.
        if self._note is not None:
            self._notes.drop(self._note)
        self._note = self._notes.write(self._entries, offset)

    def run(self) -> None:
        stream = self._stream
        if not stream.gone:
            for entry in self._entries:
                stream.enqueue(entry.message)
        self._notes.appended(self._entries, self._note)
