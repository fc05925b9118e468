"""Recovery of queues from real files: torn, damaged, compacted, or closed normally."""

from pathlib import Path
from zlib import crc32

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.message import PERSISTENT, Address, Entry, Message
from flintmq.storage.node import NodeStorage
from tests.unit.storage.nodes import CODEC, CODECS, OpenNode, crashed_copy, message, segments


def _reopened(path: Path, queue_ids: tuple[int, ...] = (1, 2), segment: int = 1 << 26) -> OpenNode:
    """Open a directory just to see what is in it."""
    node = OpenNode(path, queue_ids, segment=segment)
    node.close()
    return node


def test_entries_come_back_in_order(tmp_path: Path) -> None:
    """After a restart the unsettled entries are there, in order, whole, in their segment, and marked redelivered."""
    node = OpenNode(tmp_path)
    entries = [node.publish(b"%d" % i)[0] for i in range(1, 101)]
    for entry in entries[10:20]:
        node.storage.journal.settle(1, entry)
    node.close()
    left = _reopened(tmp_path).left[1]
    assert [entry.seq for entry in left] == [*range(1, 11), *range(21, 101)]
    assert [entry.message.body for entry in left] == [b"%d" % entry.seq for entry in left]
    first = left[0]
    assert (first.segment, first.redelivered, first.message.options.persistent) == (1, True, True)
    assert (first.message.properties, first.message.timestamp_ms) == (b"pp", 1_700_000_000_000)
    assert (first.message.address.exchange, first.message.address.routing_key) == ("ex", "key")
    assert first.message.codec is CODECS[7]


def test_replaced_message_is_the_later_one_wherever_it_stands(tmp_path: Path) -> None:
    """The later record counts, also in one block, and if the queue is not in journal order."""
    node = OpenNode(tmp_path)
    entries = [node.publish(b"%d" % number)[0] for number in range(3)]
    node.storage.journal.replace(1, entries[1], message(b"another"))
    node.close()
    reopened = _reopened(tmp_path)
    assert reopened.bodies() == [b"0", b"another", b"2"]
    assert [entry.seq for entry in reopened.left[1]] == [1, 2, 3]


def test_fan_out_is_one_message_again(tmp_path: Path) -> None:
    """Queues that shared a message share it after a restart, and lose it one by one."""
    node = OpenNode(tmp_path)
    first, _ = node.publish(b"both", 1, 2)
    node.publish(b"also both", 1, 2)
    node.storage.journal.settle(1, first)
    node.close()
    left = _reopened(tmp_path).left
    assert [entry.message.body for entry in left[2]] == [b"both", b"also both"]
    assert left[1][0].message is left[2][1].message


def test_entries_come_in_runs_of_one_queue(tmp_path: Path) -> None:
    """Neighbours of one queue are restored together, and a message of two queues ends the run."""
    node = OpenNode(tmp_path)
    for queue_ids in ((1,), (1,), (2,), (1, 2), (2,)):
        node.publish(b"", *queue_ids)
    node.close()
    found = NodeStorage(tmp_path, CODECS, lambda: None)
    runs = [(queue_id, [entry.seq for entry in entries]) for queue_id, entries in found.recover({1, 2}, set())]
    found.close()
    assert runs == [(1, [1, 2]), (2, [1]), (1, [3]), (2, [2, 3])]


def test_messages_that_differ_in_one_byte_stay_different(tmp_path: Path) -> None:
    """An address, or properties, like those of the message before are its own, however little they differ."""
    texts = ["k" * size for size in range(20)]
    texts += ["k" * at + "x" + "k" * (19 - at) for at in range(20)]
    sent = [Message(Address("ex", text), CODEC, text.encode(), b"", PERSISTENT, 1) for text in texts for _ in range(2)]
    node = OpenNode(tmp_path)
    for number, each in enumerate(sent, 1):
        node.storage.journal.append(each, [1], [Entry(each, number)])
    node.close()
    left = [entry.message for entry in _reopened(tmp_path).left[1]]
    assert [(each.address.routing_key, each.properties) for each in left] == [
        (each.address.routing_key, each.properties) for each in sent
    ]
    assert all(one.address is other.address for one, other in zip(left[::2], left[1::2], strict=True))
    assert all(one.properties is other.properties for one, other in zip(left[::2], left[1::2], strict=True))


