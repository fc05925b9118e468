"""What a disk gives back is not what it was given: found, set aside, and everything else served."""

from pathlib import Path

from tests.effort import effort
from tests.faults.flips import verdicts

# `make bitflips` has 10,000 others.
FIRST = 1_000_000
COUNT = effort(200)


def test_spoiled_files(directory: Path) -> None:
    """No altered body is delivered, nothing is missing but what the spoiled block held, and it is reported."""
    assert sum(verdict.lost > 0 for verdict in verdicts(directory, FIRST, COUNT)) > COUNT / 4
