"""The replies and confirms of a channel, which are sent in order, each once what it depends on is durable."""

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, ResourceError
from flintmq.broker.counters.traffic import Traffic
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.durability import DurabilityQueue, DurabilityWaiter, PendingReply
from flintmq.protocol.amqp091.channel import Channel
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import BasicNack, Method

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.deliveries import Deliveries


@final
class Confirms(DurabilityWaiter):
    """The confirms and replies of a channel. `disconnect` closes the connection.

    `published` counts publishes since confirm.select; all up to `confirmed` are answered. `stored`: replies of this
    tick depend on a record of this tick.
    """

    def __init__(
        self, queue: DurabilityQueue, channel: Channel, traffic: Traffic, disconnect: Callable[[AmqpError], None]
    ) -> None:
        super().__init__(queue, disconnect)
        self.is_confirming = False
        self.published: i64 = 0
        self.stored = False
        self.confirmed: i64 = 0
        self._channel = channel
        self._traffic = traffic
        # Publishes of this tick that a full queue turned away.
        self._turned_away: list[int] = []
        # Publishes up to this one are durable; the next flush confirms them.
        self._durable: i64 = 0

    # -- replies ------------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether replies wait, so that the next one must wait, too."""
        return bool(self._added) or bool(self._pending)

    @property
    def owes_reply(self) -> bool:
        return bool(self._added) or any(isinstance(pending.reply, Reply) for pending in self._pending)

    def add_method(self, method: Method) -> None:
        """Add a method as a reply, which is sent at the end of the tick at the earliest."""
        self.add(Reply(self, encode_method(method), None))

    def send_in_turn(self, reply: "Reply") -> bool:
        """Send a reply that depends on nothing. Returns False if it has to wait for earlier replies."""
        if self.is_behind:
            self.add(reply)
            return False
        reply.send()
        return True

    def send(self, reply: "Reply") -> None:
        """Write a reply, after the confirms that precede it."""
        self.flush()
        properties = reply.properties
        if properties is not None:
            self._channel.send_pieces(reply.payload, properties, reply.pieces)
            if reply.got_by is not None:
                reply.got_by.go_on_behind_get()
            return
        self._channel.send_payload(reply.payload)
        if reply.consumer is not None:
            reply.consumer.start()

    # -- confirms -----------------------------------------------------------------------------------------------

    def turn_away(self) -> None:
        """Refuse the publish that was counted last."""
        self._turned_away.append(int(self.published))

    def end_tick(self, batch: int, durable: int) -> bool:
        """End the tick: what came in it becomes durable with `batch`, and batches up to `durable` already are.

        Returns whether a reply has to wait for a batch.
        """
        self.is_active = False
        self.send_at_end()
        if self.is_closed:
            return False
        needs_disk = self.stored or bool(self._added)
        self.stored = False
        # This is added without confirms, too, because the channel must learn of a failure of the disk.
        self._added.append(_Publishes(self, self.published, self._turned_away))
        self._turned_away = []
        must_wait = self.release(batch, durable, needs_disk)
        self.flush()
        return must_wait

    def publishes_durable(self, upto: i64, turned_away: list[int]) -> None:
        """Note that publishes up to `upto` are durable, and refuse those that were turned away."""
        if turned_away and self.is_confirming:
            self.flush()
            for tag in turned_away:
                self._confirm(tag - 1)
                self._channel.send(BasicNack(delivery_tag=tag))
                self.confirmed = tag
        self._durable = upto

    def flush(self) -> None:
        """Send one confirm for all publishes that became durable."""
        if self.is_confirming and not self.is_closed:
            self._confirm(self._durable)

    def _confirm(self, upto: i64) -> None:
        if upto > self.confirmed:
            count = upto - self.confirmed
            self._channel.send_ack(upto, count > 1)
            self._traffic.confirmed += count
            self.confirmed = upto

    # -- the end of the storage ---------------------------------------------------------------------------------

    def on_failure(self, reason: str) -> None:
        """The storage failed: refuse publishes that wait for it, or close the connection if a reply waits."""
        self.is_active = False
        waits_for_disk = self.stored or bool(self._pending)
        owes_reply = self.owes_reply
        self.send_at_end()
        if self.is_closed:
            return
        if not waits_for_disk and not owes_reply:
            self.publishes_durable(self.published, self._turned_away)
            self._turned_away = []
            self.flush()
            return
        self.forget()
        if self.is_confirming and not owes_reply:
            self.refuse()
        else:
            self._disconnect(ResourceError(f"nothing durable can be stored: {reason}"))

    def refuse(self) -> None:
        """Refuse all publishes that are not confirmed yet: they will not become durable."""
        if self.published > self.confirmed:
            self._channel.send(BasicNack(delivery_tag=self.published, multiple=True, requeue=False))
            self.confirmed = self.published

    def forget(self) -> None:
        super().forget()
        self.stored = False
        self._turned_away = []


@final
class Reply(PendingReply):
    """An encoded reply, the consumer that may start once it is sent, and its content, if it has any.

    `got_by` is set for a delivery of basic.get: deliveries of the channel wait until it is sent.
    """

    def __init__(
        self,
        confirms: Confirms,
        payload: bytes,
        consumer: ChannelConsumer | None,
        properties: bytes | None = None,
        pieces: list[bytes] | None = None,
    ) -> None:
        self.payload = payload
        self.consumer = consumer
        self.properties = properties
        self.pieces = pieces if pieces is not None else []
        self.got_by: Deliveries | None = None
        self._confirms = confirms

    def send(self) -> None:
        self._confirms.send(self)

    def fail(self, reason: str) -> None:
        """Nothing to do: `Confirms.on_failure` answers for all replies of the channel."""


@final
class _Publishes(PendingReply):
    """The publishes of a tick: all up to `upto`, but for those turned away, are durable when this is sent."""

    def __init__(self, confirms: Confirms, upto: i64, turned_away: list[int]) -> None:
        self._confirms = confirms
        self._upto: i64 = upto
        self._turned_away = turned_away

    def send(self) -> None:
        self._confirms.publishes_durable(self._upto, self._turned_away)

    def fail(self, reason: str) -> None:
        """Nothing to do: `Confirms.on_failure` answers for all publishes of the channel."""