def test_unknown_queues_are_forgotten(tmp_path: Path) -> None:
    """Messages of deleted queues are not recovered, and keep no segment."""
    node = OpenNode(tmp_path)
    node.publish(b"gone", 2)
    node.publish(b"kept", 1, 2)
    node.close()
    reopened = _reopened(tmp_path, (1,))
    assert reopened.bodies() == [b"kept"]
    node = OpenNode(tmp_path, (3,))
    node.sync()
    node.close()
    assert len(segments(tmp_path)) == 1


def _definitions(path: Path) -> dict[Path, bytes]:
    return {path / f"definitions.sqlite{suffix}": b"" for suffix in ("", "-wal")} | {
        file: file.read_bytes() for file in path.glob("definitions.sqlite*") if file.suffix != ".sqlite-shm"
    }


def _put_back(definitions: dict[Path, bytes]) -> None:
    """Restore the definitions, which know which segments there were."""
    for file, content in definitions.items():
        file.write_bytes(content)
        file.with_name("definitions.sqlite-shm").unlink(missing_ok=True)


def test_seqs_are_not_reused(tmp_path: Path) -> None:
    """A queue goes on behind its highest seq, even when that one was settled, and over several restarts."""
    node = OpenNode(tmp_path)
    last = [node.publish(b"%d" % i)[0] for i in range(1, 6)][-1]
    node.storage.journal.settle(1, last)
    node.close()
    for _ in range(3):
        reopened = _reopened(tmp_path)
        assert reopened.seqs == {1: 6, 2: 1}
        assert len(reopened.bodies()) == 4


def test_seqs_are_not_reused_while_a_settlement_speaks_of_them(tmp_path: Path) -> None:
    """A queue goes on behind a seq whose message is gone with its segment, and of which only the settlement is left."""
    node = OpenNode(tmp_path, segment=1000)
    entry = node.publish(b"x" * 1000)[0]
    node.sync()
    node.publish(b"keeps the segment", 2)
    node.storage.journal.settle(1, entry)
    node.close()
    assert [file.name for file in segments(tmp_path)] == [f"{2:020d}.journal"]
    assert _reopened(tmp_path).seqs == {1: 2, 2: 2}


def test_settlement_in_a_later_segment_counts(tmp_path: Path) -> None:
    """A settlement finds its message in an earlier segment."""
    node = OpenNode(tmp_path, segment=1000)
    entries = [node.publish(b"x" * 1000)[0] for _ in range(2)]
    node.sync()
    node.publish(b"later")
    node.storage.journal.settle(1, entries[1])
    node.close()
    assert [entry.seq for entry in _reopened(tmp_path).left[1]] == [1, 3]


def test_torn_at_every_byte(tmp_path: Path) -> None:
    """Wherever a crash tears the last writes, every earlier batch is recovered, and the journal continues."""
    node = OpenNode(tmp_path / "node")
    sizes = []
    for i in range(3):
        node.publish(b"body %d" % i)
        node.sync()
        sizes.append(segments(node.path)[0].stat().st_size)
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    file = segments(crashed)[0]
    whole = file.read_bytes()
    definitions = _definitions(crashed)
    for size in range(sizes[0], sizes[2] + 1):
        _put_back(definitions)
        for leftover in [*segments(crashed), crashed / "journal" / "spare"]:
            leftover.unlink(missing_ok=True)
        file.write_bytes(whole[:size])
        node = OpenNode(crashed)
        expected = [b"body 0", b"body 1", b"body 2"][: sum(size >= end for end in sizes)]
        assert node.bodies() == expected, size
        assert node.storage.damage == []
        node.publish(b"next")
        node.close()
        assert _reopened(crashed).bodies() == [*expected, b"next"], size


def test_cut_blocks_do_not_come_back(tmp_path: Path) -> None:
    """Blocks that were cut off stay gone after new records and further restarts."""
    node = OpenNode(tmp_path / "node")
    node.publish(b"first")
    node.sync()
    before = segments(node.path)[0].stat().st_size
    node.publish(b"torn")
    node.publish(b"x" * 5000)
    node.publish(b"behind the tear")
    node.sync()
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    _flip(segments(crashed)[0], before + 40)
    for _ in range(3):
        node = OpenNode(crashed)
        assert node.bodies() == [b"first"]
        assert node.storage.damage == []
        node.close()
    assert b"behind the tear" not in segments(crashed)[0].read_bytes()


