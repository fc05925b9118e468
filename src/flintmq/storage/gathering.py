"""Whether the next sync waits for the messages of publishers that wait for each confirm.

Such publishers send again as soon as a sync has confirmed their messages. If the next sync began at once, with the
messages that came during the last one, theirs would be too late for it: the publishers would be synced in two halves,
in turns, and each would wait for two syncs. So the next sync waits until all of them have sent again, but no longer
than the last sync took.

Other clients send whenever they like, and waiting for them is in vain. Each time it was, some syncs begin at once: one
after the first time, more if it happens again.
"""

from typing import Final, final

# Syncs of slower disks are worth waiting for, too, but a publisher that does not come back must not hold up the others
# for long.
GATHERING_MAX_SECONDS: Final = 0.002
# What a confirm and the next message take between the broker and a client of the same machine. If the messages that are
# expected take longer than the sync took, they are better handled while the disk works.
MESSAGE_SECONDS: Final = 40e-6
# A sync with more bytes does not wait: writing them takes the disk a while, too.
BYTES_MAX: Final = 8 * 1024
# So many syncs begin at once, at most, before the next one waits again.
PAUSE_MAX_SYNCS: Final = 63


@final
class Gathering:
    """Knows no clock: all times are arguments, in seconds. Sizes are in bytes."""

    def __init__(self) -> None:
        # The messages of the last sync; 0 if the next one does not wait.
        self._confirmed = 0
        # How many messages the next sync waits for; 0 until the messages that waited behind the last one are known, and
        # if it does not wait.
        self._expected = 0
        # How long the next sync waits, and until when.
        self._seconds = 0.0
        self._until = 0.0
        # Whether the messages of the last sync came together, as those of one client do.
        self._came_together = True
        # How many syncs begin at once after the next vain wait, and how many of these are left from the last one.
        self._pause = 1
        self._left = 0

    def synced(self, batches: int, messages: int, started: float, ended: float) -> None:
        """Note that a sync has confirmed this many messages in this many batches."""
        if messages < self._expected:
            self._left = self._pause
            self._pause = min(2 * self._pause + 1, PAUSE_MAX_SYNCS)
        elif self._expected > 0:
            self._pause = max(self._pause // 2, 1)
        self._expected = 0
        self._confirmed = messages
        if self._left > 0:
            self._left -= 1
            self._confirmed = 0
        self._came_together = batches == 1
        self._seconds = min(ended - started, GATHERING_MAX_SECONDS)
        self._until = ended + self._seconds

    def wait_seconds(self, messages: int, size: int, now: float) -> float:
        """How long the next sync waits for more messages than those that have come, of `size`; 0 to begin now.

        Call it first when the last sync has ended, with the messages that came meanwhile.
        """
        if self._confirmed == 0:
            return 0.0
        if self._expected == 0:
            expected = self._confirmed + messages
            if (messages == 0 and self._came_together) or expected * MESSAGE_SECONDS > self._seconds:
                self._confirmed = 0
                return 0.0
            self._expected = expected
        if messages >= self._expected or size > BYTES_MAX:
            return 0.0
        return max(self._until - now, 0.0)
