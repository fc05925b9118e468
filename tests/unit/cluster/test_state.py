"""What a node notes of its cluster outlives it."""

from pathlib import Path

import pytest

from flintmq.cluster.state import NodeState
from flintmq.storage.files import RealDisk
from tests.unit.storage.disks import FaultyDisk


def test_a_term_that_the_disk_has_not_taken_is_noted_again(tmp_path: Path) -> None:
    """A leader of an earlier term could get answers after a restart otherwise."""
    state = NodeState(FaultyDisk(fail_at=0, times=1), tmp_path, "c", "a")
    with pytest.raises(OSError, match="Input/output error"):
        state.see(7)
    state.see(7)
    assert NodeState(RealDisk(), tmp_path, "c", "a").seen_term == 7