def test_damage_in_the_middle_is_reported_and_hides_nothing(tmp_path: Path) -> None:
    """A broken block that was synced costs its own messages: they are reported, not delivered; the rest is there."""
    node = OpenNode(tmp_path)
    ends = []
    for i in range(5):
        node.publish(b"body %d" % i)
        node.sync()
        ends.append(segments(tmp_path)[0].stat().st_size)
    node.close()
    file = segments(tmp_path)[0]
    whole = file.read_bytes()
    definitions = _definitions(tmp_path)
    for position in range(ends[1], ends[2]):
        _put_back(definitions)
        file.write_bytes(whole)
        _flip(file, position)
        node = OpenNode(tmp_path)
        lost = {b"body 2"} - set(node.bodies())
        assert set(node.bodies()) | lost == {b"body %d" % i for i in range(5)}, position
        # The mark between the two blocks can be hit as well; it costs no message.
        assert len(node.storage.damage) == 1
        assert str(file) in str(node.storage.damage[0])
        assert node.seqs[1] == 6
        node.close()
        for later in segments(tmp_path)[1:]:
            later.unlink()


def test_lost_header_sector_hides_nothing(tmp_path: Path) -> None:
    """A file whose header is gone is still read: its blocks say what its magic is."""
    node = OpenNode(tmp_path)
    node.publish(b"kept")
    node.close()
    file = segments(tmp_path)[0]
    file.write_bytes(bytes(64) + file.read_bytes()[64:])
    node = OpenNode(tmp_path)
    assert node.bodies() == [b"kept"]
    assert [damage.reason for damage in node.storage.damage] == ["the file's header does not match its checksum"]
    node.close()


def test_lost_first_sector_hides_nothing_behind_it(tmp_path: Path) -> None:
    """If the header is lost with the only mark, the blocks behind tell the magic, and do not count as torn."""
    node = OpenNode(tmp_path / "a")
    for number in range(300):
        node.publish(b"%d" % number * 10)
    node.sync()
    copy = crashed_copy(node, tmp_path / "b")
    node.close()
    file = segments(copy)[0]
    file.write_bytes(b"\xff" * 512 + file.read_bytes()[512:])
    node = OpenNode(copy)
    left = node.bodies()
    assert left == [b"%d" % number * 10 for number in range(300 - len(left), 300)]
    assert len(left) > 200
    assert [damage.position for damage in node.storage.damage] == [0, 64]
    node.close()
    node = OpenNode(copy)
    assert node.bodies() == left
    node.close()


def test_a_last_segment_with_nothing_intact_is_reported_and_kept_aside(tmp_path: Path) -> None:
    """An unreadable last segment counts as damaged, and is copied and reported before its file is reused."""
    node = OpenNode(tmp_path / "a")
    node.publish(b"lost" * 100)
    node.sync()
    copy = crashed_copy(node, tmp_path / "b")
    node.close()
    file = segments(copy)[0]
    data = bytes(range(255, -1, -1)) * 4
    file.write_bytes(data)
    node = OpenNode(copy)
    assert node.bodies() == []
    assert [(damage.position, damage.length) for damage in node.storage.damage] == [(0, 64), (64, len(data) - 64)]
    kept = [Path(damage.kept_in).read_bytes() for damage in node.storage.quarantine_damage()]
    assert b"".join(kept) == data
    node.publish(b"next")
    node.close()
    node = OpenNode(copy)
    assert node.bodies() == [b"next"]
    node.close()


def test_a_segment_behind_the_tail_with_nothing_intact_does_not_make_it_whole(tmp_path: Path) -> None:
    """The tail before an unreadable segment is still cut; the damaged file stays as long as older ones do."""
    node = OpenNode(tmp_path / "a")
    node.publish(b"kept")
    node.sync()
    copy = crashed_copy(node, tmp_path / "b")
    node.close()
    first = segments(copy)[0]
    with first.open("ab") as file:
        file.write(b"torn")
    ahead = first.with_name(f"{2:020d}.journal")
    ahead.write_bytes(b"\xff" * 64)
    for _ in range(2):
        node = OpenNode(copy)
        assert node.bodies() == [b"kept"]
        assert {damage.file for damage in node.storage.damage} == {str(ahead)}
        node.close()


