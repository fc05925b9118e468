"""The life of segment files: made ahead, filled, removed when dead, and used again."""

from pathlib import Path

from flintmq.broker.message import Entry
from flintmq.storage.block import decode_header, scan_blocks
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode, segments


def _names(path: Path) -> list[str]:
    return [file.name.lstrip("0") for file in sorted((path / "journal").iterdir())]


def _fill(node: OpenNode, count: int) -> list[Entry]:
    """Messages of half a kilobyte, a batch each."""
    entries = []
    for _ in range(count):
        entries += node.publish(b"x" * 500)
        node.sync()
    return entries


def _count(file: Path, content: bytes) -> int:
    """How often it occurs in a segment, but for what an earlier life of the file left behind."""
    data = file.read_bytes()
    header = decode_header(data, str(file))
    assert header is not None
    scan = scan_blocks(data, header.block_magic, str(file), synced_whole=True)
    return sum(data.count(content, at, at + size) for at, size in zip(scan.starts, scan.lengths, strict=True))


def _settle_down(node: OpenNode) -> None:
    """Commit until compaction has nothing left to do: what the sync thread has read is there for the next commit."""
    for _ in range(500):
        before = node.storage.durable_batch
        if node.sync() == before:
            return
    raise AssertionError("it goes on for ever")


def test_dead_segments_are_removed_and_used_again(tmp_path: Path) -> None:
    """A queue that is consumed keeps the journal small, however much goes through it."""
    node = OpenNode(tmp_path, segment=10_000)
    names = set()
    for _ in range(20):
        for entry in _fill(node, 10):
            node.storage.journal.settle(1, entry)
        assert len(_names(tmp_path)) <= 4
        names.update(_names(tmp_path))
    assert "spare" in names
    node.close()
    reopened = OpenNode(tmp_path)
    assert (reopened.bodies(), reopened.storage.damage) == ([], [])
    reopened.close()


