"""Copies on their way into a stream, each exactly once, although streams have files of their own.

The journal and a stream are not written as one, so a note goes ahead: which copies come next, and at which offset the
first will be. It is the last thing that a tick does, and right behind that tick's batch the copies are appended, before
anything else can be. They get to the disk only once the note is there, and are settled together with it in the journal,
which is written behind the streams. So a restart that finds the note sees by the end of the stream how many it has.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.stage.copies import Part

if TYPE_CHECKING:
    from flintmq.broker.stage.stage import Release, Stage


@final
class DeferredAppend:
    def __init__(
        self, stage: "Stage", release: "Release", part: Part, stream: StreamQueue, entries: list[Entry]
    ) -> None:
        self.part = part
        self.stream = stream
        self.entries = entries
        self._stage = stage
        self._release = release
        self._note: Entry | None = None

    def plan(self, offset: i64) -> None:
        """The first of them will be at this offset. What was planned before went to no batch."""
        if self._note is not None:
            self._stage.drop_landing(self._note)
        self._note = self._stage.note_landing(self, offset)

    def land(self) -> None:
        """The batch with the note has been handed over."""
        stream = self.stream
        if not stream.gone:
            for entry in self.entries:
                stream.enqueue(entry.message)
        self._release.landing -= 1
        self._stage.landed(self, self._note)
