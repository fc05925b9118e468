"""The garbage collector of a process that is only a broker."""

import gc
from typing import Final

# The objects of messages have no cycles, so collections are rare. The youngest generation has 10,000 objects, which
# take two milliseconds; 50,000 took ten, for which all clients waited. Survivors are examined once more, after 2.5
# million objects. New objects of connections are collected as they arise (server/connections.py), and each of these
# collections counts as one of the second generation, so that number must be high before a full collection. Until then
# the remains of old connections stay: 8 KiB each, of some 30,000.
_THRESHOLDS: Final = (10_000, 250, 1_000)


def collect_rarely() -> None:
    """Collect, leave everything that is there now alone, and be rare from now on. Call it after a start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    # `cli/server.py` has turned it off for the start.
    gc.enable()


def collect_everything() -> None:
    """Collect what was left alone, too: a broker has ended, and its process goes on."""
    gc.unfreeze()
    gc.collect()


def collect_young() -> None:
    """Collect both young generations: surviving objects then belong to the old one, which is not examined again."""
    gc.collect(1)
