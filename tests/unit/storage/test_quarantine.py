"""The quarantine of damaged bytes and of streams without a queue."""

from pathlib import Path

import pytest

from flintmq.storage import quarantine
from flintmq.storage.block import Damage
from flintmq.storage.files import RealDisk
from flintmq.storage.quarantine import Quarantine
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode, message, records, segments


def _spoil(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x20
    file.write_bytes(data)


def _copies(path: Path) -> list[Path]:
    return sorted((path / "quarantine").glob("*"))


def test_damage_is_kept_once(tmp_path: Path) -> None:
    """The broken block of a journal is copied as it is, told of once, and not copied again by the next start."""
    node = OpenNode(tmp_path)
    node.publish(b"first")
    node.sync()
    start = segments(tmp_path)[0].stat().st_size
    node.publish(b"second")
    node.sync()
    node.close()
    file = segments(tmp_path)[0]
    _spoil(file, start + 40)
    for _ in range(2):
        node = OpenNode(tmp_path)
        (damage,) = node.storage.quarantine_damage()
        assert node.storage.quarantine_damage() == []
        assert node.storage.damage == [damage]
        (copy,) = _copies(tmp_path)
        assert copy.name == f"journal-{file.name}-{damage.position}-{damage.length}"
        assert damage.kept_in == str(copy)
        assert copy.read_bytes() == file.read_bytes()[damage.position : damage.position + damage.length]
        node.close()


def test_damage_of_streams_is_kept(tmp_path: Path) -> None:
    """Damaged bytes of a stream are copied, too."""
    node = OpenNode(tmp_path)
    for number in range(3):
        node.storage.open_stream(5).append(message(b"%d" % number * 5_000))
        node.sync()
    node.close()
    (file,) = (tmp_path / "streams" / "5").glob("*.stream")
    _spoil(file, 6_000)
    node = OpenNode(tmp_path)
    stream = node.storage.open_stream(5)
    node.storage.quarantine_damage()
    assert [offset for offset, _ in records(stream, 0, 10)] == [0, 2]
    node.storage.quarantine_damage()
    (damage,) = node.storage.damage
    assert Path(damage.kept_in).read_bytes() == file.read_bytes()[damage.position : damage.position + damage.length]
    node.close()


def test_the_quarantine_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the beginning of a large damage is copied, and nothing at the limit of the quarantine."""
    monkeypatch.setattr(quarantine, "COPY_MAX_BYTES", 100)
    monkeypatch.setattr(quarantine, "QUARANTINE_MAX_BYTES", 250)
    file = tmp_path / "journal" / "1.journal"
    file.parent.mkdir()
    file.write_bytes(bytes(range(256)) * 4)
    places = [Damage(str(file), position, "broken", 300) for position in (0, 300, 600)]
    keeper = Quarantine(RealDisk(), tmp_path)
    for damage in places:
        keeper.keep(damage)
    assert [bool(damage.kept_in) for damage in places] == [True, True, False]
    assert [copy.stat().st_size for copy in _copies(tmp_path)] == [100, 100]
    again = Damage(str(file), 900, "broken", 60)
    Quarantine(RealDisk(), tmp_path).keep(again)
    assert again.kept_in == ""


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    """Damage that cannot be copied is only reported."""
    disk = FaultyDisk(fail_at=0)
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    damage = Damage(str(file), 10, "broken", 20)
    Quarantine(disk, tmp_path).keep(damage)
    assert damage.kept_in == ""


def test_orphaned_streams_are_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of a queue that does not exist goes to the quarantine, as it is, unless that is full; others stay."""
    node = OpenNode(tmp_path)
    for queue_id in (5, 6, 7):
        node.storage.open_stream(queue_id).append(message(b"b"))
    node.sync()
    node.close()
    streams = tmp_path / "streams"
    content = {path.name: path.read_bytes() for path in (streams / "5").iterdir()}
    monkeypatch.setattr(quarantine, "ORPHANS_MAX_BYTES", 1.5 * sum(map(len, content.values())))
    node = OpenNode(tmp_path)
    kept = tmp_path / "quarantine" / "stream-5"
    assert node.storage.quarantine_orphans({6}) == [(streams / "5", kept), (streams / "7", None)]
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == content
    assert sorted(path.name for path in streams.iterdir()) == ["6", "7"]
    assert node.storage.open_stream(6).next_offset == 1
    node.close()


def test_copies_are_counted_without_streams(tmp_path: Path) -> None:
    """A stream that was set aside does not keep damaged bytes from being copied."""
    (tmp_path / "quarantine" / "stream-5").mkdir(parents=True)
    damage = Damage(str(tmp_path / "file"), 10, "broken", 20)
    (tmp_path / "file").write_bytes(bytes(100))
    Quarantine(RealDisk(), tmp_path).keep(damage)
    assert damage.kept_in
