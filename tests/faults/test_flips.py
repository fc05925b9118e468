"""What a disk gives back is not what it was given: found, set aside, and everything else served."""

from pathlib import Path

from tests.faults.flips import verdicts

# `make bitflips` has 10,000 others.
FIRST = 1_000_000
COUNT = 300


def test_spoiled_files(directory: Path) -> None:
    """No altered body is delivered, nothing is missing but what the spoiled block held, and it is reported."""
    assert sum(verdict.lost > 0 for verdict in verdicts(directory, FIRST, COUNT)) > COUNT / 4
