"""The part of the journal that a restart reads if segments are dead behind live ones."""

import shutil
from collections import Counter
from pathlib import Path

from flintmq.storage.block import BLOCK_HEAD_BYTES, decode_header, scan_blocks
from flintmq.storage.journal.checkpoint import Checkpoint, encode_checkpoint
from flintmq.storage.journal.occupancy import Occupancy
from flintmq.storage.journal.records import RECORD_CHECKPOINT
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode, crashed_copy, segments

# Five messages of half a kilobyte fill one.
SEGMENT = 2_500
KEPT = [b"kept %d;" % number * 90 for number in range(12)]


def _with_dead_ones(path: Path) -> OpenNode:
    """A journal whose first segments have the live messages, between settled ones; the later segments are dead."""
    node = OpenNode(path, segment=SEGMENT)
    for body in KEPT:
        node.publish(body, 2)
        passing = node.publish(b"p" * 100)
        node.sync()
        node.storage.journal.settle(1, passing[0])
    for _ in range(16):
        passing = node.publish(b"p" * 500)
        node.sync()
        node.storage.journal.settle(1, passing[0])
    node.sync()
    return node


def _crashed(tmp_path: Path) -> Path:
    node = _with_dead_ones(tmp_path / "a")
    path = crashed_copy(node, tmp_path / "b")
    node.close()
    return path


def _read(path: Path) -> tuple[OpenNode, set[str]]:
    """Start on it; returns the node, and the segments of which more was read than the header."""
    disk = FaultyDisk(reads=True)
    node = OpenNode(path, disk=disk, segment=SEGMENT)
    reads = Counter(call.split()[1] for call in disk.calls if call.startswith("read "))
    oldest = segments(path)[0].name
    # The headers of all others say which segment was before them.
    return node, {name for name in reads if name.endswith(".journal") and reads[name] > (name != oldest)}


def _checkpoints(path: Path) -> list[tuple[Path, int, int]]:
    """The segments that begin with one, where its block begins, and where that ends."""
    found = []
    for segment in segments(path):
        data = segment.read_bytes()
        header = decode_header(data, segment.name)
        assert header is not None
        scan = scan_blocks(data, header.block_magic, segment.name, synced_whole=True)
        if scan.starts and data[scan.starts[0]] == RECORD_CHECKPOINT:
            found.append((segment, scan.starts[0] - BLOCK_HEAD_BYTES, scan.starts[0] + scan.lengths[0]))
    return found


def _spoil(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(data)


def _is_whole(node: OpenNode) -> bool:
    return node.bodies(2) == KEPT and node.bodies(1) == []


def test_dead_segments_are_not_read(tmp_path: Path) -> None:
    """A start reads the segments where something lives, and what was written since the last one began."""
    path = _crashed(tmp_path)
    all_names = {segment.name for segment in segments(path)}
    node, names = _read(path)
    assert _is_whole(node)
    assert node.storage.damage == []
    assert len(all_names - names) >= 2
    node.close()


def test_numbers_go_on_behind_those_that_were_not_read(tmp_path: Path) -> None:
    """No number is given twice while a segment speaks of it, read or not."""
    before = _with_dead_ones(tmp_path / "a")
    node, _ = _read(crashed_copy(before, tmp_path / "b"))
    assert node.seqs[1] >= before.seqs[1]
    assert node.seqs[2] >= before.seqs[2]
    node.close()
    before.close()


def test_damaged_checkpoint_is_as_if_there_was_none(tmp_path: Path) -> None:
    """The one before it serves; without any, all is read; what is on the queues is the same."""
    path = _crashed(tmp_path)
    checkpoints = _checkpoints(path)
    assert len(checkpoints) >= 2
    names: set[str] = set()
    for number, (segment, begin, end) in enumerate(reversed(checkpoints)):
        _spoil(segment, (begin + end) // 2)
        node, names = _read(shutil.copytree(path, tmp_path / f"broken {number}"))
        assert _is_whole(node)
        assert len(node.storage.damage) == number + 1
        node.close()
    assert names >= {segment.name for segment in segments(path)}


def test_checkpoint_is_not_believed_about_what_is_damaged(tmp_path: Path) -> None:
    """If a live segment has lost a block, its slots do not match the checkpoint, and everything is read."""
    path = _crashed(tmp_path)
    _spoil(segments(path)[0], 200)
    all_names = {segment.name for segment in segments(path)}
    node, names = _read(path)
    assert len(node.storage.damage) == 1
    assert names >= all_names
    assert node.bodies(1) == []
    assert len(node.bodies(2)) == len(KEPT) - 1
    assert set(node.bodies(2)) < set(KEPT)
    node.close()


def test_returns_are_not_forgotten(tmp_path: Path) -> None:
    """A segment is read that has nothing else alive but how often a message of another one came back."""
    node = OpenNode(tmp_path / "a", segment=SEGMENT)
    kept = node.publish(b"kept", 2)
    for number in range(20):
        passing = node.publish(b"p" * 500)
        node.sync()
        if number == 5:
            kept[0].returns += 1
            node.storage.journal.returned(2, kept[0])
        node.storage.journal.settle(1, passing[0])
        if number == 12:
            # So that all this does not move forward.
            node.publish(b"w" * 9_000, 2)
    node.sync()
    restarted, _ = _read(crashed_copy(node, tmp_path / "b"))
    assert [entry.returns for entry in restarted.left[2]] == [1, 0]
    restarted.close()
    node.close()


def test_slots_are_what_they_were() -> None:
    """A checkpoint restores each form of live slots: none, all, a bitmap, and a list."""
    occupancy = Occupancy()
    gone = occupancy.open(1)
    gone.add(100_000, 1)
    gone.settle(0, 99_000)
    gone.settle(99_001, 100_000)
    dead = occupancy.open(2)
    dead.add(10, 1)
    dead.settle(0, 10)
    whole = occupancy.open(3)
    whole.add(10, 1)
    part = occupancy.open(4)
    part.add(21, 1)
    part.settle(3, 11)
    occupancy.open(5).add_moved(1, 1)
    gone.moved(99_000, gone, occupancy.current, 1)
    gone.is_gone = True
    gone.shrink()
    occupancy.open(6)
    record = encode_checkpoint(occupancy, 77)
    checkpoint = Checkpoint(record, 0)
    assert (checkpoint.highest_seq, checkpoint.first_own) == (77, 1)
    assert [number for number in range(8) if checkpoint.is_needed(number)] == [3, 4, 5]
    assert [slot for slot in range(100_000) if checkpoint.is_live(1, slot)] == [99_000]
    assert not any(checkpoint.is_live(2, slot) for slot in range(10))
    assert all(checkpoint.is_live(3, slot) for slot in range(10))
    assert [slot for slot in range(21) if checkpoint.is_live(4, slot)] == [0, 1, 2, *range(11, 21)]
    assert not checkpoint.is_live(7, 0)


def test_nothing_is_said_where_all_has_to_be_read(tmp_path: Path) -> None:
    """While no segment is dead behind another one, the journal has no checkpoints."""
    node = OpenNode(tmp_path, segment=SEGMENT)
    for _ in range(30):
        node.publish(b"k" * 500)
        node.sync()
    assert _checkpoints(tmp_path) == []
    node.close()
