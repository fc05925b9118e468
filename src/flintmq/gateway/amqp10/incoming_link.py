"""A link on which a client publishes: it takes messages, and sends their outcomes once these are durable."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    SCOPE_LINK,
    Amqp10Error,
    AmqpError,
    DecodeError,
    FlintError,
    InvalidField,
    LinkStolen,
    MessageSizeExceeded,
    NotFound,
    NotImplementedHere,
    PreconditionFailed,
    ResourceDeleted,
    ResourceError,
)
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import EntryHolder, Queue
from flintmq.broker.queue.publish import STORED, TURNED_AWAY, UNROUTED
from flintmq.broker.terminus.terminus import PART_BYTES, DetachedLink, TargetTerminus
from flintmq.broker.transaction import StagedPublish
from flintmq.gateway.amqp10.addresses import EXCHANGE, parse_to
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.amqp10.confirms import refuse_unsafe
from flintmq.gateway.amqp10.link_terminus import decoded_state, encoded_state, join, leave, target_terminus
from flintmq.gateway.amqp10.message_parser import MessageParser, PublishOptions
from flintmq.gateway.amqp10.names import Key, NamedLink
from flintmq.gateway.amqp10.ports import ClientSession, TargetLink
from flintmq.gateway.amqp10.posted_delivery import PostedDelivery
from flintmq.gateway.amqp10.progress import OutcomeKept, PartKept, Progress, seen
from flintmq.gateway.publishing import PublishTarget
from flintmq.protocol.amqp10.faults import to_wire
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink
from flintmq.wire.amqp10.received import received_state
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT, RCV_SECOND, REJECTED, SND_SETTLED, SYMBOLS
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Error,
    Outcome,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Target
from flintmq.wire.amqp10.values import Symbol

# Messages that a publisher may send before it gets an outcome: enough to keep it busy during a sync of the disk.
LINK_CREDIT: Final = 32_768
# Credit of a publisher that sends settled: about as many messages as one read of its socket brings. More credit would
# only lengthen the queue, because consumers get new credit once a tick.
SETTLED_CREDIT: Final = 8_192
# Bytes that are still accepted after an alarm took the credit back; after that, the connection is not read.
_GRACE_BYTES: Final = 1024 * 1024


@final
class IncomingLink(TargetLink, EntryHolder, DetachedLink, NamedLink):
    """A link on which a client publishes.

    `publish_target` is the target of all messages. If it is None, each message says its own: with an `exchange`, the
    subject of the message is the routing key; without one, `to` is the whole address.
    """

    def __init__(
        self,
        session: ClientSession,
        link: ReceiverLink,
        target: Target,
        publish_target: PublishTarget | None,
        exchange: str | None,
    ) -> None:
        self.session = session
        self.link = link
        self.name_key: Key = session.name_key(link.name, True)
        self.target = target
        # The terminus that outlives the link, if there is one.
        self.terminus: TargetTerminus | None = None
        self._exchange = exchange
        self._connection = session.connection
        self._vhost = session.vhost
        self._inflow = session.inflow
        self._rights = session.rights
        self._tick = session.gateway.tick
        self._confirms = session.connection.confirms
        self._publisher = session.publisher
        self._fixed = publish_target
        self._parser = MessageParser(session.access.user, session.vhost.dialect.checks_annotations)
        self._grace: i64 = _GRACE_BYTES
        self._most: i64 = LINK_CREDIT
        self._top_up_at: i64 = LINK_CREDIT // 2
        # Whether a durable message that no durable queue takes is refused (part 3 §3.2.1). It is rejected, or ends the
        # link if the client's source does not list `rejected` among its outcomes.
        self._is_strict = session.vhost.dialect.refuses_what_it_loses
        source = link.peer.source if link.peer is not None else None
        outcomes = source.outcomes if source is not None else []
        self._may_reject = not outcomes or SYMBOLS[REJECTED] in outcomes
        # The queue that the target names.
        self.queue: Queue | None = None
        self.is_over = False
        # The progress of a message that has arrived in part.
        self._progress: Progress | None = None
        # On a link without an address, the error that ends the link holds the tag of the message at fault.
        self._is_anonymous = publish_target is None and exchange is None
        link.wants_tags = self._is_anonymous

    def start(self) -> None:
        """Grant credit: the attach has been answered, and the client may send."""
        self.session.incoming[self] = None
        if self.queue is not None:
            self.queue.hold_for(self)
        if self.link.snd_settle_mode == SND_SETTLED:
            self._most = SETTLED_CREDIT
            self._top_up_at = SETTLED_CREDIT // 2
        self.grant()

    # -- credit -------------------------------------------------------------------------------------------------

    def grant(self) -> None:
        self.link.grant(0 if self.session.gateway.alarm else self._room())
        self._grace = _GRACE_BYTES

    def _room(self) -> i64:
        """The credit for the client, in messages.

        In settle mode second, deliveries that the client has not settled reduce it, but not below those it can resume.
        """
        link = self.link
        if link.rcv_settle_mode != RCV_SECOND:
            return self._most
        unsettled: i64 = link.unsettled
        resumable: i64 = 0
        if self.terminus is not None:
            unsettled = max(unsettled, len(self.terminus.unsettled))
            resumable = min(len(link.resumable), self._most)
        return max(self._most - unsettled, resumable)

    def _go_on(self, size: i64) -> None:
        """Grant more credit because little is left. During an alarm, count `size` bytes against the grace instead."""
        if self.session.gateway.alarm:
            self._grace -= size
            if self._grace <= 0:
                self._connection.hold()
        else:
            self.grant()

    # -- messages -----------------------------------------------------------------------------------------------

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if link.credit <= self._top_up_at:
            self._go_on(len(payload))
        if delivery is not None:
            if self.terminus is not None:
                self._keep(self.terminus, delivery, payload, False)
                return
            if delivery.state is not None and isinstance(delivery.state, TransactionalState):
                self._post(delivery, delivery.state, payload)
                return
            self._check_format(delivery)
        self._publish(delivery, payload, 0, len(payload))

    def _check_format(self, delivery: IncomingDelivery) -> None:
        """Check the message format. Raises InvalidField for any other than 0, that of part 3."""
        if delivery.message_format != MESSAGE_FORMAT:
            raise InvalidField(f"message format {delivery.message_format} is not supported: only 0 is", SCOPE_LINK)

    def on_fast_path(
        self, link: ReceiverLink, delivery: IncomingDelivery | None, data: bytes, start: i64, stop: i64
    ) -> None:
        if delivery is not None and (self.terminus is not None or delivery.message_format != MESSAGE_FORMAT):
            self.on_message(link, delivery, data[start:stop])
            return
        if link.credit <= self._top_up_at:
            self._go_on(stop - start)
        self._publish(delivery, data, start, stop)

    def _publish(self, delivery: IncomingDelivery | None, data: bytes, start: i64, stop: i64) -> None:
        try:
            options = self._parser.read_at(data, start, stop)
            target = self._fixed or self._named_target()
            message = self._message(target, options)
            queues = self._vhost.queues_of(target.route, message, options.more_keys)
        except DecodeError as malformed:
            raise DecodeError(f"failed to parse message: {malformed.text}", SCOPE_LINK) from None
        except (AmqpError, Amqp10Error) as error:
            self._refuse(delivery, error)
            return
        if self._is_strict:
            try:
                self._check_kept(message, queues)
            except PreconditionFailed as lost:
                if delivery is None or delivery.is_settled or not self._may_reject:
                    raise
                self._settle(delivery, Rejected(error=to_wire(lost)))
                return
        self.put(delivery, target, message, queues)

    def _message(self, target: PublishTarget, options: PublishOptions) -> Message:
        """Make the message that the parser read last. Raises AccessRefused or NotFound if it must not be published."""
        publisher = self._publisher
        if target.permitted != self._rights.version + self._vhost.router.version or options.more_keys is not None:
            publisher.permit(target)
            if options.more_keys is not None:
                publisher.permit_keys(target, options.more_keys)
        publisher.published += 1
        parser = self._parser
        return Message(
            target.address,
            CODEC_10,
            parser.properties,
            parser.body,
            options.message_options,
            self._tick.now_ms,
            self._connection.number,
        )

    def _check_kept(self, message: Message, queues: list[Queue]) -> None:
        """Raises PreconditionFailed in the dialect strict for a durable message that none of its queues would keep."""
        is_lost = self._is_strict and message.options.persistent and bool(queues)
        if is_lost and not any(queue.survives for queue in queues):
            raise PreconditionFailed(
                f"the message is durable, and queue '{queues[0].name}' in vhost '{self._vhost.name}' keeps none"
            )

    def _read(self, payload: bytes) -> tuple[PublishTarget, Message, list[str] | None]:
        """Parse a message to publish later: its target, the message, and its further routing keys.

        Raises DecodeError for a malformed message, AmqpError or Amqp10Error for one that must not be published.
        """
        try:
            options = self._parser.read(payload)
        except DecodeError as error:
            raise DecodeError(f"failed to parse message: {error.text}", SCOPE_LINK) from None
        target = self._fixed or self._named_target()
        return target, self._message(target, options), options.more_keys

    def put(
        self, delivery: IncomingDelivery | None, target: PublishTarget, message: Message, queues: list[Queue]
    ) -> None:
        """Put a message on its queues, and answer its publisher."""
        publisher = self._publisher
        if message.options.persistent and self.session.gateway.failure:
            if delivery is not None:
                refuse_unsafe(delivery, self.session.gateway.failure)
            return
        if self._tick.tap is not None:
            message = publisher.tapped(message, queues)
        self._inflow.published += 1
        outcome = publisher.deliver(target, message, queues)
        if outcome == UNROUTED:
            publisher.unrouted(delivery is not None and not delivery.is_settled)
        if delivery is None or delivery.is_settled:
            return
        if outcome == STORED:
            delivery.mark = ACCEPTED
            if self.terminus is None:
                self._confirms.stored.append(delivery)
                self._confirms.touch()
            else:
                self._confirms.add(OutcomeKept(self.terminus, delivery, ACCEPTED))
        elif outcome == UNROUTED:
            self._settle(delivery, RELEASED)
        elif outcome == TURNED_AWAY:
            self._settle(delivery, _too_long(queues))
        else:
            self._vhost.traffic.confirmed += 1
            self._inflow.confirmed += 1
            self._settle(delivery, ACCEPTED)

    def _post(self, delivery: IncomingDelivery, state: TransactionalState, payload: bytes) -> None:
        """Post a message in a transaction: it is published when the transaction is committed.

        An error makes the transaction fail, and rejects the delivery. Raises UnknownTransaction, and NotImplementedHere
        for an annotation that must not be ignored.
        """
        found = self.session.transactions.find(state.txn_id)
        outcome: Outcome = ACCEPTED
        posted: PostedDelivery | None = None
        try:
            self._check_format(delivery)
            target, message, more_keys = self._read(payload)
            # The message is routed now, because its outcome already says whether it is routed (part 4 §4.4.4).
            queues = self._vhost.queues_of(target.route, message, more_keys)
            if not queues:
                if delivery.is_settled:
                    raise NotFound(f"no queue takes a message to '{target.address.exchange}', and it came settled")
                outcome = RELEASED
            self._check_kept(message, queues)
            if delivery.settles_second and not delivery.is_settled:
                posted = PostedDelivery(state.txn_id, delivery, outcome)
            found.work.publish(LinkPublish(self, target, message, queues, posted))
        except (AmqpError, Amqp10Error) as error:
            found.failure = error
            if isinstance(error, NotImplementedHere):
                raise
            posted = None
            outcome = Rejected(error=to_wire(error))
        if not delivery.is_settled:
            self.link.settle(delivery, TransactionalState(txn_id=state.txn_id, outcome=outcome))
            if posted is not None:
                self._wait_for(posted, delivery)

    def _named_target(self) -> PublishTarget:
        """The target that the last message names. Raises PreconditionFailed for none, InvalidField for a long name."""
        if self._exchange is not None:
            return self.session.publish_target(self._exchange, self._parser.subject or "")
        to = self._parser.to
        if to is None:
            raise PreconditionFailed("anonymous terminus requires 'to' address to be set")
        place = parse_to(to)
        if place is None:
            raise PreconditionFailed(f"bad 'to' address string: {to}")
        if place.kind == EXCHANGE:
            return self.session.publish_target(place.name, place.key or "")
        return self.session.publish_target("", place.name)

    def _refuse(self, delivery: IncomingDelivery | None, error: AmqpError | Amqp10Error) -> None:
        """Refuse a message that cannot be published. Raises `error`, which ends the link, or rejects the delivery.

        The delivery is rejected if the message has its own address (amqp anonymous terminus 1.0 §2.2.2). Otherwise the
        target of the link is at fault. A settled delivery cannot be rejected, so it ends the link as well.
        """
        if isinstance(error, NotImplementedHere):
            # An annotation that must not be ignored is not understood, which ends the link (part 3 §3.2.10).
            raise error
        if self._fixed is not None or self._exchange is not None or delivery is None or delivery.is_settled:
            if delivery is not None and not delivery.is_settled and isinstance(error, NotFound):
                self.link.settle(delivery, RELEASED)
            if delivery is not None and self._is_anonymous:
                error.delivery_tag = delivery.tag
            raise error
        self._settle(delivery, Rejected(error=to_wire(error)))

    def _settle(self, delivery: IncomingDelivery, outcome: Outcome) -> None:
        delivery.mark = outcome
        self.link.settle(delivery, outcome)

    # -- deliveries that outlive the link ------------------------------------------------------------------------

    def unsettled(self) -> dict[bytes, DeliveryState | None]:
        """The states of unsettled deliveries of earlier links by this name (part 2 §2.6.13)."""
        terminus = self.terminus
        assert terminus is not None
        found: dict[bytes, DeliveryState | None] = {}
        for tag, received in terminus.unsettled.items():
            if received.outcome is not None:
                found[tag] = decoded_state(received.outcome)
            else:
                found[tag] = received_state(b"".join(received.parts))
        return found

    def on_part(self, link: ReceiverLink, delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        if not more and link.credit <= self._top_up_at:
            self._go_on(len(payload))
        assert self.terminus is not None
        self._keep(self.terminus, delivery, payload, more)

    def _keep(self, terminus: TargetTerminus, delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        """Take a transfer on a link with a terminus, which remembers it so that a reconnect does not repeat it."""
        tag = delivery.tag
        known = terminus.unsettled.get(tag)
        progress = delivery.mark
        if not isinstance(progress, Progress):
            # This is the first transfer of the delivery on this link.
            if not isinstance(delivery.state, TransactionalState):
                self._check_format(delivery)
            if known is not None and not delivery.is_resumed:
                # The client has forgotten the earlier delivery, and uses its tag for another message.
                terminus.forget(tag)
                known = None
            if known is not None and known.outcome is not None:
                self._confirm(terminus, delivery, decoded_state(known.outcome))
                return
            progress = Progress(0 if known is None else seen(known, delivery.state))
            delivery.mark = progress
        payload = progress.unseen(payload)
        if more:
            if not payload:
                # The part has no new bytes to remember.
                return
            progress.hold(self.link.session.reassembly, max(i64(len(payload)), PART_BYTES))
            self._progress = progress
            received = terminus.part(tag, payload)
            self._check_size(received.size)
            if progress.is_confirm_due(received.size):
                self._confirms.add(PartKept(self.link, delivery, received, progress))
            return
        self._release_budget()
        if known is not None and known.parts:
            payload = b"".join([*known.parts, payload])
            self._check_size(len(payload))
        state = delivery.state
        if isinstance(state, TransactionalState):
            terminus.forget(tag)
            self._post(delivery, state, payload)
            return
        terminus.begin()
        try:
            self._publish(delivery, payload, 0, len(payload))
            if self._tick.discarded:
                # A full queue discarded the message: its dead letter has to be in the group of its outcome.
                broker = self.session.gateway.broker
                broker.publish_dead_letters_since(broker.dead_letter_count)
            outcome = delivery.mark
            if not delivery.is_settled and isinstance(outcome, Outcome):
                terminus.received(tag, encoded_state(outcome))
            else:
                # A settled delivery is never resumed.
                terminus.forget(tag)
        finally:
            terminus.end()

    def _check_size(self, size: i64) -> None:
        """Raises MessageSizeExceeded for a message that is too large in total: its parts may come on several links."""
        most = self.link.message_max
        if most != 0 and size > most:
            raise MessageSizeExceeded(f"message size is larger than configured max size {most}")

    def _release_budget(self) -> None:
        """Return the reassembly budget of a message that arrived in part: it is whole, aborted, or its link is over."""
        if self._progress is not None:
            self._progress.release(self.link.session.reassembly)
            self._progress = None

    def _confirm(self, terminus: TargetTerminus, delivery: IncomingDelivery, ours: DeliveryState) -> None:
        """Settle a resumed delivery that had its outcome, with the outcome that the client sent, or else with `ours`.

        `ours` is already durable: the answer to the attach told it, or the delivery could not be resumed.
        """
        if not delivery.is_settled:
            delivery.settles_second = False
            self.link.settle(delivery, delivery.state if isinstance(delivery.state, Outcome) else ours)
        terminus.forget(delivery.tag)

    def _wait_for(self, posted: PostedDelivery, delivery: IncomingDelivery) -> None:
        """Keep a delivery that was posted in a transaction until the client settles it."""
        delivery.mark = posted
        if self.terminus is not None:
            posted.keep(self.terminus)

    # -- the end of deliveries and of the link -------------------------------------------------------------------

    def on_aborted(self, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self._release_budget()
        if self.terminus is not None:
            self.terminus.forget(delivery.tag)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Forget a delivery that the client has settled, and grant credit if little is left."""
        if settled and self.terminus is not None:
            self.terminus.forget(delivery.tag)
        if settled and self.link.credit <= self._top_up_at and not self.is_over and not self.session.gateway.alarm:
            self.grant()

    def keep_terminus(self, found: TargetTerminus | None) -> None:
        """Give the link a terminus: `found`, or a new one. Raises ResourceError if too many are kept."""
        session = self.session
        terminus = target_terminus(session, self.link.name, self.target, found)
        terminus.attach(self, session, session.connection)
        self.terminus = terminus

    def _make_terminus(self) -> None:
        try:
            self.keep_terminus(None)
        except ResourceError:
            # The limit of kept termini is reached.
            return
        if self.queue is not None:
            join(self.queue, self, self.terminus, False)
            leave(self.queue, self)

    def queue_gone(self, queue: Queue) -> None:
        """Detach the link because the queue that is its target was deleted."""
        if not self.is_over:
            self._leave(False)
            self.link.detach(ResourceDeleted(f"queue '{queue.name}' in vhost '{queue.vhost}' was deleted"))
            self._confirms.touch()

    def claimed(self, queue: Queue, entry: Entry) -> None:
        """Never called: recovery is over before a link attaches."""

    def stolen(self) -> None:
        """Detach the link because another one of the same name was attached (part 2 §2.6.1)."""
        self._leave(True)
        self.link.detach(LinkStolen(f"link '{self.link.name}' was attached somewhere else"), closed=False)
        self._confirms.touch()

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._leave(not closed)

    def _leave(self, is_suspended: bool) -> None:
        """End the link. With `is_suspended`, its unsettled deliveries are kept for the next link of this name."""
        if self.is_over:
            return
        self.is_over = True
        self._release_budget()
        self.session.incoming.pop(self, None)
        if self.queue is not None:
            self.queue.hold_no_more_for(self)
        self.session.names.leave(self.name_key, self)
        unsettled = self.link.live()
        if self.terminus is None and is_suspended and unsettled and self.session.engine.is_open:
            # The client may attach the link again until the session ends.
            self._make_terminus()
        terminus = self.terminus
        if terminus is not None and not is_suspended:
            terminus.expire()
        elif terminus is not None:
            for delivery in unsettled:
                self._remember(terminus, delivery)
            terminus.detach(self)
        else:
            self.link.forget_all()
            if self.queue is not None:
                leave(self.queue, self)

    def _remember(self, terminus: TargetTerminus, delivery: IncomingDelivery) -> None:
        """Keep the outcome of an unsettled delivery: the answer to the next attach tells it in its unsettled map."""
        mark = delivery.mark
        if delivery.tag not in terminus.unsettled:
            if isinstance(mark, Outcome):
                terminus.received(delivery.tag, encoded_state(mark))
            elif isinstance(mark, PostedDelivery):
                mark.keep(terminus)
        if not delivery.settles_second:
            # No disposition is sent on this link any more: the client may not see it.
            self.link.forget(delivery)

    def superseded(self) -> None:
        self.link.forget_all()


