"""Runs of simulated clusters, some of many: `make sim-cluster` has as many as one likes."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

import flintmq
from tests.sim.cluster import sabotage
from tests.sim.cluster.run import Run
from tests.sim.sabotage import Patch

# What a killed process was about to wait for.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
# Those that are found within the first seeds.
_WAYS: tuple[Callable[[Patch], None], ...] = (
    sabotage.confirm_before_followers,
    sabotage.skip_syncs,
    sabotage.lose_transactions,
    sabotage.lead_while_copying,
    sabotage.keep_leading_without_a_lease,
)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_promised_holds_whatever_happens(seed: int) -> None:
    """A cluster keeps its promises through kills, power losses, partitions and faults of disks."""
    run = Run(seed)
    run.complete()
    assert run.figures.confirmed > 0
    assert run.figures.leaders_that_served > 1


def test_a_seed_is_a_run() -> None:
    """A seed gives the same run; also in another process."""
    run = Run(7)
    run.complete()
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    told = subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster", "--seed", "7", "--quiet"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.digest
    assert run.digest in told.stdout


@pytest.mark.skipif(flintmq.compiled, reason="compiled code calls its own")
@pytest.mark.parametrize("way", _WAYS)
def test_a_broken_cluster_is_found(way: Callable[[Patch], None]) -> None:
    """A cluster that breaks a promise is found within a few runs."""
    seeds, found = sabotage.find(way, 30)
    assert found is not None, seeds
