"""Evidence for lost definitions, collected from journal and streams."""

import json
import secrets
from contextlib import suppress
from typing import Any, final

from flintmq.broker.notes import NOTE_CODEC
from flintmq.storage.backup.manifest import Progress
from flintmq.storage.block import TYPE_JOURNAL
from flintmq.storage.definitions.catalogue import EXCHANGE, QUEUE, VHOST, DefinitionsRecord, decode_definitions
from flintmq.storage.inspection.directory import DataDirectory
from flintmq.storage.inspection.live_messages import LiveMessages
from flintmq.storage.inspection.records import BrokenBlock, entries_of, journal_records
from flintmq.storage.journal.records import (
    RECORD_DEFINITIONS,
    RECORD_MESSAGE,
    RECORD_MOVED,
    RECORD_SETTLEMENT,
    content_position,
)
from flintmq.storage.stream.files import DESCRIPTION

# Kind and id; for exchanges, kind and pair of virtual host and name; for virtual hosts, kind and name.
Key = tuple[str, object]


@final
class Evidence:
    """The definitions that journal and streams describe, and the ids of queues that have messages."""

    def __init__(self) -> None:
        self.known: dict[Key, dict[str, Any]] = {}
        self._gone: set[Key] = set()
        # True if a record with all definitions was found, and the highest id that was known then.
        self._is_whole = False
        self._whole_through = 0
        self.newest: DefinitionsRecord | None = None
        self.highest_id = 0
        self.streams: set[int] = set()
        # Ids of the queues with messages.
        self.live: set[int] = set()
        self._ids: set[int] = set()
        self._live_messages = LiveMessages(self._ids)

    def read(self, directory: DataDirectory, progress: Progress) -> None:
        for path in directory.journal:
            with directory.segment(path) as reader:
                if reader is None:
                    continue
                for block in reader.blocks(directory.synced_position(path, reader)):
                    if block.type == TYPE_JOURNAL:
                        with suppress(BrokenBlock):
                            self._read_block(path, block.data, block.at, block.length)
                progress(reader.size)
        for in_segment in self._live_messages.live().values():
            self.live |= {queue_id for queue_id, places in in_segment.items() if queue_id > 0 and places.count}
        for queue_id in directory.streams:
            self.streams.add(queue_id)
            self._see(queue_id)
            with suppress(OSError, ValueError):
                text = (directory.path / "streams" / str(queue_id) / DESCRIPTION).read_text()
                self.known.setdefault((QUEUE, queue_id), json.loads(text))

    def _read_block(self, path: str, data: bytes, start: int, length: int) -> None:
        for position in journal_records(data, start, length):
            record = data[position]
            if record == RECORD_DEFINITIONS:
                with suppress(ValueError):
                    self._describe(decode_definitions(data, position))
            elif record in (RECORD_MESSAGE, RECORD_MOVED):
                is_note = data[content_position(data, position)] == NOTE_CODEC.format
                for queue_id, _ in entries_of(data, position):
                    self._see(queue_id)
                    if queue_id > 0 and not is_note:
                        self._ids.add(queue_id)
                self._live_messages.message(path, data, position)
            elif record == RECORD_SETTLEMENT:
                self._live_messages.settlement(data, position)

    def _see(self, queue_id: int) -> None:
        self.highest_id = max(self.highest_id, abs(queue_id))

    def _describe(self, described: DefinitionsRecord) -> None:
        self.newest = described
        if described.is_whole:
            self._is_whole = True
            self.known.clear()
            self._gone.clear()
        for entry in described.entries:
            key = key_of(entry)
            if "id" in entry:
                self._see(entry["id"])
            if not entry.get("gone"):
                self.known[key] = entry
                self._gone.discard(key)
                continue
            self.known.pop(key, None)
            self._gone.add(key)
            if entry["kind"] == VHOST:
                self.known = {key: each for key, each in self.known.items() if each.get("vhost") != entry["name"]}
        if described.is_whole:
            self._whole_through = self.highest_id

    @property
    def identity(self) -> int:
        """The identity of the definitions; a new one if the journal does not have it."""
        return self.newest.identity if self.newest is not None else secrets.randbits(62) | 1

    def was_deleted(self, key: Key) -> bool:
        """Tell whether an object was deleted, according to the journal."""
        if key in self.known:
            return False
        is_older = self._is_whole and (not isinstance(key[1], int) or key[1] <= self._whole_through)
        return key in self._gone or is_older


def key_of(entry: dict[str, Any]) -> Key:
    kind = entry["kind"]
    if kind == VHOST:
        return kind, entry["name"]
    return kind, (entry["vhost"], entry["name"]) if kind == EXCHANGE else entry["id"]
