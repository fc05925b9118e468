"""A node's storage as tests use it: with a codec, and with somebody to wait for the sync thread."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flintmq.base.errors import StorageFenced
from flintmq.base.limits import SEGMENT_BYTES
from flintmq.broker.message import PERSISTENT, Address, ContentCodec, Entry, Message, MessageOptions, Table
from flintmq.broker.ports import StreamLog
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import Disk
from flintmq.storage.group_commit import GroupCommit, Rounds, SyncThread
from flintmq.storage.node import NodeStorage
from flintmq.storage.replication.log import OperationLog


class PlainCodec(ContentCodec):
    """Properties that say nothing but that the message is to be kept."""

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


CODEC = PlainCodec()
CODEC.format = 7
CODECS: dict[int, ContentCodec] = {7: CODEC}
ADDRESS = Address("ex", "key")


def message(body: bytes, timestamp_ms: int = 1_700_000_000_000, address: Address = ADDRESS) -> Message:
    return Message(address, CODEC, b"pp", body, PERSISTENT, timestamp_ms)


class OpenNode:
    """Opens and recovers the storage; `left` is what was on each queue, `seqs` what comes next on it."""

    def __init__(
        self,
        path: Path,
        queue_ids: tuple[int, ...] = (1, 2),
        disk: Disk | None = None,
        segment: int = SEGMENT_BYTES,
        *,
        database: Callable[[Path], DefinitionDatabase] = DefinitionDatabase,
        group_commit: Callable[[Rounds], GroupCommit] = SyncThread,
        reserve: int = 0,
        log: OperationLog | None = None,
    ) -> None:
        self.path = path
        self._changed = threading.Event()

        def remembered(rounds: Rounds) -> GroupCommit:
            self._rounds = rounds
            return group_commit(rounds)

        self.storage = NodeStorage(
            path,
            CODECS,
            self._changed.set,
            disk,
            segment,
            database=database,
            group_commit=remembered,
            reserve_bytes=reserve,
            log=log,
        )
        self.left: dict[int, list[Entry]] = {queue_id: [] for queue_id in queue_ids}
        try:
            for queue_id, entries in self.storage.recover(set(queue_ids), set()):
                self.left[queue_id] += entries
        except BaseException:
            self.storage.close()
            raise
        self.seqs = {queue_id: self.storage.recovered_next_seq(queue_id) for queue_id in queue_ids}

    def publish(self, body: bytes, *queue_ids: int) -> list[Entry]:
        """Stage one message for these queues (queue 1 unless told)."""
        chosen = list(queue_ids or (1,))
        sent = message(body)
        entries = []
        for queue_id in chosen:
            entries.append(Entry(sent, self.seqs[queue_id]))
            self.seqs[queue_id] += 1
        self.storage.journal.append(sent, chosen, entries)
        return entries

    def sync(self) -> int:
        """Commit, and wait until it is durable, and files are cleaned up; raises StorageFenced if it never will be."""
        number = self.storage.commit()
        self.wait_for(number)
        return number

    def wait_for(self, number: int) -> None:
        while self.storage.durable_batch < number:
            if self.storage.failure:
                raise StorageFenced(self.storage.failure)
            assert self._changed.wait(60), "the sync thread made no progress"
            self._changed.clear()
        self.wait_until_tidy()

    def wait_until_tidy(self) -> None:
        """Until the sync thread has done what comes behind the sync that it has reported last.

        Before, the files that a test looks at come and go.
        """
        rounds = self._rounds
        deadline = time.monotonic() + 60
        while rounds.is_untidy and not rounds.failure and not rounds.full:
            assert time.monotonic() < deadline, "the sync thread does not clean up"
            time.sleep(0.0001)

    def bodies(self, queue_id: int = 1) -> list[bytes]:
        return [entry.message.body for entry in self.left[queue_id]]

    def close(self) -> None:
        self.storage.close()


def crashed_copy(node: OpenNode, to: Path) -> Path:
    """The directory as it is now: what a kill of the process would leave."""
    node.wait_until_tidy()
    shutil.copytree(node.path, to)
    return to


def segments(path: Path) -> list[Path]:
    return sorted((path / "journal").glob("*.journal"))


# An offset, and the message there.
Record = tuple[int, Message]


def records(stream: StreamLog, offset: int, count: int = 1 << 30, ahead_bytes: int = 4096) -> list[Record]:
    """The durable records of a stream from an offset on."""
    cursor = stream.cursor(offset, ahead_bytes)
    found: list[Record] = []
    while len(found) < count and (message := cursor.next(stream.durable_offset)) is not None:
        found.append((cursor.offset - 1, message))
    return found
