"""Staged publishes and settlements of a channel's transaction (amqp-0-9-1 tx)."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.transaction import StagedPublish, StagedSettlement
from flintmq.gateway.amqp091.deliveries import Deliveries
from flintmq.gateway.amqp091.ports import ClientChannel
from flintmq.gateway.amqp091.unacked import ACCEPT, REJECT, Delivery
from flintmq.gateway.publishing import PublishTarget


@final
class ChannelPublish(StagedPublish):
    def __init__(
        self, channel: ClientChannel, target: PublishTarget, message: Message, more_keys: list[str] | None
    ) -> None:
        super().__init__(target.route, message, more_keys)
        self._channel = channel
        self._target = target

    def put(self, queues: list[Queue]) -> None:
        self._channel.put(self._target, self.message, queues)


@final
class ChannelSettlement(StagedSettlement):
    def __init__(self, owner: Deliveries, outcome: int, deliveries: list[Delivery]) -> None:
        self._owner = owner
        self._outcome = outcome
        self._deliveries = deliveries

    @property
    def dead_letter_bytes(self) -> i64:
        size: i64 = 0
        for delivery in self._deliveries:
            if _makes_dead_letter(delivery, self._outcome):
                size += len(delivery.entry.message.body) + len(delivery.entry.message.properties)
        return size

    def stage(self) -> None:
        for delivery in self._deliveries:
            delivery.is_staged = True

    def take(self) -> None:
        self._owner.unacked.drop_staged(self._deliveries)
        self.undo()

    def apply(self) -> None:
        self._owner.settle(self._deliveries, self._outcome)

    def undo(self) -> None:
        for delivery in self._deliveries:
            delivery.is_staged = False


def _makes_dead_letter(delivery: Delivery, outcome: int) -> bool:
    settings = delivery.queue.settings
    if settings.dead_letter_exchange is None or outcome == ACCEPT:
        return False
    return outcome == REJECT or 0 <= settings.delivery_limit <= i64(delivery.entry.returns)
