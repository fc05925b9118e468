"""Runs of the simulator, some of many: `make sim` has as many as one likes."""

import os
import subprocess
import sys

import pytest

from tests.sim.run import Run


@pytest.mark.parametrize("seed", range(3))
def test_what_is_promised_holds_whatever_happens(seed: int) -> None:
    """A node keeps its promises through power losses, kills, stops and faults of its disk."""
    run = Run(seed)
    run.complete()
    assert run.figures.power_losses > 0
    assert run.figures.confirmed > 0


def test_a_seed_is_a_run() -> None:
    """A seed gives the same run byte for byte: on the network, and on the disk; also in another process."""
    run = Run(7)
    run.complete()
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    told = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seed", "7", "--quiet"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.digest
    assert run.digest in told.stdout