def test_damage_in_an_earlier_segment_is_never_a_tear(tmp_path: Path) -> None:
    """Only the last segment can be torn: in an earlier one, even the last block's loss is reported."""
    node = OpenNode(tmp_path, segment=1000)
    node.publish(b"x" * 1000)
    node.sync()
    end = segments(tmp_path)[0].stat().st_size
    node.publish(b"in the second segment")
    node.sync()
    node.close()
    _flip(segments(tmp_path)[0], end - 1)
    node = OpenNode(tmp_path, segment=1000)
    assert node.bodies() == [b"in the second segment"]
    assert len(node.storage.damage) == 1
    node.close()


def test_an_earlier_segment_that_was_cut_short_is_damaged(tmp_path: Path) -> None:
    """An earlier segment without its end has lost something, even when all that is left is intact."""
    node = OpenNode(tmp_path, segment=1000)
    node.publish(b"first")
    node.sync()
    end = segments(tmp_path)[0].stat().st_size
    node.publish(b"x" * 1000)
    node.sync()
    node.publish(b"in the second segment")
    node.close()
    first = segments(tmp_path)[0]
    first.write_bytes(first.read_bytes()[:end])
    node = OpenNode(tmp_path, segment=1000)
    assert node.bodies() == [b"first", b"in the second segment"]
    assert [damage.reason for damage in node.storage.damage] == ["the file ends without its seal"]
    node.close()


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    """A journal of another format stops the start and says what to do."""
    OpenNode(tmp_path).close()
    file = segments(tmp_path)[0]
    _set_version(file, 9)
    with pytest.raises(StorageError, match="storage format 9"):
        OpenNode(tmp_path)


def _set_version(file: Path, version: int) -> None:
    """Set the version in a header, with its checksum."""
    header = file.read_bytes()[:11] + bytes([version]) + file.read_bytes()[12:36]
    file.write_bytes((header + crc32(header).to_bytes(4)).ljust(64, b"\x00") + file.read_bytes()[64:])


def test_a_segment_under_another_name_is_refused(tmp_path: Path) -> None:
    """A file that says it is another segment was misplaced by somebody."""
    node = OpenNode(tmp_path)
    node.publish(b"b")
    node.close()
    segments(tmp_path)[0].rename(tmp_path / "journal" / f"{9:020d}.journal")
    with pytest.raises(StorageError, match="is not segment 9"):
        OpenNode(tmp_path)


def test_unknown_content_format_is_refused(tmp_path: Path) -> None:
    """A message of a protocol this broker does not know is not delivered as something else."""
    node = OpenNode(tmp_path)
    sent = message(b"b")
    CODECS[7].format = 8
    try:
        node.storage.journal.append(sent, [1], [node.publish(b"")[0]])
    finally:
        CODECS[7].format = 7
    node.close()
    with pytest.raises(StorageError, match="content format 8"):
        OpenNode(tmp_path)


def _flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x04
    file.write_bytes(data)


def test_moved_messages_are_in_order(tmp_path: Path) -> None:
    """Messages that compaction wrote behind newer ones are recovered in queue order, however often they moved."""
    node = OpenNode(tmp_path, segment=3000)
    kept = []
    for number in range(150):
        kept += node.publish(b"%d-" % number * 100, 1, 2) if number % 20 == 0 else node.publish(b"k", 1)
        node.storage.journal.settle(1, node.publish(b"y" * 500)[0])
        node.sync()
        if number % 20 > 0:
            node.storage.journal.settle(1, kept.pop())
    assert segments(tmp_path)[0].name > f"{6:020d}.journal"
    node.close()
    left = _reopened(tmp_path).left
    for queue_id in (1, 2):
        assert [entry.message.body for entry in left[queue_id]] == [
            b"%d-" % number * 100 for number in range(0, 150, 20)
        ]
        assert [entry.seq for entry in left[queue_id]] == sorted(entry.seq for entry in left[queue_id])
