"""Replies and outcomes of a connection that are sent once the storage has what they confirm."""

from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AmqpError, ResourceLimitExceeded
from flintmq.broker.counters.traffic import Traffic
from flintmq.gateway.durability import DurabilityQueue, DurabilityWaiter, PendingReply
from flintmq.protocol.amqp10.connection import Connection
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.wire.amqp10.states import Error, Rejected

# The name of this protocol in counters.
PROTOCOL: Final = "amqp10"


@final
class Confirms(DurabilityWaiter):
    """Accepts `stored` deliveries once the batch of their tick is durable, before it sends the replies of the tick.

    `disconnect` closes the connection. `end_drains` is called at the end of a tick, after its replies.
    """

    def __init__(
        self,
        queue: DurabilityQueue,
        engine: Connection,
        disconnect: Callable[[AmqpError], None],
        end_drains: Callable[[], None],
    ) -> None:
        super().__init__(queue, disconnect)
        self.stored: list[IncomingDelivery] = []
        # The counters of the virtual host, once the connection is in one.
        self.traffic = Traffic()
        self._engine = engine
        self._end_drains = end_drains

    def end_tick(self, batch: int, durable: int) -> bool:
        """End the tick: what came in it becomes durable with `batch`, and batches up to `durable` already are.

        Returns whether a reply has to wait for a batch.
        """
        self.is_active = False
        if self.is_closed:
            return False
        self.send_at_end()
        self._add_stored()
        must_wait = self.release(batch, durable, bool(self._added))
        self._end_drains()
        self.flush()
        return must_wait

    def on_failure(self, reason: str) -> None:
        super().on_failure(reason)
        if not self.is_closed:
            self._end_drains()
            self.flush()

    def _add_stored(self) -> None:
        stored = self.stored
        if stored:
            self.stored = []
            self._added.insert(0, _Stored(self, stored))

    def accept(self, stored: list[IncomingDelivery]) -> None:
        """Accept deliveries that are durable, and count them as confirmed."""
        self.traffic.confirmed += len(stored)
        self.traffic.inflow_of(PROTOCOL).confirmed += len(stored)
        for delivery in stored:
            delivery.link.accept_delivery(delivery)

    def take(self) -> list[PendingReply]:
        self._add_stored()
        return super().take()

    def forget(self) -> None:
        super().forget()
        self.stored = []

    def flush(self) -> None:
        self._engine.flush()


@final
class _Stored(PendingReply):
    """Deliveries of one tick, which are accepted together."""

    def __init__(self, confirms: Confirms, deliveries: list[IncomingDelivery]) -> None:
        self._confirms = confirms
        self._deliveries = deliveries

    def send(self) -> None:
        self._confirms.accept(self._deliveries)

    def fail(self, reason: str) -> None:
        for delivery in self._deliveries:
            refuse_unsafe(delivery, reason)


def refuse_unsafe(delivery: IncomingDelivery, reason: str) -> None:
    """Reject a delivery because the storage has failed for good; `reason` says why."""
    text = f"nothing durable can be stored: {reason}"
    error = Error(condition=ResourceLimitExceeded.condition, description=text)
    delivery.link.settle(delivery, Rejected(error=error))
