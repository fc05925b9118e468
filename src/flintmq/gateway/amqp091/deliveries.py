"""Deliveries of a channel: sent within its windows, and held until the client settles them or the channel ends."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, ContentTooLarge, LocalProtocolError, PreconditionFailed
from flintmq.base.limits import ANSWER_BYTES_PER_UNIT, ASKED_CONSUMERS_PER_UNIT, FRAME_OVERHEAD_BYTES
from flintmq.base.rotation import behind
from flintmq.base.work import WORK
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import PERSISTENT, UNSENDABLE, Address, Entry, Message
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.tick import SteppedWork
from flintmq.broker.timers import Timed
from flintmq.gateway.amqp091.codec import CODEC_091, DELIVERY_COUNT, failures
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.ports import ClientChannel
from flintmq.gateway.amqp091.unacked import ACCEPT, REQUEUE, Delivery, Unacked
from flintmq.gateway.amqp091.window import Window
from flintmq.gateway.conversion.converted import TO_091
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.amqp091.connection import Connection
from flintmq.protocol.output import Output
from flintmq.wire.amqp091.frames import CONTENT_HEADER_BYTES
from flintmq.wire.amqp091.properties import add_header
from flintmq.wire.amqp091.tables import encode_address

# More deliveries than these are settled in steps: they take two milliseconds.
_SETTLED_AT_ONCE: Final = 8_192
# The deliveries that are settled in one unit of work.
_SETTLED_PER_UNIT: Final = 4
# Replaces the message of a delivered entry whose stream keeps the message.
NO_MESSAGE: Final = Message(Address("", ""), CODEC_091, CODEC_091.nothing, b"", PERSISTENT, 0)


def annotated(queue: Queue, entry: Entry, properties: bytes) -> bytes:
    """Add the queue's headers to the properties of an entry: x-stream-offset or x-delivery-count (RabbitMQ)."""
    if queue.keeps_all:
        return add_header(properties, "x-stream-offset", entry.seq)
    if entry.returns == 0:
        return properties
    # Earlier failures of a dead letter count, too. A count that a publisher wrote is ignored.
    before = failures(properties) if entry.message.origin == 0 else 0
    return add_header(properties, DELIVERY_COUNT, before + int(entry.returns))


