"""SQLite's write-ahead log at a start."""

import shutil
from pathlib import Path

from flintmq.broker.ports import VHostRecord
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode


def test_log_is_written_again_before_it_is_read(tmp_path: Path) -> None:
    """Commits of a killed broker are there, and the start has synced them."""
    node = OpenNode(tmp_path / "a")
    node.storage.definitions.put_vhost(VHostRecord("committed"))
    node.sync()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    disk = FaultyDisk()
    restarted = OpenNode(tmp_path / "b", disk=disk)
    assert [vhost.name for vhost in restarted.storage.definitions.load().vhosts] == ["committed"]
    begin = disk.calls.index("write definitions.sqlite-wal")
    assert disk.calls[begin + 1] == "sync definitions.sqlite-wal"
    restarted.close()
    node.close()
    ended = FaultyDisk()
    OpenNode(tmp_path / "a", disk=ended).close()
    assert not [call for call in ended.calls if "wal" in call]
