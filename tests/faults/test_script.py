"""Some of the faults at some of the calls of the scripted run; `make faults` has all."""

from pathlib import Path

import pytest

from tests.effort import effort
from tests.faults.script import FAULTS, Fault, Ground

RUNS = effort(12)


@pytest.fixture(scope="module")
def ground(directory: Path) -> Ground:
    return Ground(directory)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_disk_that_refuses(ground: Ground, fault: Fault) -> None:
    """Whichever call fails: nothing false is confirmed, nothing confirmed is lost, nobody waits for ever."""
    calls = ground.calls(fault)
    step = calls / RUNS
    for number in range(RUNS):
        ground.try_fault(fault, int(number * step))