@final
class LinkPublish(StagedPublish):
    """A message that was posted in a transaction. It goes to `queues`, whatever is bound until the commit.

    The outcome that its publisher was told depends on these queues. `posted` is the delivery if the publisher settles
    it later.
    """

    def __init__(
        self,
        link: IncomingLink,
        target: PublishTarget,
        message: Message,
        queues: list[Queue],
        posted: PostedDelivery | None,
    ) -> None:
        super().__init__(target.route, message, None, queues)
        self._link = link
        self._target = target
        self._posted = posted

    def put(self, queues: list[Queue]) -> None:
        if queues:
            self._link.put(None, self._target, self.message, queues)
        if self._posted is not None:
            self._posted.applied()

    def undo(self) -> None:
        if self._posted is not None:
            self._posted.undone()


def _too_long(queues: list[Queue]) -> Rejected:
    """The outcome for a message that a full queue rejects (x-overflow: reject-publish), in RabbitMQ's words."""
    full = queues[0].name if len(queues) == 1 else next((each.name for each in queues if each.is_guarded), "")
    return Rejected(
        error=Error(
            condition="amqp:resource-limit-exceeded",
            description=f"queue '{full}' exceeded maximum length",
            info={"queue": full, "reason": Symbol("maxlen")},
        )
    )
