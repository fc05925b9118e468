"""Outgoing dispositions: consecutive deliveries with the same state share one frame (amqp-1.0 part 2 §2.7.6)."""

from typing import final

from mypy_extensions import i64

from flintmq.protocol.amqp10.frame_writer import FrameWriter
from flintmq.protocol.amqp10.serial import after
from flintmq.wire.amqp10.performatives import Disposition
from flintmq.wire.amqp10.states import DeliveryState


@final
class DispositionBatch:
    """The dispositions of a session that are not written yet, for one of its roles: receiver or sender."""

    def __init__(self, as_receiver: bool) -> None:
        self._as_receiver = as_receiver
        self._is_empty = True
        self._first: i64 = 0
        self._last: i64 = 0
        self._state: DeliveryState | None = None
        self._settled = False

    def add(
        self, frames: FrameWriter, channel: i64, delivery_id: i64, state: DeliveryState | None, settled: bool
    ) -> None:
        """Add a disposition. If it cannot be joined with those before, these are written first.

        Raises FrameSizeTooSmall if their state is too large for the peer's frames.
        """
        if not self._is_empty:
            if delivery_id == after(self._last, 1) and state is self._state and settled == self._settled:
                self._last = delivery_id
                return
            self.write(frames, channel)
        self._is_empty = False
        self._first = delivery_id
        self._last = delivery_id
        self._state = state
        self._settled = settled

    def write(self, frames: FrameWriter, channel: i64) -> None:
        """Write the dispositions, if any. Raises FrameSizeTooSmall if their state does not fit the peer's frames."""
        if self._is_empty:
            return
        self._is_empty = True
        last: int | None = None if self._last == self._first else self._last
        frames.send(channel, Disposition(self._as_receiver, self._first, last, self._settled, self._state))
        self._state = None
