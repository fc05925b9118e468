"""A channel as the server sees it: messages in from a publisher, confirms and answers in their order, transactions.

What goes out to consumers is in `deliveries.py`; the methods that are answered one by one (declare, consume, qos...)
are functions beside this file.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import (
    AmqpError,
    FlintError,
    NoConsumers,
    NoRoute,
    NotAllowed,
    NotFound,
    NotImplementedHere,
    PreconditionFailed,
    ResourceError,
)
from flintmq.base.limits import (
    ANSWER_BYTES_PER_UNIT,
    SELECTOR_UNITS_PER_CHARACTER,
    STAGE_ATTEMPTS_MAX,
    UNACKED_TAGS_PER_UNIT,
)
from flintmq.base.work import WORK
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.consumer import Consumer
from flintmq.broker.queue.publishing import STORED, TURNED_AWAY, UNDELIVERED, UNROUTED
from flintmq.broker.selector.selectors import ARGUMENT as SELECTOR
from flintmq.broker.stage.copies import Attempt, Key
from flintmq.broker.stage.stage import Stage
from flintmq.broker.tap import Client
from flintmq.broker.transaction import Transaction
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp091.audit import AUDITED, target_of
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.confirms import Confirms, Reply
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.deliveries import Deliveries
from flintmq.gateway.amqp091.line_ends import strip_line_ends
from flintmq.gateway.amqp091.ports import ClientChannel, ClientConnection
from flintmq.gateway.amqp091.publish_method import publish_target
from flintmq.gateway.amqp091.publish_options import NO_OPTIONS, PublishOptions, check_command, read_publish_options
from flintmq.gateway.amqp091.service import Service
from flintmq.gateway.amqp091.transaction import ChannelPublish, ChannelSettlement
from flintmq.gateway.amqp091.unacked import ACCEPT
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.durability import PendingReply
from flintmq.gateway.publishing import Publisher, PublishTarget
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.output import Output
from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.methods import BasicCancel, BasicReturn, ChannelFlow, Method, TxCommitOk, encode_method

# A method's function: told the channel and the method, answers through the channel or raises an AmqpError.
Handler = Callable[["ServerChannel", Method], None]


@final
class ServerChannel(ClientChannel):
    def __init__(
        self,
        channel: Channel,
        output: Output,
        service: Service,
        access: Access,
        connection: ClientConnection,
        notify_cancel: bool,
        handlers: dict[int, Handler],
        checks: dict[int, Handler],
    ) -> None:
        super().__init__(service, access, connection)
        self._engine = connection.engine
        self.deliveries = Deliveries(self, channel, output)
        # While it deletes a queue its own consumers' ends are kept back: a client that waits for delete-ok may take a
        # cancel before it for a fault (RabbitMQ's order).
        self.is_deleting = False
        self._cancelled: list[str] = []
        # Tags of consumers that ended with their queues: a client that has not learned of it may still cancel them.
        self._ended_tags: set[str] = set()
        self.transaction: Transaction | None = None
        # The attempt that messages are published in, once a stage is selected.
        self.attempt: Attempt | None = None
        self._is_staging = False
        # What came of the winners of a commit that has more of them than one method holds, and of which commit.
        self._winners: dict[int, int] = {}
        self._winners_of = ("", 0, 0)
        # Whether messages go to their queues as they come: there is neither of the two.
        self._publishes_at_once = True
        # The queue that an empty name means (amqp-0-9-1 queue.bind.queue).
        self.last_queue = ""
        self._channel = channel
        # Whether the client was asked to stop publishing (channel.flow).
        self._is_stopped = False
        # Whether this channel is to be closed at the end of the tick.
        self._closes_later = False
        self._access = access
        self._handlers = handlers
        # The permission checks of methods.
        self._checks = checks
        self._notify_cancel = notify_cancel
        self._targets = self.gateway.targets.of(access.rights)
        # The target, method and properties of the last publish, which most publishers repeat.
        self._target: PublishTarget | None = None
        self._method = b""
        self._properties = b""
        self._publish_options = NO_OPTIONS
        self.confirms = Confirms(self.gateway.durability, channel, access.vhost.traffic, connection.fail)
        # The engine's channel may have a new life under the same number by the time the disk answers for this one.
        self._is_closed = False
        self.publisher = Publisher(
            access.vhost, access.rights, self.gateway.tick, self.gateway.broker.storage.journal, self.client
        )

    @property
    def number(self) -> int:
        return int(self._channel.number)

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    # -- publishing ---------------------------------------------------------------------------------------------

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        target = self._target
        if target is None or method != self._method:
            target = publish_target(self._targets, method)
            self._target = target
            self._method = method
        publisher = self.publisher
        if target.permitted != self.rights.version + self.vhost.router.version:
            publisher.permit(target)
        if properties != self._properties:
            self._publish_options = read_publish_options(self, properties)
            # No message's properties are empty.
            self._properties = properties if self._publish_options.lasts else b""
        options = self._publish_options
        if options.need_rights:
            self._permit_options(target, options)
        publisher.published += 1
        gateway = self.gateway
        message = Message(
            target.address,
            CODEC_091,
            options.properties,
            body,
            options.message_options,
            gateway.tick.now_ms,
            self.connection.number,
        )
        if options.message_options.persistent and gateway.failure:
            self._refuse_publish()
        elif self._publishes_at_once:
            self.put(target, message, self.vhost.queues_of(target.route, message, options.more_keys))
        elif self.transaction is not None:
            self.transaction.publish(ChannelPublish(self, target, message, options.more_keys))
        else:
            self._stage(target, message, options.more_keys)

    def put(self, target: PublishTarget, message: Message, queues: list[Queue]) -> None:
        """Put a message on its queues, and answer its publisher."""
        publisher = self.publisher
        if self.gateway.tick.tap is not None:
            message = publisher.tapped(message, queues)
        self._answer_publish(target, message, publisher.deliver(target, message, queues))

    def client(self) -> Client:
        """The client, for taps."""
        connection = self.connection
        return Client(connection.peer, self._channel.number, connection.user, self.vhost.name)

    def _answer_publish(self, target: PublishTarget, message: Message, outcome: int) -> None:
        """The outcome of a publish is known: have it confirmed, or return the message, as its publisher asked for."""
        confirms = self.confirms
        if confirms.is_confirming:
            confirms.published += 1
            if not confirms.is_active:
                confirms.touch()
        if outcome == STORED:
            if not confirms.stored:
                confirms.stored = True
                confirms.touch()
        elif outcome == UNROUTED:
            self._no_route(target, message)
        elif outcome == UNDELIVERED:
            self._return(message, NoConsumers.code, NoConsumers.name)
        elif outcome == TURNED_AWAY and confirms.is_confirming:
            confirms.turn_away()

    def _no_route(self, target: PublishTarget, message: Message) -> None:
        if target.mandatory:
            self._return(message, NoRoute.code, NoRoute.name)
        elif target.immediate:
            self._return(message, NoConsumers.code, NoConsumers.name)
        self.publisher.unrouted(target.mandatory or target.immediate)

    def _permit_options(self, target: PublishTarget, options: PublishOptions) -> None:
        more_keys = options.more_keys or []
        self.publisher.permit_keys(target, more_keys)
        if options.message_options.command:
            check_command(self, target.address.exchange, [target.address.routing_key, *more_keys])

    def _refuse_publish(self) -> None:
        """The storage has failed for good: nothing persistent is taken, and the publisher hears of it."""
        confirms = self.confirms
        if not confirms.is_confirming:
            raise ResourceError(f"nothing durable can be stored: {self.gateway.failure}")
        confirms.published += 1
        confirms.stored = True
        confirms.touch()

    def _return(self, message: Message, code: int, text: str) -> None:
        address = message.address
        method = BasicReturn(
            reply_code=code, reply_text=text, exchange=address.exchange, routing_key=address.routing_key
        )
        self._channel.send_content(encode_method(method), message.properties, message.body)

    def select_confirms(self) -> None:
        if self.transaction is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        self.confirms.is_confirming = True

    # -- transactions -------------------------------------------------------------------------------------------

    def select_transaction(self) -> None:
        if self.confirms.is_confirming:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        if self._is_staging:
            raise PreconditionFailed("cannot switch from stage to tx mode")
        if self.transaction is None:
            self.transaction = Transaction(self.gateway.broker, self.vhost)
            self._publishes_at_once = False

    def _staged(self) -> Transaction:
        if self.transaction is None:
            raise PreconditionFailed("channel is not transactional")
        return self.transaction

    def commit(self) -> None:
        """Apply all that is staged, as one group of the journal, and say so once it is durable."""
        staged = self._staged()
        self.check_storage()
        staged.commit()
        self.reply_when_stored(TxCommitOk())

    def rollback(self) -> None:
        self._staged().roll_back()

    # -- stages -------------------------------------------------------------------------------------------------

    def select_stage(self, stage: Stage, epoch: int, key: Key) -> None:
        """Publish in this attempt from now on. Raises PreconditionFailed as `Stage.begin` does."""
        if self.transaction is not None:
            raise PreconditionFailed("cannot switch from tx to stage mode")
        if self.attempt is not None:
            self.attempt.abandon()
            self.attempt = None
        self._is_staging = True
        self._publishes_at_once = False
        self.attempt = stage.begin(epoch, key)

    def _selected(self) -> Attempt:
        if self.attempt is None:
            raise PreconditionFailed("no stage is selected on this channel: begin with stage.select")
        return self.attempt

    def _stage(self, target: PublishTarget, message: Message, more_keys: list[str] | None) -> None:
        attempt = self._selected()
        if target.immediate:
            raise PreconditionFailed("a message that is staged cannot be delivered at once: publish without immediate")
        outcome = attempt.put(message, self.vhost.queues_of(target.route, message, more_keys))
        WORK.spent += target.route.cost
        self._answer_publish(target, message, outcome)

    def complete_attempt(self) -> int:
        """All of it has come; returns how many messages."""
        count = self._selected().complete()
        self.attempt = None
        return count

    def add_winners(self, commit: tuple[str, int, int], winners: dict[int, int]) -> dict[int, int]:
        """All that came for this commit (transactional id, epoch, batch). Raises PreconditionFailed for too many."""
        if commit != self._winners_of:
            self._winners_of = commit
            self._winners = {}
        self._winners.update(winners)
        if len(self._winners) > STAGE_ATTEMPTS_MAX:
            raise PreconditionFailed(f"a batch has {STAGE_ATTEMPTS_MAX} winners at most")
        return self._winners

    def take_winners(self) -> None:
        """The commit is made: another one begins with none."""
        self._winners_of = ("", 0, 0)
        self._winners = {}

    @property
    def has_published(self) -> bool:
        return self._target is not None

    def stop_flow(self) -> None:
        """Ask the client to stop publishing, where connection.blocked would say nothing to it, and its dialect does."""
        if not self._is_stopped and not self._is_closed and self.vhost.dialect.stops_publishers_by_flow:
            self._is_stopped = True
            self._channel.send(ChannelFlow(active=False))

    def resume_flow(self) -> None:
        if self._is_stopped and not self._is_closed:
            self._is_stopped = False
            self._channel.send(ChannelFlow(active=True))

    # -- replies ------------------------------------------------------------------------------------------------

    def on_method(self, method: Method) -> None:
        handler = self._handlers.get(method.id)
        if handler is None:
            raise NotImplementedHere(f"{method.name} is not implemented yet")
        if not self.vhost.dialect.checks_names:
            strip_line_ends(method)
        check = self._checks.get(method.id)
        target = target_of(method, self.vhost, self.last_queue) if method.id in AUDITED else ""
        version: i64 = self.vhost.router.version
        try:
            if check is not None:
                check(self, method)
            handler(self, method)
        except AmqpError as error:
            if target:
                self._audit(method, target, error.text)
            if method.id != spec.QUEUE_UNBIND or not self.vhost.dialect.failed_unbind_ends_connection:
                raise
            # amqp-0-9-1 queue.unbind: whatever the fault, it costs the connection.
            self.connection.engine.close(error.code, error.reply_text, error, method.id)
        else:
            # Declaring something again changes nothing, and is not recorded.
            if target and (version != self.vhost.router.version or method.id == spec.QUEUE_PURGE):
                self._audit(method, target, "")

    def _audit(self, method: Method, target: str, refusal: str) -> None:
        connection = self.connection
        event = AuditEvent(
            connection.user, connection.peer, "amqp 0-9-1", self.vhost.name, method.name, target, refusal
        )
        self.gateway.host.audit(event)

    def reply(self, method: Method, starts: ChannelConsumer | None = None) -> None:
        """Answer, behind any answer that still waits; `starts` is a consumer that may deliver from then on."""
        self.confirms.give(Reply(self.confirms, encode_method(method), starts))

    def reply_with(self, method: Method, properties: bytes, pieces: list[bytes]) -> None:
        """Answer with content, a body in pieces; in its turn as `reply` does."""
        self.confirms.give(self._content(method, properties, pieces))

    def reply_with_when_stored(self, method: Method, properties: bytes, pieces: list[bytes]) -> None:
        """Answer with content once all that was staged by now is on the disk."""
        self.confirms.stored = True
        self.confirms.add(self._content(method, properties, pieces))

    def _content(self, method: Method, properties: bytes, pieces: list[bytes]) -> Reply:
        size: i64 = 0
        for piece in pieces:
            size += len(piece)
        self._engine.spend(size // ANSWER_BYTES_PER_UNIT)
        return Reply(self.confirms, encode_method(method), None, properties, pieces)

    def reply_with_delivery(self, method: Method, properties: bytes, body: bytes) -> None:
        """Reply with a delivery of basic.get. No delivery with a higher tag may go out before it."""
        self._engine.spend(len(body) // ANSWER_BYTES_PER_UNIT)
        reply = Reply(self.confirms, encode_method(method), None, properties, [body])
        if not self.confirms.give(reply):
            reply.got_by = self.deliveries
            self.deliveries.wait_for_get()

    def spend(self, units: i64) -> None:
        """A method did so much more than others."""
        self._engine.spend(units)

    def reply_when_durable(self, method: Method) -> None:
        """Answer a change of definitions once it is on the disk."""
        if not self.gateway.broker.storage.definitions_durable:
            self.confirms.add_method(method)
        else:
            self.reply(method)

    def check_storage(self) -> None:
        """Raises ResourceError once nothing will become durable any more."""
        if self.gateway.failure:
            raise ResourceError(f"nothing durable can be stored: {self.gateway.failure}")

    def reply_when_stored(self, method: Method) -> None:
        """Answer once all that was staged by now is on the disk."""
        self.confirms.stored = True
        self.confirms.add_method(method)

    # -- delivering ---------------------------------------------------------------------------------------------

    def close(self, error: AmqpError) -> None:
        """Close the channel for a reason that came up without a method of the client."""
        if not self._is_closed:
            self._channel.close(error.code, error.reply_text, 0, error)

    def close_later(self, error: AmqpError) -> None:
        """Close the channel at the end of the tick, for a caller that is in the middle of something."""
        if not self._closes_later:
            self._closes_later = True
            self.confirms.at_end(_Close(self, error))

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.deliveries.forget(consumer)
        if self.vhost.dialect.foreign_tag_is_fault:
            self._ended_tags.add(consumer.tag)
        if self._notify_cancel:
            self._cancelled.append(consumer.tag)
            if not self.is_deleting:
                self.tell_cancelled()

    def tell_cancelled(self) -> None:
        tags = self._cancelled
        self._cancelled = []
        for tag in tags:
            # Behind a consume-ok that still waits for the disk: the client has to know whom this is about.
            self.reply(BasicCancel(consumer_tag=tag, no_wait=True))

    def forget_tag(self, tag: str) -> None:
        """A tag that no consumer has is cancelled: fine where its queue has gone, or where the dialect says so.

        Raises NotAllowed.
        """
        if tag in self._ended_tags:
            self._ended_tags.remove(tag)
        elif self.vhost.dialect.foreign_tag_is_fault:
            raise NotAllowed(f"this channel has no consumer with the tag '{tag}'")

    # -- settling -----------------------------------------------------------------------------------------------

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        if self.transaction is None:
            self.deliveries.accept(delivery_tag, multiple)
        else:
            self.settle(delivery_tag, multiple, ACCEPT)

    def settle(self, delivery_tag: i64, multiple: bool, outcome: int) -> None:
        """basic.ack, basic.nack and basic.reject: ACCEPT, REJECT or REQUEUE."""
        unacked = self.deliveries.unacked
        if self.transaction is None:
            self.deliveries.settle(unacked.take(delivery_tag, multiple), outcome)
        else:
            if multiple:
                self._engine.spend(unacked.span // UNACKED_TAGS_PER_UNIT)
            self.transaction.settle(ChannelSettlement(self.deliveries, outcome, unacked.find(delivery_tag, multiple)))

    def spend_on_selector(self, arguments: Table) -> None:
        """Arguments are about to be understood, and with them a condition that takes long to parse."""
        selector = arguments.get(SELECTOR)
        if isinstance(selector, str):
            self._engine.spend(len(selector) * SELECTOR_UNITS_PER_CHARACTER)

    # -- names --------------------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue a method names."""
        return self.vhost.queue(self.queue_name(name), self.connection)

    def is_void(self, passive: bool, no_wait: bool) -> bool:
        """Whether a declaration has no effect, whoever asks, whatever it names (amqp-0-9-1 queue.declare.passive)."""
        return passive and no_wait and self.vhost.dialect.passive_without_answer_is_void

    def queue_name(self, name: str) -> str:
        """An empty name means the queue that this channel declared last. Raises NotFound when there is none."""
        if name == "":
            if self.last_queue == "":
                raise NotFound("no previously declared queue")
            return self.last_queue
        return name

    # -- the end ------------------------------------------------------------------------------------------------

    def on_closed(self, error: FlintError | None) -> None:
        self._is_closed = True
        self._access.close_channel()
        if isinstance(error, AmqpError) and not error.closes_connection:
            connection = self.connection
            self.gateway.host.channel_failed(connection.peer, connection.user, int(self._channel.number), error)
        confirms = self.confirms
        if confirms.is_confirming:
            self.gateway.tick.churn.unconfirmed += confirms.published - confirms.confirmed
        confirms.close()
        if self.attempt is not None:
            self.attempt.abandon()
            self.attempt = None
        if self.transaction is not None:
            self.transaction.abandon()
        for consumer in self.deliveries.end():
            self.vhost.unsubscribe(consumer.queue, consumer)


@final
class _Close(PendingReply):
    """A channel is closed at the end of the tick."""

    def __init__(self, channel: ServerChannel, error: AmqpError) -> None:
        self._channel = channel
        self._error = error

    def send(self) -> None:
        self._channel.close(self._error)

    def fail(self, reason: str) -> None:
        """Closing a channel needs no storage."""
