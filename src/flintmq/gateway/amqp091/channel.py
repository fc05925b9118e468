"""A channel of a client: it takes messages, answers methods in order, and has transactions and stages.

Deliveries to consumers are in `deliveries.py`. The handlers of methods (declare, consume, qos...) are functions in the
modules `*_methods.py`.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import (
    AmqpError,
    FlintError,
    InternalError,
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
    FAILED_CHANNEL_UNITS,
    SELECTOR_UNITS_PER_CHARACTER,
    STAGE_ATTEMPTS_MAX,
    UNACKED_TAGS_PER_UNIT,
)
from flintmq.base.work import WORK
from flintmq.broker.access.permission import READ
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.publish import STORED, TURNED_AWAY, UNDELIVERED, UNROUTED
from flintmq.broker.selector.selectors import ARGUMENT as SELECTOR
from flintmq.broker.stage.copies import Attempt, Key
from flintmq.broker.stage.stage import Stage
from flintmq.broker.tap import Client
from flintmq.broker.tick import SteppedWork
from flintmq.broker.transaction import Transaction
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.confirms import Confirms, Reply
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.gateway.amqp091.deliveries import Deliveries
from flintmq.gateway.amqp091.line_ends import strip_line_ends
from flintmq.gateway.amqp091.ports import ClientChannel, ClientConnection
from flintmq.gateway.amqp091.publish_method import publish_target
from flintmq.gateway.amqp091.publish_properties import (
    NO_PROPERTIES,
    PublishProperties,
    check_command,
    read_publish_properties,
)
from flintmq.gateway.amqp091.service import Service
from flintmq.gateway.amqp091.transaction import ChannelPublish, ChannelSettlement
from flintmq.gateway.amqp091.unacked import ACCEPT
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.durability import PendingReply
from flintmq.gateway.publishing import Publisher, PublishTarget
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.output import Output
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import BasicCancel, BasicReturn, ChannelFlow, Method, TxCommitOk


@final
class MethodHandler:
    """How a channel handles a method: `handle` answers through the channel, or raises AmqpError.

    `changes` returns the object whose definition the method changes, for the audit log; empty if nobody but its own
    connection can use the object. None: the method changes no definition. `names` are the arguments that are names of
    definitions: in the dialect rabbitmq, their line ends are removed.
    """

    def __init__(
        self,
        handle: Callable[["ServerChannel", Method], None],
        changes: Callable[["ServerChannel", Method], str] | None,
        names: tuple[str, ...],
    ) -> None:
        self.handle = handle
        self.changes = changes
        self.names = names


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
        handlers: dict[int, MethodHandler],
    ) -> None:
        super().__init__(service, access, connection)
        self._engine = connection.engine
        self.deliveries = Deliveries(self, channel, output)
        # Whether a queue is being deleted for the client. The cancels of its own consumers wait until then, because a
        # client may take a cancel before delete-ok for a fault (RabbitMQ's order).
        self.is_deleting = False
        self._cancelled: list[str] = []
        # Tags of consumers that ended with their queues: a client that does not know yet may still cancel them.
        self._ended_tags: set[str] = set()
        self.transaction: Transaction | None = None
        # The attempt that messages are published in, once a stage is selected.
        self.attempt: Attempt | None = None
        self._is_staging = False
        # The attempts received so far for a commit with more of them than one method holds, and the key of the commit.
        self._attempts: dict[int, int] = {}
        self._attempts_of = ("", 0, 0)
        # Whether messages are put on their queues at once: there is no transaction and no stage.
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
        self._notify_cancel = notify_cancel
        self._targets = self.gateway.targets.of(access.rights)
        # The target, method and properties of the last publish, which most publishers repeat.
        self._target: PublishTarget | None = None
        self._method = b""
        self._properties = b""
        self._publish_properties = NO_PROPERTIES
        self.confirms = Confirms(self.gateway.durability, channel, access.vhost.traffic, connection.fail)
        # Whether this channel is closed: the engine may reuse its number before the disk confirms records of this one.
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
            self._publish_properties = read_publish_properties(self.vhost, self.user, properties, self.reply_queue)
            # Encoded properties are never empty, so b"" equals none.
            self._properties = properties if self._publish_properties.lasts else b""
        asked = self._publish_properties
        if asked.need_rights:
            self._permit_properties(target, asked)
        publisher.published += 1
        gateway = self.gateway
        message = Message(
            target.address,
            CODEC_091,
            asked.properties,
            body,
            asked.message_options,
            gateway.tick.now_ms,
            self.connection.number,
        )
        if asked.message_options.persistent and gateway.failure:
            self._refuse_publish()
        elif self._publishes_at_once:
            self.put(target, message, self.vhost.queues_of(target.route, message, asked.more_keys))
        elif self.transaction is not None:
            self.transaction.publish(ChannelPublish(self, target, message, asked.more_keys))
        else:
            self._stage(target, message, asked.more_keys)

    def put(self, target: PublishTarget, message: Message, queues: list[Queue]) -> None:
        """Put a message on its queues, and answer its publisher with a confirm or a return."""
        publisher = self.publisher
        if self.gateway.tick.tap is not None:
            message = publisher.tapped(message, queues)
        self._answer_publish(target, message, publisher.deliver(target, message, queues))

    def client(self) -> Client:
        """Describe the client for taps."""
        connection = self.connection
        return Client(connection.peer, self._channel.number, connection.user, self.vhost.name)

    def _answer_publish(self, target: PublishTarget, message: Message, outcome: int) -> None:
        """Answer a publish with this outcome: have it confirmed, or return the message, as its publisher asked."""
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

    def _permit_properties(self, target: PublishTarget, asked: PublishProperties) -> None:
        more_keys = asked.more_keys or []
        self.publisher.permit_keys(target, more_keys)
        if asked.message_options.command:
            check_command(self, target.address.exchange, [target.address.routing_key, *more_keys])

    def _refuse_publish(self) -> None:
        """Refuse a persistent message: the storage has failed for good. Raises ResourceError without confirms."""
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
        """Commit the transaction as one group of the journal, and answer once it is durable. Raises AmqpError."""
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
        """Complete the attempt: all its messages have come. Returns how many. Raises PreconditionFailed without one."""
        count = self._selected().complete()
        self.attempt = None
        return count

    def add_attempts(self, commit: tuple[str, int, int], attempts: dict[int, int]) -> dict[int, int]:
        """Add attempts to those received for this commit (transactional id, epoch, batch), and return all of them.

        Raises PreconditionFailed for too many.
        """
        if commit != self._attempts_of:
            self._attempts_of = commit
            self._attempts = {}
        self._attempts.update(attempts)
        if len(self._attempts) > STAGE_ATTEMPTS_MAX:
            raise PreconditionFailed(f"a batch has {STAGE_ATTEMPTS_MAX} attempts at most")
        return self._attempts

    def forget_attempts(self) -> None:
        """Forget the attempts of a commit that is made."""
        self._attempts_of = ("", 0, 0)
        self._attempts = {}

    @property
    def has_published(self) -> bool:
        return self._target is not None

    def stop_flow(self) -> None:
        """Ask the client to stop publishing, if the dialect allows it: it does not understand connection.blocked."""
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
        if handler.names and not self.vhost.dialect.checks_names:
            strip_line_ends(method, handler.names)
        changes = handler.changes
        if changes is None:
            handler.handle(self, method)
        else:
            self._handle_audited(handler.handle, method, changes(self, method))

    def handle_again(self, method: Method) -> None:
        """Handle a method in the next tick as if it had come then; the client's next method waits.

        It could not be finished now, because what it asked for is too much work for one tick.
        """
        self.gateway.tick.steps.append(_Again(self, method))
        self.hold_methods()

    def hold_methods(self) -> None:
        """Have the client's next method wait until `go_on`, because ticks work on the last one."""
        self._engine.hold_methods()

    def go_on(self, method: Method, handle: Callable[[], None]) -> None:
        """Stop holding methods. Unless the channel was closed meanwhile, `handle` finishes this one, or raises."""
        self._engine.take_methods()
        if self._is_closed:
            return
        try:
            handle()
        except AmqpError as error:
            if error.closes_connection:
                self._engine.close(error.code, error.reply_text, error, method.id)
            else:
                self._channel.close(error.code, error.reply_text, method.id, error)
        except Exception as error:  # noqa: BLE001 - the client waits for an answer, whatever it is
            self.gateway.host.internal_error(error)
            self.connection.fail(InternalError(f"{type(error).__name__} while handling a method; see the broker log"))

    def _handle_audited(self, handle: Callable[["ServerChannel", Method], None], method: Method, target: str) -> None:
        """Handle a method that changes the definition of `target`, and record that, or the refusal."""
        version: i64 = self.vhost.router.version
        try:
            handle(self, method)
        except AmqpError as error:
            if target:
                self._audit(method, target, error.text)
            if method.id != methods.QUEUE_UNBIND or not self.vhost.dialect.failed_unbind_ends_connection:
                raise
            # Every fault of queue.unbind closes the connection (amqp-0-9-1 queue.unbind).
            self.connection.engine.close(error.code, error.reply_text, error, method.id)
        else:
            # Declaring something again changes nothing, and is not recorded.
            if target and (version != self.vhost.router.version or method.id == methods.QUEUE_PURGE):
                self._audit(method, target, "")

    def _audit(self, method: Method, target: str, refusal: str) -> None:
        connection = self.connection
        event = AuditEvent(
            connection.user, connection.peer, "amqp 0-9-1", self.vhost.name, method.name, target, refusal
        )
        self.gateway.host.audit(event)

    def reply(self, method: Method, starts: ChannelConsumer | None = None) -> None:
        """Answer, after any answer that still waits. `starts` is a consumer that may deliver after this answer."""
        self.confirms.send_in_turn(Reply(self.confirms, encode_method(method), starts))

    def reply_with(self, method: Method, properties: bytes, pieces: list[bytes]) -> None:
        """Answer with content, whose body is in pieces, after any answer that still waits."""
        self.confirms.send_in_turn(self._content(method, properties, pieces))

    def reply_with_when_stored(self, method: Method, properties: bytes, pieces: list[bytes]) -> None:
        """Answer with content once all records that were written until now are on the disk."""
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
        if not self.confirms.send_in_turn(reply):
            reply.got_by = self.deliveries
            self.deliveries.wait_for_get()

    def spend(self, units: i64) -> None:
        """Count further units of work for the method that is being handled."""
        self._engine.spend(units)

    def reply_when_durable(self, method: Method) -> None:
        """Answer a change of definitions once it is on the disk."""
        if not self.gateway.broker.storage.definitions_durable:
            self.confirms.add_method(method)
        else:
            self.reply(method)

    def check_storage(self) -> None:
        """Raises ResourceError if the storage has failed for good."""
        if self.gateway.failure:
            raise ResourceError(f"nothing durable can be stored: {self.gateway.failure}")

    def reply_when_stored(self, method: Method) -> None:
        """Answer once all records that were written until now are on the disk."""
        self.confirms.stored = True
        self.confirms.add_method(method)

    # -- delivering ---------------------------------------------------------------------------------------------

    def close(self, error: AmqpError) -> None:
        """Close the channel with an error that no method of the client caused."""
        if not self._is_closed:
            self._channel.close(error.code, error.reply_text, 0, error)

    def close_later(self, error: AmqpError) -> None:
        """Close the channel at the end of the tick, because the caller is in the middle of a dispatch."""
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
            # The cancel must come after a consume-ok that still waits, so that the client knows the consumer.
            self.reply(BasicCancel(consumer_tag=tag, no_wait=True))

    def forget_tag(self, tag: str) -> None:
        """Cancel a tag that no consumer has. Raises NotAllowed if the dialect forbids that.

        It is always allowed for a consumer that ended with its queue.
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
        """Settle a delivery, or with `multiple` all up to its tag; `outcome` is ACCEPT, REJECT or REQUEUE.

        Raises PreconditionFailed for an unknown tag.
        """
        unacked = self.deliveries.unacked
        if self.transaction is None:
            self.deliveries.settle_taken(unacked.take(delivery_tag, multiple), outcome)
        else:
            if multiple:
                self._engine.spend(unacked.span // UNACKED_TAGS_PER_UNIT)
            self.transaction.settle(ChannelSettlement(self.deliveries, outcome, unacked.find(delivery_tag, multiple)))

    def spend_on_selector(self, arguments: Table) -> None:
        """Count the work for parsing the selector in these arguments, if they have one."""
        selector = arguments.get(SELECTOR)
        if isinstance(selector, str):
            self._engine.spend(len(selector) * SELECTOR_UNITS_PER_CHARACTER)

    # -- names --------------------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue that a method names. Raises NotFound, or ResourceLocked if another connection owns it."""
        return self.vhost.queue(self.queue_name(name), self.connection)

    def check_read(self, name: str) -> None:
        """Check that the user may read from the queue that a method names. Raises AccessRefused or NotFound."""
        self.rights.check(READ, "queue", self.queue_name(name))

    def is_void(self, passive: bool, no_wait: bool) -> bool:
        """Whether a declaration has no effect at all: passive with no-wait (amqp-0-9-1 queue.declare.passive)."""
        return passive and no_wait and self.vhost.dialect.passive_without_answer_is_void

    def queue_name(self, name: str) -> str:
        """Resolve an empty name to the queue that this channel declared last. Raises NotFound if there is none."""
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
            self._engine.spend(FAILED_CHANNEL_UNITS)
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
class _Again(SteppedWork):
    """A method that is handled again."""

    def __init__(self, channel: ServerChannel, method: Method) -> None:
        self._channel = channel
        self._method = method

    def step(self, most: i64) -> bool:
        channel, method = self._channel, self._method
        channel.go_on(method, lambda: channel.on_method(method))
        return False


@final
class _Close(PendingReply):
    """Closes a channel at the end of the tick."""

    def __init__(self, channel: ServerChannel, error: AmqpError) -> None:
        self._channel = channel
        self._error = error

    def send(self) -> None:
        self._channel.close(self._error)

    def fail(self, reason: str) -> None:
        """Nothing to do: closing a channel needs no storage."""
