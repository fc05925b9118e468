"""The idle timeouts of a connection, of this side and of the peer (amqp-1.0 part 2 §2.4.5)."""

from typing import final


@final
class IdleTimeout:
    """The timers of both sides. This side closes after `timeout` seconds without input; 0 means never."""

    def __init__(self, timeout: float) -> None:
        # The times of the last bytes received and sent, in seconds.
        self.received_at: float = 0.0
        self.sent_at: float = 0.0
        self.timeout = timeout
        self._send_every = 0.0

    def keep(self, idle_ms: int) -> None:
        """Set the idle timeout of the peer, in milliseconds. A frame is then due after half of it."""
        self._send_every = idle_ms / 2000

    def next_timer(self) -> float | None:
        due: float | None = None
        if self.timeout > 0.0:
            due = self.received_at + self.timeout
        if self._send_every > 0.0:
            next_frame = self.sent_at + self._send_every
            due = next_frame if due is None else min(due, next_frame)
        return due

    def is_peer_late(self, now: float) -> bool:
        return 0.0 < self.timeout <= now - self.received_at

    @property
    def threshold(self) -> float:
        """The seconds without output after which the peer closes: twice its idle timeout, as specified."""
        return 4.0 * self._send_every

    def has_peer_given_up(self, now: float) -> bool:
        """Return whether nothing was sent for so long that the peer has closed, because this process was stopped."""
        return 0.0 < self.threshold <= now - self.sent_at and self.sent_at > 0.0

    def is_frame_due(self, now: float) -> bool:
        return 0.0 < self._send_every <= now - self.sent_at
