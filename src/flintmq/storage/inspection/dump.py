"""Dump of a data directory: the messages on its queues and in its streams, or every record of its files.

The journal is read twice: first for the settlements, then for the messages that are not settled. So memory holds ranges
of sequence numbers and one block, but no messages. Messages come in the order of the journal. Changes that a running
broker makes meanwhile may or may not be seen.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import final

from flintmq.base.errors import StorageError
from flintmq.broker.message import ContentCodec
from flintmq.broker.ports import QueueRecord
from flintmq.storage.block import TYPE_JOURNAL, TYPE_STREAM, Damage
from flintmq.storage.definitions.catalogue import decode_definitions
from flintmq.storage.inspection.directory import DataDirectory
from flintmq.storage.inspection.live_messages import LiveMessages
from flintmq.storage.inspection.records import (
    BrokenBlock,
    Describer,
    entries_of,
    journal_records,
    queue_of,
    return_of,
    settled_ranges,
    stream_records,
)
from flintmq.storage.journal.checkpoint import Checkpoint
from flintmq.storage.journal.records import (
    RECORD_CHECKPOINT,
    RECORD_DEFINITIONS,
    RECORD_MESSAGE,
    RECORD_MOVED,
    RECORD_RETURN,
    RECORD_SETTLEMENT,
    RECORD_UNDELIVERED,
    content_position,
)
from flintmq.storage.segment_reader import Block

# A message or a record as a JSON object.
Line = dict[str, object]


@final
class Dump:
    """Reads messages or records of one queue, or of all. `damage` lists the parts that could not be read. Raises
    StorageError.
    """

    def __init__(self, directory: Path, codecs: dict[int, ContentCodec]) -> None:
        self.damage: list[Damage] = []
        self._directory = DataDirectory(directory)
        self._describer = Describer(codecs)

    def messages(self, queue: str | None, vhost: str) -> Iterator[Line]:
        """The messages that a start would find on the queues, then the records of the streams; of one queue, or of all
        if `queue` is None.
        """
        queues = self._queues(queue, vhost)
        yield from self._on_queues(queues)
        for queue_id, segments in self._directory.streams.items():
            if (record := queues.get(queue_id)) is not None:
                for _, block, offset, position in self._in_stream(segments):
                    place: Line = {"vhost": record.vhost, "queue": record.name, "offset": int(offset)}
                    yield place | self._describer.describe(block.data, position)

    def _queues(self, queue: str | None, vhost: str) -> dict[int, QueueRecord]:
        found = self._directory.definitions().queues
        if queue is None:
            return {record.id: record for record in found}
        queues = {record.id: record for record in found if (record.name, record.vhost) == (queue, vhost)}
        if not queues:
            raise StorageError(f"no durable queue '{queue}' in vhost '{vhost}' of {self._directory.path}")
        return queues

    def _on_queues(self, queues: dict[int, QueueRecord]) -> Iterator[Line]:
        places = LiveMessages(set(queues))
        for path, block, position in self._in_journal():
            kind = block.data[position]
            if kind in (RECORD_MESSAGE, RECORD_MOVED):
                places.message(path, block.data, position)
            elif kind == RECORD_SETTLEMENT:
                places.settlement(block.data, position)
            elif kind == RECORD_RETURN:
                places.returned(block.data, position)
        live = places.live()
        replaced = places.replaced
        # The second pass finds the same damage again; it is dropped below.
        found = len(self.damage)
        for path, block, position in self._in_journal():
            if block.data[position] in (RECORD_MESSAGE, RECORD_MOVED):
                in_segment = live.get(path, {})
                for queue_id, seq in entries_of(block.data, position):
                    record = queues.get(queue_id)
                    if replaced.get((path, queue_id, seq), 0) > 0:
                        replaced[path, queue_id, seq] -= 1
                    elif record is not None and queue_id in in_segment and seq in in_segment[queue_id]:
                        returns = places.returns.get((queue_id, seq), 0)
                        place: Line = {"vhost": record.vhost, "queue": record.name, "seq": seq, "returns": returns}
                        yield place | self._describer.describe(block.data, content_position(block.data, position))
        del self.damage[found:]

    def records(self, queue: str | None, vhost: str) -> Iterator[Line]:
        """All records that are still in the files, settled or not; about one queue, or all if `queue` is None."""
        wanted = None if queue is None else set(self._queues(queue, vhost))
        for path, block, position in self._in_journal():
            line = self._describe_record(block.data, position)
            if wanted is None or wanted & _queue_ids(block.data, position):
                yield {"file": path, "position": block.position_of(position)} | line
        for queue_id, segments in self._directory.streams.items():
            if wanted is None or queue_id in wanted:
                for path, block, offset, position in self._in_stream(segments):
                    place = {"file": path, "position": block.position_of(position), "record": "stream"}
                    yield place | {"offset": int(offset)} | self._describer.describe(block.data, position)

    def _describe_record(self, data: bytes, position: int) -> Line:
        kind = data[position]
        if kind in (RECORD_MESSAGE, RECORD_MOVED):
            places = [{"queue_id": queue_id, "seq": seq} for queue_id, seq in entries_of(data, position)]
            line: Line = {"record": "message" if kind == RECORD_MESSAGE else "moved", "places": places}
            return line | self._describer.describe(data, content_position(data, position))
        if kind == RECORD_SETTLEMENT:
            ranges = [{"first": first, "length": length} for first, length in settled_ranges(data, position)]
            return {"record": "settlement", "queue_id": queue_of(data, position), "ranges": ranges}
        if kind == RECORD_CHECKPOINT:
            checkpoint = Checkpoint(data, position)
            needed = [number for number in checkpoint.covered if checkpoint.is_needed(number)]
            unneeded = [number for number in checkpoint.covered if not checkpoint.is_needed(number)]
            return {"record": "checkpoint", "live_segments": needed, "dead_segments": unneeded}
        if kind == RECORD_DEFINITIONS:
            described = decode_definitions(data, position)
            marks = {"identity": described.identity, "generation": described.generation}
            return {"record": "definitions", **marks, "whole": described.is_whole, "entries": described.entries}
        if kind == RECORD_UNDELIVERED:
            ranges = [{"first": first, "length": length} for first, length in settled_ranges(data, position)]
            return {"record": "undelivered", "queue_id": queue_of(data, position), "ranges": ranges}
        seq, returns = return_of(data, position)
        return {"record": "return", "queue_id": queue_of(data, position), "seq": seq, "returns": returns}

    def _in_journal(self) -> Iterator[tuple[str, Block, int]]:
        """The records of the journal: segment, block, and position in the block's data."""
        for path, block in self._blocks(self._directory.journal):
            try:
                if block.type != TYPE_JOURNAL:
                    raise BrokenBlock
                for position in journal_records(block.data, block.at, block.length):
                    yield path, block, position
            except BrokenBlock:
                self._pass_over(path, block)

    def _in_stream(self, segments: list[str]) -> Iterator[tuple[str, Block, int, int]]:
        """The records of a stream: segment, block, offset, and position of the content in the block's data."""
        for path, block in self._blocks(segments):
            try:
                if block.type != TYPE_STREAM:
                    raise BrokenBlock
                for offset, position in stream_records(block.data, block.at, block.length):
                    yield path, block, offset, position
            except BrokenBlock:
                self._pass_over(path, block)

    def _blocks(self, segments: list[str]) -> Iterator[tuple[str, Block]]:
        for path in segments:
            with self._directory.segment(path) as reader:
                if reader is not None:
                    for block in reader.blocks(self._directory.synced_position(path, reader)):
                        yield path, block
                    if self._directory.is_unchanged(path):
                        self.damage += reader.damage

    def _pass_over(self, path: str, block: Block) -> None:
        self.damage.append(Damage(path, block.start, "the block's records do not fill it"))


def _queue_ids(data: bytes, position: int) -> set[int]:
    if data[position] in (RECORD_MESSAGE, RECORD_MOVED):
        return {queue_id for queue_id, _ in entries_of(data, position)}
    if data[position] in (RECORD_CHECKPOINT, RECORD_DEFINITIONS):
        return set()
    return {queue_of(data, position)}
