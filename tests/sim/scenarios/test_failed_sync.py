"""After a sync that failed, a system shows what it will never write: a start must not build on that."""

import errno
import os
import random
import sqlite3
from pathlib import Path

import pytest

from flintmq.broker.message import Entry
from flintmq.broker.ports import VHostRecord
from flintmq.storage.content import ContentReader
from flintmq.storage.definitions.database import rewrite_log
from flintmq.storage.definitions.store import SqliteDefinitions
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from flintmq.storage.stream.encoder import StreamEncoder
from flintmq.storage.stream.files import StreamFiles
from tests.sim.database import DatabaseFile
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.nodes import CODECS, message

_JOURNAL = Path("/data/journal")
_STREAM = Path("/data/streams/1")
_DEFINITIONS = Path("/data/definitions.sqlite")


class _FailingDisk:
    """Fails the next call of a kind, once."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(seed)
        self.fails = ""
        self.disk.trouble = self._trouble

    def _trouble(self, what: str, name: str) -> None:
        if what == self.fails:
            self.fails = ""
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)


def _recover(disk: SimulatedDisk) -> tuple[JournalFiles, JournalEncoder, list[bytes]]:
    files = JournalFiles(disk, _JOURNAL, 10_000)
    encoder = JournalEncoder(10_000, files.chunks)
    replay = Replay(CODECS, {1})
    encoder.start(files.recover(replay, encoder.occupancy))
    found = replay.entries(files, encoder.occupancy)
    return files, encoder, [entry.message.body for _, entries in found for entry in entries]


@pytest.mark.parametrize("seed", range(10))
def test_what_a_start_finds_in_the_journal_outlives_a_power_loss(seed: int) -> None:
    """What the restart read stays, for it may have removed older segments because of it: nothing of it is damage."""
    failing = _FailingDisk(seed)
    files, encoder, _ = _recover(failing.disk)
    for number in range(3):
        encoder.append(message(b"%d" % number * 2_000), [1], [Entry(message(b""), number)])
    batch = encoder.take()
    files.write(batch.segment, batch.blocks)
    failing.fails = "sync"
    with pytest.raises(OSError, match="Input/output"):
        files.sync()
    _, _, found = _recover(failing.disk)
    assert found == [b"%d" % number * 2_000 for number in range(3)]
    failing.disk.lose_power()
    files, _, later = _recover(failing.disk)
    assert (later, files.damage) == (found, [])


@pytest.mark.parametrize("seed", range(10))
def test_what_a_start_finds_in_a_stream_outlives_a_power_loss(seed: int) -> None:
    """What the restart gave to readers stays: no other record gets its offset."""
    failing = _FailingDisk(seed)
    files = StreamFiles(failing.disk, _STREAM, 100_000, ContentReader(CODECS))
    encoder = StreamEncoder(0, 0)
    for number in range(3):
        encoder.append(message(b"%d" % number * 2_000))
    files.write(encoder.take())
    failing.fails = "sync"
    with pytest.raises(OSError, match="Input/output"):
        files.sync()
    assert _next_offset(failing.disk) == 3
    failing.disk.lose_power()
    assert _next_offset(failing.disk) == 3


@pytest.mark.parametrize("seed", range(10))
def test_what_a_start_does_not_find_of_a_stream_does_not_come_back(seed: int) -> None:
    """A segment stays away that retention had removed when the sync of the directory failed."""
    failing = _FailingDisk(seed)
    files = StreamFiles(failing.disk, _STREAM, 3_000, ContentReader(CODECS))
    encoder = StreamEncoder(0, 0)
    for number in range(6):
        encoder.append(message(b"%d" % number * 2_000))
        files.write(encoder.take())
        files.sync()
    files.max_bytes = 1
    files.retire_at_ms = 1
    failing.fails = "sync-directory"
    with pytest.raises(OSError, match="Input/output"):
        files.tidy()
    found = _first_offset(failing.disk)
    assert found > 0
    failing.disk.lose_power()
    assert _first_offset(failing.disk) == found


@pytest.mark.parametrize("seed", range(10))
def test_what_a_start_finds_of_definitions_outlives_a_power_loss(seed: int) -> None:
    """A virtual host that the restart has shown to clients stays, though the sync of its COMMIT had failed."""
    failing = _FailingDisk(seed)
    database = DatabaseFile(random.Random(seed), failing.disk, _DEFINITIONS)
    database.trouble = failing.disk.trouble
    changes = SqliteDefinitions(database.open(_DEFINITIONS))
    changes.put_vhost(VHostRecord("doubtful"))
    failing.fails = "commit"
    with pytest.raises(sqlite3.OperationalError):
        database.open(_DEFINITIONS).apply(changes.take())
    rewrite_log(failing.disk, _DEFINITIONS)
    found = database.open(_DEFINITIONS).load().vhosts
    failing.disk.lose_power()
    database.lose_power()
    assert database.open(_DEFINITIONS).load().vhosts == found


def _first_offset(disk: SimulatedDisk) -> int:
    files = StreamFiles(disk, _STREAM, 3_000, ContentReader(CODECS))
    files.recover()
    return files.segments[0].first_offset


def _next_offset(disk: SimulatedDisk) -> int:
    files = StreamFiles(disk, _STREAM, 100_000, ContentReader(CODECS))
    files.recover()
    assert files.damage == []
    return files.written_offset
