"""How far campaigns go: a part in `make check`, what a test says in `make test`, many times that in `make prove`."""

import os
import time
from typing import Final

_EFFORT: Final = float(os.environ.get("TEST_EFFORT", "1"))
# What random choices follow from where each run is to make others; a failure names it.
SEED: Final = os.environ.get("TEST_SEED") or str(time.time_ns())


def effort(count: int) -> int:
    """As many runs, seeds, kills or examples as the tier asks for, where `make test` has `count` of them."""
    return max(1, round(count * _EFFORT))
