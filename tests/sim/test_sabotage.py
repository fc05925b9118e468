"""The simulator finds what it is there to find. `python -m tests.sim.sabotage` tries more, on an interpreted broker."""

from collections.abc import Callable

import pytest

import flintmq
from tests.sim import sabotage

# What these replace belongs to the simulator, which is interpreted in every build.
_WAYS = (
    sabotage.drop_syncs,
    sabotage.drop_directory_syncs,
    sabotage.confirm_before_the_sync,
    sabotage.forget_redelivered_at_start,
    sabotage.forget_numbers,
    sabotage.lose_confirms,
)


# What these replace is compiled, where the broker is.
_INTERPRETED_WAYS = (
    sabotage.discharge_before_the_sync,
    sabotage.discharge_by_halves,
    sabotage.discharge_all_at_once,
    sabotage.outlive_the_coordinator,
    sabotage.keep_what_was_acquired,
    sabotage.settle_before_the_sync,
    sabotage.forget_what_was_taken,
    sabotage.give_out_what_is_held,
    sabotage.lease_before_the_sync,
)


@pytest.mark.skipif(flintmq.compiled, reason="compiled code calls its own")
@pytest.mark.parametrize("way", _INTERPRETED_WAYS)
def test_an_interpreted_broker_that_is_broken_is_found(way: Callable[[sabotage.Patch], None]) -> None:
    """So is one of which what clients are told is not true yet, or only half of it."""
    losses, found = sabotage.find(way, 30)
    assert found is not None, losses


@pytest.mark.parametrize("way", _WAYS)
def test_a_broken_broker_is_found(way: Callable[[sabotage.Patch], None]) -> None:
    """A broker that breaks a promise is found within a few hundred power losses."""
    losses, found = sabotage.find(way, 30)
    assert found is not None, losses
