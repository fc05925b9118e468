"""Messages that nobody has had are not flagged by a start, if the broker before it stopped in order and said so."""

from pathlib import Path

import pytest

from flintmq.broker.ports import QueueRecord
from flintmq.storage.definitions.database import DefinitionDatabase
from tests.unit.storage.nodes import OpenNode, crashed_copy, message, segments


def _stopped(path: Path, *, is_moved: bool = False) -> None:
    """Ten messages, of which numbers 3 to 5, and 9, were not delivered; or so that not all stand in their order."""
    node = OpenNode(path)
    node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    entries = [node.publish(b"%d" % number)[0] for number in range(1, 11)]
    node.sync()
    if is_moved:
        node.storage.journal.replace(1, entries[0], message(b"1"))
    node.storage.journal.undelivered(1, [3, 3, 9, 1])
    node.storage.journal.undelivered(7, [1, 10])
    node.close()


def _flags(node: OpenNode) -> dict[int, bool]:
    return {int(entry.seq): entry.redelivered for entry in node.left[1]}


@pytest.mark.parametrize("is_moved", [False, True])
def test_after_a_clean_stop(tmp_path: Path, is_moved: bool) -> None:
    """Only what is not mentioned is flagged, whatever order the journal has; a next start without a word flags all."""
    _stopped(tmp_path, is_moved=is_moved)
    node = OpenNode(tmp_path)
    assert [entry.seq for entry in node.left[1]] == list(range(1, 11))
    assert _flags(node) == {seq: seq not in (3, 4, 5, 9) for seq in range(1, 11)}
    node.close()
    node = OpenNode(tmp_path)
    assert all(_flags(node).values())
    node.close()


def test_after_a_crash_behind_it(tmp_path: Path) -> None:
    """After a completed start, messages may have been delivered without a record of it."""
    _stopped(tmp_path / "data")
    node = OpenNode(tmp_path / "data")
    crashed = crashed_copy(node, tmp_path / "crashed")
    node.close()
    node = OpenNode(crashed)
    assert all(_flags(node).values())
    node.close()


def test_a_stop_that_was_cut_short(tmp_path: Path) -> None:
    """The list of undelivered messages counts only if the definitions record the clean stop."""
    _stopped(tmp_path)
    database = DefinitionDatabase(tmp_path / "definitions.sqlite")
    database.mark("journal_ended", 0)
    database.close()
    node = OpenNode(tmp_path)
    assert all(_flags(node).values())
    node.close()


def test_a_damaged_record(tmp_path: Path) -> None:
    """Without the record, messages count as possibly delivered."""
    _stopped(tmp_path)
    path = segments(tmp_path)[-1]
    data = bytearray(path.read_bytes())
    at = data.rindex(b"\x03\x07")
    data[at + 20] ^= 0xFF
    path.write_bytes(data)
    node = OpenNode(tmp_path)
    assert len(node.left[1]) == 10
    assert all(_flags(node).values())
    node.close()
