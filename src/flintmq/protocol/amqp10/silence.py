"""How long a connection may be silent, in either direction (amqp-1.0 part 2 §2.4.5)."""

from typing import final


@final
class Silence:
    """Times are seconds of the clock that comes with the bytes; 0 where there is no limit."""

    def __init__(self, patience: float) -> None:
        # When something came, or went, last.
        self.received_at: float = 0.0
        self.sent_at: float = 0.0
        self.patience = patience
        self._send_every = 0.0

    def keep(self, idle_ms: int) -> None:
        """What the peer waits; something has to be sent twice as often."""
        self._send_every = idle_ms / 2000

    def next_timer(self) -> float | None:
        due: float | None = None
        if self.patience > 0.0:
            due = self.received_at + self.patience
        if self._send_every > 0.0:
            next_frame = self.sent_at + self._send_every
            due = next_frame if due is None else min(due, next_frame)
        return due

    def is_peer_late(self, now: float) -> bool:
        return 0.0 < self.patience <= now - self.received_at

    @property
    def threshold(self) -> float:
        """How long the peer waits: twice what it says, as it should be."""
        return 4.0 * self._send_every

    def has_lost_the_peer(self, now: float) -> bool:
        """Whether we were silent for longer than the peer waits, as a process is that stood still."""
        return 0.0 < self.threshold <= now - self.sent_at and self.sent_at > 0.0

    def is_ours_too_long(self, now: float) -> bool:
        return 0.0 < self._send_every <= now - self.sent_at