def test_a_segment_waits_for_the_sync_of_its_last_settlement(tmp_path: Path) -> None:
    """A segment is removed only after the settlements that emptied it are synced."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk, segment=1000)
    entries = _fill(node, 3)
    for entry in entries:
        node.storage.journal.settle(1, entry)
    disk.calls.clear()
    node.publish(b"awaited")
    node.sync()
    node.close()
    removal = disk.calls.index("rename spare")
    assert any(call.startswith("sync 0") for call in disk.calls[:removal])


def test_segments_are_removed_oldest_first_each_durably(tmp_path: Path) -> None:
    """No crash can keep an old segment and lose a newer one that settled its messages."""
    disk = FaultyDisk()
    node = OpenNode(tmp_path, disk=disk, segment=1000)
    for entry in _fill(node, 8):
        node.storage.journal.settle(1, entry)
    disk.calls.clear()
    node.publish(b"awaited")
    node.sync()
    node.close()
    kept = [call for call in disk.calls if call.startswith(("rename spare", "unlink", "sync-directory"))]
    assert kept[:6] == [
        "rename spare",
        "sync-directory journal",
        f"unlink {2:020d}.journal",
        "sync-directory journal",
        f"unlink {3:020d}.journal",
        "sync-directory journal",
    ]


def test_next_segment_is_made_ahead(tmp_path: Path) -> None:
    """When a segment is half full the next one is already there, and a restart does not mistake it for the tail."""
    node = OpenNode(tmp_path, segment=10_000)
    _fill(node, 5)
    assert len(segments(tmp_path)) == 1
    _fill(node, 8)
    node.close()
    assert len(segments(tmp_path)) == 2
    reopened = OpenNode(tmp_path)
    assert len(reopened.bodies()) == 13
    assert reopened.storage.damage == []
    reopened.close()


def test_stuck_message_does_not_keep_the_journal_growing(tmp_path: Path) -> None:
    """A message that nobody consumes is moved forward, so that everything around it can be removed."""
    node = OpenNode(tmp_path, segment=10_000)
    stuck = node.publish(b"stuck", 1, 2)
    for _ in range(30):
        for entry in _fill(node, 10):
            node.storage.journal.settle(1, entry)
    assert len(segments(tmp_path)) <= 6
    assert segments(tmp_path)[0].name > f"{1:020d}.journal"
    assert stuck[0].segment == 1
    node.storage.journal.settle(2, stuck[1])
    node.close()
    reopened = OpenNode(tmp_path)
    assert reopened.bodies() == [b"stuck"]
    assert reopened.bodies(2) == []
    assert (reopened.left[1][0].seq, reopened.storage.damage) == (1, [])
    reopened.close()


def test_what_was_drained_is_given_back_while_nothing_is_published(tmp_path: Path) -> None:
    """Settlements alone begin the emptying of segments; once begun it goes on by commits that have nothing else."""
    node = OpenNode(tmp_path, segment=10_000)
    node.publish(b"stuck", 2)
    entries = _fill(node, 200)
    assert len(segments(tmp_path)) > 10
    for entry in entries:
        node.storage.journal.settle(1, entry)
        if entry.seq % 5 == 0:
            node.sync()
    _settle_down(node)
    assert len(segments(tmp_path)) <= 2
    node.close()
    node = OpenNode(tmp_path, segment=10_000)
    assert (node.bodies(), node.bodies(2), node.storage.damage) == ([], [b"stuck"], [])
    node.close()


def test_nothing_is_removed_for_settlements_that_were_discarded(tmp_path: Path) -> None:
    """A start that fails takes back what it has staged: what that would have emptied is still there."""
    node = OpenNode(tmp_path, segment=10_000)
    node.publish(b"stuck", 2)
    # Little is left of it: the next start begins to empty segments.
    for entry in _fill(node, 200)[:160]:
        node.storage.journal.settle(1, entry)
    node.close()
    failing = OpenNode(tmp_path, segment=10_000)
    for queue_id, entries in failing.left.items():
        for entry in entries:
            failing.storage.journal.settle(queue_id, entry)
    failing.storage.discard()
    failing.storage.commit()
    failing.close()
    reopened = OpenNode(tmp_path, segment=10_000)
    assert (len(reopened.bodies()), reopened.bodies(2)) == (40, [b"stuck"])
    reopened.close()


def test_moved_fan_out_stays_one_record(tmp_path: Path) -> None:
    """Moving a message of many queues, also after a restart, does not multiply its body."""
    queue_ids = tuple(range(1, 41))
    node = OpenNode(tmp_path, queue_ids, segment=10_000)
    node.publish(b"y" * 3000, *queue_ids)
    node.close()
    node = OpenNode(tmp_path, queue_ids, segment=10_000)
    for _ in range(12):
        for entry in _fill(node, 10):
            node.storage.journal.settle(1, entry)
    assert segments(tmp_path)[0].name > f"{2:020d}.journal"
    _settle_down(node)
    assert sum(_count(file, b"y" * 3000) for file in segments(tmp_path)) == 1
    node.close()


def test_live_messages_are_not_moved_for_nothing(tmp_path: Path) -> None:
    """A journal full of live messages is left as it is."""
    node = OpenNode(tmp_path, segment=10_000)
    entries = _fill(node, 150)
    assert entries[0].segment == 1
    node.close()


def test_a_segment_with_another_name_is_not_written_over(tmp_path: Path) -> None:
    """A file that a backup has linked does not change when the journal no longer needs it."""
    node = OpenNode(tmp_path / "data", segment=10_000)
    entries = _fill(node, 5)
    held = tmp_path / "held"
    held.hardlink_to(segments(node.path)[0])
    before = held.read_bytes()
    for _ in range(20):
        for entry in entries:
            node.storage.journal.settle(1, entry)
        entries = _fill(node, 10)
    assert not (node.path / "journal" / f"{1:020d}.journal").exists()
    # It may have grown, since it was being written; its header and what it had are the same.
    assert held.read_bytes()[: len(before)] == before
    node.close()


def test_entries_that_nobody_has_are_moved(tmp_path: Path) -> None:
    """Compaction needs no entry: it reads the segment; and their first place still settles them, as does a purge."""
    node = OpenNode(tmp_path, segment=10_000)
    kept = _fill(node, 4)
    kept[0].returns = 2
    node.storage.journal.returned(1, kept[0])
    places = [(int(entry.seq), int(entry.segment), int(entry.slot)) for entry in kept]
    del kept
    for _ in range(30):
        for entry in _fill(node, 10):
            node.storage.journal.settle(1, entry)
    assert segments(tmp_path)[0].name > f"{places[-1][1]:020d}.journal"
    seq, segment, slot = places[1]
    node.storage.journal.settle_runs(1, [seq, 2], [segment, slot, 2])
    node.close()
    node = OpenNode(tmp_path, segment=10_000)
    assert [(entry.seq, entry.returns) for entry in node.left[1]] == [(places[0][0], 2), (places[3][0], 0)]
    assert node.storage.damage == []
    node.close()


def test_a_segment_that_is_damaged_meanwhile_stays(tmp_path: Path) -> None:
    """A block that compaction cannot read is reported, and its segment stays: a restart finds the rest."""
    node = OpenNode(tmp_path, segment=10_000)
    kept = _fill(node, 4)
    first = segments(tmp_path)[0]
    data = bytearray(first.read_bytes())
    data[data.rindex(b"x" * 500)] ^= 1
    first.write_bytes(data)
    for _ in range(30):
        for entry in _fill(node, 10):
            node.storage.journal.settle(1, entry)
    assert segments(tmp_path)[0] == first
    assert [damage.file for damage in node.storage.damage] == [str(first)]
    node.close()
    node = OpenNode(tmp_path, segment=10_000)
    assert [entry.seq for entry in node.left[1]] == [entry.seq for entry in kept[:3]]
    node.close()
