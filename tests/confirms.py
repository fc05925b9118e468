"""A publisher that never waits: it writes, keeps account, and learns from confirms what the broker has promised."""

from typing import Final, Generic, TypeVar

from flintmq.wire.amqp091.frames import FRAME_METHOD
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
)
from tests.sockets import PERSISTENT, AmqpSocket, Frame, publish_frames, raise_if_closed

T = TypeVar("T")

CHANNEL: Final = 1


class ConfirmedPublisher(Generic[T]):
    """Publishes on channel 1 of a connection. A message is known by a token of the caller's.

    `confirmed` and `refused` grow in the order the broker answers.
    """

    def __init__(self, connection: AmqpSocket) -> None:
        self.confirmed: list[T] = []
        self.refused: list[T] = []
        self._connection = connection
        self._pending: dict[int, T] = {}
        self._published = 0
        self._answered = 0
        connection.call(CHANNEL, ConfirmSelect(), ConfirmSelectOk)

    @property
    def pending(self) -> int:
        return len(self._pending)

    def publish(self, token: T, exchange: str, routing_key: str, body: bytes, properties: bytes = PERSISTENT) -> None:
        self._published += 1
        # Before it is sent: what the broker may have must be in the books.
        self._pending[self._published] = token
        self._connection.send(publish_frames(CHANNEL, exchange, routing_key, body, properties))

    def collect(self, timeout: float) -> None:
        """Take in what the broker answered, waiting that long for the first of it."""
        for frame in self._connection.frames(timeout):
            self.take(frame)

    def take(self, frame: Frame) -> bool:
        """Take in one frame; False when it says nothing about publishes. Raises ClosedByPeer for a close."""
        if frame.kind != FRAME_METHOD:
            return False
        method = frame.method
        if isinstance(method, BasicAck):
            self._answer(method.delivery_tag, method.multiple, self.confirmed)
        elif isinstance(method, BasicNack):
            self._answer(method.delivery_tag, method.multiple, self.refused)
        else:
            raise_if_closed(method)
            return False
        return True

    def _answer(self, tag: int, multiple: bool, to: list[T]) -> None:
        first = self._answered + 1 if multiple else tag
        to += [self._pending.pop(number) for number in range(first, tag + 1) if number in self._pending]
        if multiple:
            self._answered = max(self._answered, tag)
