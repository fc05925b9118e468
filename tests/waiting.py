"""How long tests wait for what should come."""

import os
import time
from collections.abc import Callable
from typing import Final

# Only what does not hold is waited for so long. Replays of broken rules have less patience: there, most does not come.
WAIT_SECONDS: Final = float(os.environ.get("TEST_WAIT_SECONDS", "60"))


def wait_until(holds: Callable[[], bool], pause_seconds: float = 0.05) -> None:
    """Ask again after each pause until the condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(pause_seconds)
