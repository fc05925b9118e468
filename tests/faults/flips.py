"""A data directory of which every block is known, and what may be missing when some of its bytes are spoiled."""

import random
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from flintmq.base.errors import StorageError
from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord
from flintmq.storage.block import BLOCK_HEAD_BYTES, TYPE_JOURNAL, decode_header, scan_blocks
from flintmq.storage.journal.records import RECORD_DEFINITIONS
from tests.unit.storage.nodes import OpenNode, message, records

QUEUES: Final = (1, 2)
STREAM: Final = 9
BATCHES: Final = 40
SEGMENT_BYTES: Final = 4_000
# A disk loses sectors, and what it gives instead is of another file, or nothing.
SECTOR_BYTES: Final = 512


@dataclass
class Batch:
    """What one block of the journal holds: messages by queue, and settlements."""

    published: list[tuple[int, bytes]] = field(default_factory=list)
    settled: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    begin: int
    end: int
    number: int


@dataclass
class Verdict:
    """`is_refused`: the node said at its start that it cannot read the file."""

    file: str
    way: str
    was_found: bool = False
    is_refused: bool = False
    lost: int = 0


class Ground:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "ground"
        self._batches: list[Batch] = []
        self._records: list[bytes] = []
        self._make()
        self._blocks = {
            **self._map("journal", "*.journal"),
            **self._map(f"streams/{STREAM}", "*.stream"),
        }
        self._files = sorted(path for path in self._path.rglob("*") if path.is_file() and path.stat().st_size > 0)
        self._last = {max(self._path.glob("journal/*.journal"), key=self._rank), max(self._path.rglob("*.stream"))}

    def _rank(self, path: Path) -> tuple[bool, str]:
        return bool(self._blocks[path]), path.name

    def _make(self) -> None:
        node = OpenNode(self._path, QUEUES, segment=SEGMENT_BYTES)
        stream = node.storage.open_stream(STREAM)
        entries: list[tuple[int, bytes, Entry]] = []
        for number in range(BATCHES):
            batch = Batch()
            for part in range(3):
                queue = QUEUES[part % 2]
                body = b"%d.%d:" % (number, part) + bytes([number]) * 100
                batch.published.append((queue, body))
                entries.append((queue, body, node.publish(body, queue)[0]))
            if number % 3 == 2:
                queue, body, entry = entries.pop(0)
                batch.settled.append((queue, body))
                node.storage.journal.settle(queue, entry)
            self._batches.append(batch)
            self._records.append(b"record %d:" % number + bytes([number]) * 300)
            stream.append(message(self._records[-1]))
            node.storage.definitions.put_queue(QueueRecord(100 + number, "/", f"queue {number}"))
            node.sync()
        node.close()

    def _map(self, directory: str, names: str) -> dict[Path, list[Block]]:
        """The blocks of each file that have messages: their numbers run on from file to file."""
        number = 0
        found: dict[Path, list[Block]] = {}
        for path in sorted((self._path / directory).glob(names)):
            data = path.read_bytes()
            header = decode_header(data, path.name)
            assert header is not None
            scan = scan_blocks(data, header.block_magic, path.name, True)
            found[path] = []
            for start, length in zip(scan.starts, scan.lengths, strict=True):
                if data[start - 1 : start + 1] == bytes([TYPE_JOURNAL, RECORD_DEFINITIONS]):
                    # No message is lost with it.
                    continue
                found[path].append(Block(start - BLOCK_HEAD_BYTES, start + length, number))
                number += 1
        assert number == BATCHES
        return found

    def damage(self, seed: int) -> Verdict:
        """Spoil something somewhere; raises AssertionError if more than that is missing, or anything is altered."""
        chance = random.Random(seed)
        path = chance.choice(self._files)
        data = bytearray(path.read_bytes())
        way, touched = _spoil(data, chance)
        verdict = Verdict(path.relative_to(self._path).parts[0], way)
        broken = self._directory / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(self._path, broken)
        (broken / path.relative_to(self._path)).write_bytes(data)
        blocks = self._blocks.get(path, [])
        hit = {block.number for block in blocks if block.begin < touched.stop and touched.start < block.end}
        verdict.lost = len(hit)
        what = f"seed {seed}: {way} in {path.relative_to(self._path)} at {touched}"
        try:
            self._check(broken, path, hit, verdict)
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        # Where the end of the last file is spoiled with the mark behind it, which says that it was synced, it looks as
        # after a crash.
        ends = [block.end for block in blocks if block.number in hit]
        is_torn = path in self._last and touched.stop > max(ends, default=0)
        assert verdict.was_found or not hit or is_torn, f"{what} was not found"
        return verdict

    def _check(self, broken: Path, path: Path, hit: set[int], verdict: Verdict) -> None:
        try:
            node = OpenNode(broken, QUEUES, segment=SEGMENT_BYTES)
        except StorageError:
            assert verdict.file == "definitions.sqlite", "it does not start"
            verdict.is_refused = True
            return
        try:
            in_stream = verdict.file == "streams"
            found = [record.body for _, record in records(node.storage.open_stream(STREAM), 0)]
            _compare(found, self._records, {self._records[number] for number in hit} if in_stream else set(), set())
            lost = [self._batches[number] for number in hit] if verdict.file == "journal" else []
            for queue in QUEUES:
                published = _of(queue, (batch.published for batch in self._batches))
                settled = _of(queue, (batch.settled for batch in self._batches))
                back = set(_of(queue, (batch.settled for batch in lost)))
                gone = set(_of(queue, (batch.published for batch in lost)))
                due = [body for body in published if body not in settled or body in back]
                _compare(node.bodies(queue), due, gone | back, set(settled) & gone)
            verdict.was_found = bool(node.storage.damage)
            try:
                node.storage.definitions.load()
            except StorageError:
                assert verdict.file == "definitions.sqlite"
                verdict.is_refused = True
        finally:
            node.close()


def _of(queue: int, batches: Iterable[list[tuple[int, bytes]]]) -> list[bytes]:
    return [body for batch in batches for place, body in batch if place == queue]


def _compare(found: list[bytes], due: list[bytes], may_lack: set[bytes], may_have: set[bytes]) -> None:
    """`found` is `due`, in order, but for what was lost with a block, or came back with one."""
    known = set(due) | may_have
    assert all(body in known for body in found), "altered, or from nowhere"
    there = set(found)
    assert [body for body in found if body not in may_have] == [body for body in due if body in there], "mixed up"
    assert not set(due) - there - may_lack, "more is missing than the block"


def _spoil(data: bytearray, chance: random.Random) -> tuple[str, range]:
    """Returns what was done, and to which bytes."""
    at = chance.randrange(len(data))
    way = chance.random()
    if way < 0.7:
        data[at] ^= 1 << chance.randrange(8)
        return "bit", range(at, at + 1)
    if way < 0.85:
        size = len(data)
        del data[at:]
        return "truncation", range(at, size)
    begin = at // SECTOR_BYTES * SECTOR_BYTES
    end = min(begin + SECTOR_BYTES, len(data))
    data[begin:end] = bytes(end - begin) if way < 0.93 else chance.randbytes(end - begin)
    return "sector", range(begin, end)


def verdicts(directory: Path, first: int, count: int) -> Iterator[Verdict]:
    ground = Ground(directory)
    for seed in range(first, first + count):
        yield ground.damage(seed)
