"""The stored offsets of a stream's named readers: a reader that comes back continues at its offset."""

from typing import Final, final

from flintmq.broker.ports import DefinitionStore, ReaderOffset
from flintmq.broker.queue.reader import Reader
from flintmq.broker.tick import Tick
from flintmq.broker.timers import CallbackTimer

# The delay before an offset is stored. After a crash, acknowledgements within this time are lost, and their messages
# delivered again.
_STORE_DELAY_MS: Final = 250


@final
class ReaderOffsets:
    """The stored offsets of the readers of one stream, `by_name`, whether they are subscribed now or not."""

    def __init__(self, stream_id: int, tick: Tick, definitions: DefinitionStore) -> None:
        self.by_name: dict[str, int] = {}
        self._stream_id = stream_id
        self._tick = tick
        self._definitions = definitions
        # Readers that may have moved since the timer was set.
        self._moved: dict[Reader, None] = {}
        self._timer = CallbackTimer(self._store_moved)

    def restore(self, record: ReaderOffset) -> None:
        """Restore the offset of a reader at start-up."""
        self.by_name[record.reader] = record.offset

    def store_soon(self, reader: Reader) -> None:
        """Have the offset of a reader stored, if it has a name and may have moved."""
        if reader.is_unkept and reader.name:
            self._moved[reader] = None
            self._tick.timers.at(self._tick.now_ms + _STORE_DELAY_MS, self._timer)

    def _store_moved(self, now_ms: int) -> None:
        moved, self._moved = self._moved, {}
        for reader in moved:
            self.store(reader)

    def store(self, reader: Reader) -> None:
        """Store the offset of a reader now, if it has a name and has moved."""
        # While a reader still looks for its start time, its offset would not say that.
        if not reader.is_unkept or not reader.name or not reader.is_active or reader.since_ms != 0:
            return
        reader.is_unkept = False
        offset = int(reader.place)
        if self.by_name.get(reader.name) != offset:
            self.by_name[reader.name] = offset
            self._definitions.put_reader_offset(ReaderOffset(self._stream_id, reader.name, offset))

    def forget(self) -> None:
        """Store nothing more, because the stream is deleted."""
        self._moved = {}
        self._tick.timers.cancel(self._timer)