@final
class Deliveries(Outflow):
    """Deliveries of a channel. `window` limits all its consumers together, `consumer_window` each future consumer."""

    def __init__(self, owner: ClientChannel, channel: Channel, output: Output) -> None:
        super().__init__()
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacked = Unacked()
        # The number of unacknowledged messages of basic.get, which no window counts.
        self.held_gets: i64 = 0
        self.window = Window()
        self.consumer_window = Window()
        # False while the client has suspended deliveries (amqp-0-9-1 channel.flow).
        self.is_flowing = True
        # Whether deliveries may be sent: the client lets them flow, and no delivery of basic.get waits.
        self.is_open = True
        # The consumer that got the last delivery: it is the last to go on when there is room again.
        self._last: ChannelConsumer | None = None
        self._waiting_gets: i64 = 0
        self._owner = owner
        self._connection = owner.connection
        self._engine = owner.connection.engine
        self._tick = owner.gateway.tick
        self._channel = channel
        self._output = output
        # The maximum bytes of properties, which must fit one frame (amqp-0-9-1 §4.2.6.1).
        self._properties_max: i64 = output.frame_max - FRAME_OVERHEAD_BYTES - CONTENT_HEADER_BYTES
        # The maximum bytes of properties for the largest frame that any client may negotiate.
        largest: i64 = owner.service.properties.tuning.frame_max
        self._properties_most: i64 = max(largest - FRAME_OVERHEAD_BYTES - CONTENT_HEADER_BYTES, self._properties_max)
        # Queues that may withhold from this channel what it rejected.
        self._withholding: dict[Queue, None] = {}
        self._timeout = _Timeout(self)

    # -- out ----------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return self._output.has_room()

    def deliver(self, consumer: ChannelConsumer, queue: Queue, entry: Entry) -> None:
        self._last = consumer
        self._connection.last = self
        if entry.redelivered:
            self.redelivered += 1
        if consumer.no_ack:
            self.delivered_no_ack += 1
            tag = self.unacked.add(None)
        else:
            self.delivered += 1
            size = len(entry.message.body)
            consumer.window.take(size)
            self.window.take(size)
            self._connection.window.take(size)
            now_ms = self._tick.now_ms
            tag = self.unacked.add(Delivery(entry, queue, consumer, size, now_ms))
            if consumer.timeout_ms != 0:
                self._tick.timers.at(now_ms + consumer.timeout_ms, self._timeout)
        if not self._send(consumer, queue, entry, tag):
            self._take_back(consumer, entry, tag)
            return
        if queue.adds_headers and queue.keeps_all:
            # The stream keeps the message, so the entry need not hold it until the client acknowledges.
            entry.message = NO_MESSAGE

    def _send(self, consumer: ChannelConsumer, queue: Queue, entry: Entry, tag: i64) -> bool:
        """Send a delivery. Returns False if no client of AMQP 0-9-1 can be sent the message."""
        message = entry.message
        properties = message.properties
        body = message.body
        if message.codec is not CODEC_091:
            properties, body = TO_091.in_091(message)
        if queue.adds_headers:
            properties = annotated(queue, entry, properties)
        if len(properties) > self._properties_max:
            if message.codec is not CODEC_091:
                properties, body = TO_091.in_091_alone(message)
                properties = annotated(queue, entry, properties) if queue.adds_headers else properties
            if len(properties) > self._properties_max:
                if self.is_unsendable(queue, message, properties):
                    return False
                self._cannot_deliver(consumer, queue, properties)
                return True
        address = message.address
        if not address.encoded and self.is_unsendable(queue, message, properties):
            return False
        if self._tick.tap is not None:
            self._tick.tap.delivered(self._owner.client(), queue, entry)
        self._channel.send_delivery(consumer.prefix, tag, entry.redelivered, address.encoded, properties, body)
        return True

    def _take_back(self, consumer: ChannelConsumer, entry: Entry, tag: i64) -> None:
        """Undo a delivery that could not be sent; its queue discards the message."""
        self.redelivered -= entry.redelivered
        if consumer.no_ack:
            self.delivered_no_ack -= 1
        else:
            self.delivered -= 1
            for delivery in self.unacked.take(tag, False):
                self._release(delivery)
        entry.state = UNSENDABLE

    def is_unsendable(self, queue: Queue, message: Message, properties: bytes) -> bool:
        """Whether no client of AMQP 0-9-1 can be sent this message. If so, it is logged.

        Earlier releases accepted such messages over HTTP. A message of AMQP 1.0 with more properties than a frame holds
        is not unsendable: consumers of AMQP 1.0 can get it.
        """
        why = ""
        address = message.address
        if len(properties) > self._properties_most and message.codec is CODEC_091:
            why = f"it has {len(properties)} bytes of properties, and a frame holds {self._properties_most}"
        elif not address.encoded:
            try:
                address.encoded = encode_address(address.exchange, address.routing_key)
            except LocalProtocolError as error:
                why = str(error)
        if why == "":
            return False
        self._owner.gateway.host.unsendable(self._connection.user, queue.vhost, queue.name, why)
        return True

    def _cannot_deliver(self, consumer: ChannelConsumer, queue: Queue, properties: bytes) -> None:
        """Close the channel, which returns the message: another consumer may be able to take it.

        The channel is closed at the end of the tick, because the queue is being dispatched.
        """
        consumer.started = False
        refusal = self.refusal(queue, properties)
        assert refusal is not None
        self._owner.close_later(refusal)

    def refusal(self, queue: Queue, properties: bytes) -> AmqpError | None:
        """The error for a message whose properties are too large for this client's frames; None if they fit."""
        if len(properties) <= self._properties_max:
            return None
        return ContentTooLarge(
            f"a message of queue '{queue.name}' has {len(properties)} bytes of properties, and this connection takes "
            f"{self._properties_max} in a frame: connect with a larger frame_max"
        )

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer whose subscription has ended."""
        self.consumers.pop(consumer.tag, None)
        if self._last is consumer:
            self._last = None

    def flow(self, active: bool) -> None:
        """Suspend or resume deliveries for the client."""
        self.is_flowing = active
        self._open_or_not()

    def wait_for_get(self) -> None:
        """Hold deliveries while a reply to basic.get, which has a delivery tag, waits behind other replies.

        Deliveries with higher tags must not precede it: an acknowledgement with `multiple` would include a message that
        the client has not received.
        """
        self._waiting_gets += 1
        self.is_open = False

    def go_on_behind_get(self) -> None:
        self._waiting_gets -= 1
        self._open_or_not()

    def _open_or_not(self) -> None:
        self.is_open = self.is_flowing and self._waiting_gets == 0
        if self.is_open:
            self.resume()

    def resume(self) -> None:
        """Let the queues of this channel's consumers go on, in turn: the socket, or a window, has room again."""
        self._engine.spend(len(self.consumers) // ASKED_CONSUMERS_PER_UNIT)
        for consumer in behind(list(self.consumers.values()), self._last):
            consumer.queue.touch_in_turn()

    @property
    def unacked_count(self) -> int:
        return int(self.window.messages + self.held_gets)

    # -- back ---------------------------------------------------------------------------------------------------

    def accept(self, delivery_tag: i64, multiple: bool) -> None:
        """Accept deliveries (basic.ack). Raises PreconditionFailed for a tag that is not outstanding."""
        taken = self.unacked.take(delivery_tag, multiple)
        if multiple:
            if len(taken) > _SETTLED_AT_ONCE:
                self._accept_in_steps(taken)
                return
            self._engine.spend(len(taken))
        self.acked += len(taken)
        is_waited_for = self._is_waited_for()
        for delivery in taken:
            delivery.queue.settle(delivery.entry)
            self._release(delivery)
        if is_waited_for:
            self._reopen_window()

    def settle_taken(self, deliveries: list[Delivery], outcome: int) -> None:
        """Settle deliveries that were taken from `unacked` outside of a transaction: many accepted ones in steps.

        Others are not settled in steps: a queue that is deleted between two of these would drop rejected messages, and
        messages would overtake those that return.
        """
        if outcome == ACCEPT and len(deliveries) > _SETTLED_AT_ONCE:
            self._accept_in_steps(deliveries)
        else:
            self.settle(deliveries, outcome)

    def _accept_in_steps(self, deliveries: list[Delivery]) -> None:
        self._tick.begin(_Acceptance(self, self._engine, deliveries))

    def settle(self, deliveries: list[Delivery], outcome: int) -> None:
        """Accept, reject or requeue deliveries that were taken from `unacked`."""
        self._engine.spend(len(deliveries))
        if outcome == REQUEUE:
            for delivery in deliveries:
                delivery.entry.avoid = delivery.consumer
            self.requeue(deliveries, True)
            return
        if outcome == ACCEPT:
            self.acked += len(deliveries)
        is_waited_for = self._is_waited_for()
        for delivery in deliveries:
            if outcome == ACCEPT:
                delivery.queue.settle(delivery.entry)
            else:
                delivery.queue.reject(delivery.entry)
            self._release(delivery)
        if is_waited_for:
            self._reopen_window()

    def requeue(self, deliveries: list[Delivery], failed: bool = False) -> None:
        """Return entries to their queues; with `failed`, because the client could not handle them."""
        self._engine.spend(len(deliveries))
        is_waited_for = self._is_waited_for()
        entries: dict[Queue, list[Entry]] = {}
        for delivery in deliveries:
            self._release(delivery)
            entries.setdefault(delivery.queue, []).append(delivery.entry)
        for queue, returned in entries.items():
            if not failed:
                queue.requeue(returned)
            elif self._owner.vhost.dialect.withholds_rejected:
                queue.requeue_excluding(returned, self)
                self._withholding[queue] = None
            else:
                queue.fail(returned)
        if is_waited_for:
            self._reopen_window()

    def redeliver(self) -> None:
        """Send all unsettled deliveries again to their consumers, with new tags (basic.recover without requeue).

        Those without a consumer, or whose message is gone from its stream, return to their queues.
        """
        homeless: list[Delivery] = []
        for delivery in self.unacked.take_outstanding():
            consumer = delivery.consumer
            if consumer is None or self.consumers.get(consumer.tag) is not consumer:
                homeless.append(delivery)
                continue
            entry = delivery.queue.recall(delivery.entry)
            if entry is None:
                homeless.append(delivery)
                continue
            entry.redelivered = True
            delivery.since_ms = self._tick.now_ms
            self._engine.spend(1 + delivery.size // ANSWER_BYTES_PER_UNIT)
            # The message was sent before, so it can be sent again.
            self._send(consumer, delivery.queue, entry, self.unacked.add(delivery))
        self.requeue(homeless)

    def _release(self, delivery: Delivery) -> None:
        consumer = delivery.consumer
        if consumer is None:
            self.held_gets -= 1
            return
        size = delivery.size
        consumer.window.release(size)
        self.window.release(size)
        self._connection.window.release(size)
        delivery.queue.touch()

    def _is_waited_for(self) -> bool:
        """Whether consumers may be waiting for a shared window."""
        return self.window.is_waited_for or self._connection.window.is_waited_for

    def _reopen_window(self) -> None:
        """Let all consumers that share a limited window go on, after a settlement."""
        if self._connection.window.is_limited:
            self._connection.resume()
        elif self.window.is_limited:
            self.resume()

    def check_timeouts(self) -> None:
        """Close the channel if a delivery has exceeded its consumer timeout (RabbitMQ)."""
        now_ms = self._tick.now_ms
        timers = self._tick.timers
        for delivery in self.unacked.outstanding():
            consumer = delivery.consumer
            if consumer is None or consumer.timeout_ms == 0:
                continue
            due_ms = delivery.since_ms + consumer.timeout_ms
            if due_ms <= now_ms:
                self._owner.close(
                    PreconditionFailed(
                        f"delivery acknowledgement on channel {self._channel.number} timed out. Timeout value used: "
                        f"{consumer.timeout_ms} ms. This timeout value can be configured by the argument "
                        "x-consumer-timeout"
                    )
                )
                return
            timers.at(due_ms, self._timeout)

    def end(self) -> list[ChannelConsumer]:
        """End all subscriptions, and return unsettled deliveries: the channel is closed. Returns its consumers."""
        consumers = list(self.consumers.values())
        self.consumers = {}
        self._last = None
        if self._connection.last is self:
            self._connection.last = None
        self._tick.timers.cancel(self._timeout)
        # The subscriptions end first, so that no message is requeued to a consumer of this channel.
        for consumer in consumers:
            consumer.queue.unsubscribe(consumer)
        self.requeue(self.unacked.take_all())
        for queue in self._withholding:
            queue.context_ended(self)
        return consumers


@final
class _Timeout(Timed):
    """The timer for the consumer timeouts of a channel."""

    def __init__(self, deliveries: Deliveries) -> None:
        super().__init__()
        self._deliveries = deliveries

    def on_due(self, now_ms: i64) -> None:
        self._deliveries.check_timeouts()


@final
class _Acceptance(SteppedWork):
    """Deliveries of a channel that are accepted together, in steps.

    The client's next method on a channel waits until all are settled. If the connection ends before, the steps go on.
    """

    def __init__(self, owner: Deliveries, engine: Connection, deliveries: list[Delivery]) -> None:
        self._owner = owner
        self._engine = engine
        # The next one last, so that each step frees those that it has settled.
        self._deliveries = deliveries
        self._deliveries.reverse()
        engine.hold_methods()

    def outlasts_errors(self) -> bool:
        return bool(self._deliveries)

    def step(self, most: i64) -> bool:
        left = self._deliveries
        count: i64 = min(max(most, 1) * _SETTLED_PER_UNIT, len(left))
        WORK.spent += count // _SETTLED_PER_UNIT
        taken = [left.pop() for _ in range(count)]
        if not left:
            self._engine.take_methods()
        self._owner.settle(taken, ACCEPT)
        return bool(left)
