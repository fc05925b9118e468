"""A disk for data that nobody keeps waits for nothing."""

import os
import sqlite3
from pathlib import Path

import pytest

from flintmq.storage.definitions.database import DefinitionDatabase, connect
from flintmq.storage.ephemeral import EphemeralDisk


@pytest.fixture
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int) -> None:
        raise AssertionError("nobody waits for this disk")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "fdatasync", refuse)


@pytest.mark.usefixtures("_no_syncs")
def test_files_are_not_synced(tmp_path: Path) -> None:
    """Written data can be read from the same file and from one opened again, and no call syncs."""
    disk = EphemeralDisk()
    disk.make_directory(tmp_path / "a" / "b")
    path = tmp_path / "a" / "b" / "file"
    file = disk.create(path)
    file.write_through(0, [b"one", b"two"])
    file.write_at(6, [b"three"])
    file.sync()
    file.truncate(9)
    disk.sync_directory(path.parent)
    file.close()
    again = disk.open(path)
    again.write_through(0, [b"O"] * 2_000)
    again.truncate(2)
    assert again.read_at(0, 100) == b"OO"
    again.close()


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("OFF", 0)])
def test_definitions_are_synced_as_told(tmp_path: Path, synchronous: str, number: int) -> None:
    """SQLite syncs each transaction, unless it is told that nobody keeps the file."""
    made: list[sqlite3.Connection] = []

    def remembered(path: Path) -> sqlite3.Connection:
        made.append(connect(path))
        return made[0]

    database = DefinitionDatabase(tmp_path / "definitions.sqlite", remembered, synchronous)  # type: ignore[arg-type]
    assert made[0].execute("PRAGMA synchronous").fetchone() == (number,)
    database.close()
