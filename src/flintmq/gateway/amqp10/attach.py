"""Attaching of links: reads the termini that a client asks for, checks permissions, makes the link, and answers."""

from typing import Final, final

from flintmq.base.errors import (
    SCOPE_LINK,
    Amqp10Error,
    AmqpError,
    FrameSizeTooSmall,
    InvalidField,
    NotFound,
    ResourceError,
)
from flintmq.base.limits import BROWSED_ENTRIES_PER_UNIT, SELECTOR_UNITS_PER_CHARACTER
from flintmq.broker.access.permission import READ, WRITE
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.classic import view_of
from flintmq.broker.queue.seen import Seen
from flintmq.broker.terminus.terminus import SourceTerminus
from flintmq.gateway.amqp10 import nodes
from flintmq.gateway.amqp10.addresses import EXCHANGE, PLAIN, QUEUE, Place, parse, refused
from flintmq.gateway.amqp10.annotations import check_state
from flintmq.gateway.amqp10.coordinator import attach_coordinator
from flintmq.gateway.amqp10.filters import read_filters
from flintmq.gateway.amqp10.incoming_link import IncomingLink
from flintmq.gateway.amqp10.link_terminus import forget_settled, join, known_source, known_target, outlives_session
from flintmq.gateway.amqp10.message_encoder import MessageEncoder
from flintmq.gateway.amqp10.outcomes import OUTCOMES, default_of
from flintmq.gateway.amqp10.outgoing_link import OutgoingLink
from flintmq.gateway.amqp10.ports import ClientSession
from flintmq.gateway.amqp10.resumption import Resumption
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.link import Link
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import COPY, MOVE, SND_SETTLED
from flintmq.wire.amqp10.termini import Coordinator, Source, Target
from flintmq.wire.amqp10.values import UInt, WrappedInt

# The link property that holds the priority of the consumer (RabbitMQ).
_PRIORITY: Final = "rabbitmq:priority"
# The largest priority. Among the integer types of AMQP 1.0, only a ulong can be larger.
_PRIORITY_MAX: Final = 2**63 - 1
# The link property that holds the consumer timeout: how long a delivery may stay unsettled, in milliseconds.
_TIMEOUT: Final = "rabbitmq:consumer-timeout"
# Delivery tags of the broker are big-endian numbers of _TAG_BYTES bytes, below _NUMBER_MAX; no link sends that many.
_TAG_BYTES: Final = 8
_NUMBER_MAX: Final = 2**62
# An address with this prefix creates its queue if that is missing. A plain name does so only if a policy says it.
_CREATING_PREFIX: Final = "/queue/"


# -- the client sends ------------------------------------------------------------------------------------------------


def receive_from(session: ClientSession, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
    """Attach a link on which the client sends. Raises AmqpError or Amqp10Error if its target is refused."""
    target = attach.target
    if isinstance(target, Coordinator):
        return attach_coordinator(session, link, attach)
    if target is not None:
        nodes.check_dynamic(target)
    else:
        # A client that lost its state asks for the terminus as it is (part 2 §2.6.13).
        target = _target_of(session, link.name)
        if target is None:
            raise InvalidField("Attach refused: a target is required", SCOPE_LINK)
    owner = _target(session, link, target)
    try:
        return _receive_from(session, link, attach, target, owner)
    except (AmqpError, Amqp10Error):
        if target.dynamic and owner.queue is not None:
            session.vhost.remove_queue(owner.queue)
        raise


def _receive_from(
    session: ClientSession, link: ReceiverLink, attach: Attach, target: Target, owner: IncomingLink
) -> IncomingLink:
    # The earlier link of this name is detached only after all checks that can refuse the new one.
    session.names.free(owner.name_key)
    found = session.vhost.termini.targets.get(session.key(link.name))
    is_asked = attach.target is not None
    if found is not None and is_asked and (target.dynamic or known_target(found).address != target.address):
        found.expire()
        found = None
    if found is not None:
        forget_settled(found, attach, int(link.message_max))
    target.capabilities = nodes.capabilities(target.capabilities, owner.queue is not None)
    answer = Attach(source=attach.source, target=target, properties=attach.properties)
    if found is not None or target.dynamic or outlives_session(target):
        owner.keep_terminus(found)
    if owner.queue is not None:
        join(owner.queue, owner, owner.terminus, target.dynamic)
    if owner.terminus is not None:
        answer.unsettled = owner.unsettled()
        link.wants_parts = True
    session.names.take(owner.name_key, owner)
    _answer(session, target, _AttachAnswer(owner, None, link, answer, found is not None), bool(answer.unsettled))
    return owner


def _target_of(session: ClientSession, name: str) -> Target | None:
    """The target by this name as it was attached last. A link that uses it stays attached."""
    found = session.vhost.termini.targets.get(session.key(name))
    if found is not None:
        return known_target(found)
    user = session.names.find(session.name_key(name, True))
    return user.target if isinstance(user, IncomingLink) else None


def _target(session: ClientSession, link: ReceiverLink, target: Target) -> IncomingLink:
    """Create the owner of a link with this target. Raises AccessRefused or NotFound if the target is refused."""
    queue: Queue | None = None
    if target.dynamic:
        session.rights.check(WRITE, "exchange", "")
        queue = nodes.create(session, link.name, target)
        place = Place(QUEUE, queue.name)
    elif target.address is None:
        # A target without an address: each message has its own address (amqp anonymous terminus 1.0).
        return IncomingLink(session, link, target, None, None)
    else:
        place = parse(target.address)
    if place.kind == PLAIN:
        place = _plain_target(session, place.name)
    if place.kind == QUEUE:
        session.rights.check(WRITE, "exchange", "")
        if place.name in session.vhost.replies:
            # The address of a client that waits for a reply (direct reply-to); it is no declared queue.
            return IncomingLink(session, link, target, session.publish_target("", place.name), None)
        if queue is None:
            # A user with `write` on the default exchange may send to any queue, also to exclusive ones (RabbitMQ).
            queue = _queue(session, place)
        owner = IncomingLink(session, link, target, session.publish_target("", place.name), None)
        owner.queue = queue
        return owner
    session.rights.check(WRITE, "exchange", place.name)
    _exchange(session, place.name)
    if place.key is None:
        return IncomingLink(session, link, target, None, place.name)
    return IncomingLink(session, link, target, session.publish_target(place.name, place.key), None)


def _plain_target(session: ClientSession, name: str) -> Place:
    """Resolve a plain name to a queue, or to an exchange if no queue has the name.

    With an exchange, the subject of each message is its routing key. A missing queue or exchange is created if a
    policy says so; otherwise the place of a missing queue is returned.
    """
    vhost = session.vhost
    if name not in vhost.queues and name not in vhost.exchanges.by_name:
        nodes.auto_create(session, name)
    if name not in vhost.queues and name in vhost.exchanges.by_name:
        return Place(EXCHANGE, name, None)
    return Place(QUEUE, name)


def _exchange(session: ClientSession, name: str) -> Exchange:
    """Find an exchange. Raises NotFound, or AccessRefused for an internal exchange."""
    exchange = session.vhost.router.exchange(name)
    session.vhost.router.check(session.publish_target(name, "").route)
    return exchange


def _queue(session: ClientSession, place: Place) -> Queue:
    """Find a queue, or create it if its address may do that. Raises NotFound."""
    vhost = session.vhost
    found = vhost.queues.get(place.name)
    if found is None:
        if place.may_create:
            return nodes.declare(session, place.name)
        raise NotFound(f"no queue '{place.name}' in vhost '{vhost.name}'")
    return found


# -- the client receives ---------------------------------------------------------------------------------------------


def send_to(session: ClientSession, link: SenderLink, attach: Attach) -> SenderOwner:
    """Attach a link on which the client receives. Raises AmqpError or Amqp10Error if its source is refused."""
    source = attach.source
    if source is not None:
        nodes.check_dynamic(source)
    else:
        # A client that lost its state asks for the terminus as it is (part 2 §2.6.13).
        source = _source_of(session, link.name)
        if source is None:
            raise InvalidField("Attach refused: source_required", SCOPE_LINK)
    known = len(session.vhost.queues)
    is_reply = source.dynamic and nodes.is_volatile(source, link.snd_settle_mode == SND_SETTLED)
    if is_reply:
        queue = nodes.reply_address(session, source)
    elif source.dynamic:
        queue = nodes.create(session, link.name, source)
    elif source.address is None:
        raise InvalidField("Attach refused: a source without an address is not to be found", SCOPE_LINK)
    else:
        queue = _source_queue(session, source.address)
    is_for_link = is_reply or (
        len(session.vhost.queues) > known and (source.dynamic or queue.owner is session.connection)
    )
    try:
        return _send_from(session, link, attach, source, queue)
    except (AmqpError, Amqp10Error):
        if is_for_link:
            session.vhost.remove_queue(queue)
        raise


def _send_from(
    session: ClientSession,
    link: SenderLink,
    attach: Attach,
    source: Source,
    queue: Queue,
) -> OutgoingLink:
    is_reply = queue.name in session.vhost.replies
    if not is_reply:
        session.rights.check(READ, "queue", queue.name)
        queue.check_access(session.connection)
    is_strict = session.vhost.dialect.checks_annotations
    for state in (source.default_outcome, *(attach.unsettled or {}).values()):
        check_state(state, is_strict)
    wanted = read_filters(source.filter, queue.keeps_all)
    timeout_ms = _timeout(attach, queue)
    source.default_outcome, settlement = default_of(source, session.vhost.dialect)
    # The earlier link of this name is detached only after all checks that can refuse the new one.
    session.names.free(session.name_key(link.name, False))
    found = session.vhost.termini.sources.get(session.key(link.name))
    is_asked = attach.source is not None
    if found is not None and is_asked and (source.dynamic or known_source(found).address != source.address):
        found.expire()
        found = None
    if not is_reply and session.vhost.queues.get(queue.name) is not queue:
        # The queue was deleted with its last consumer, which was the earlier link.
        raise NotFound(f"no queue '{queue.name}' in vhost '{session.vhost.name}'")
    session.connection.engine.spend(wanted.units * SELECTOR_UNITS_PER_CHARACTER)
    source.filter = wanted.in_place
    if source.distribution_mode == COPY and not queue.keeps_all:
        session.connection.engine.spend(queue.message_count // BROWSED_ENTRIES_PER_UNIT)
        consumed = view_of(queue)
    else:
        consumed = queue
        source.distribution_mode = COPY if queue.keeps_all else MOVE
    known = nodes.capabilities(source.capabilities, True)
    source.capabilities = [nodes.VOLATILE] if is_reply else [*known, *nodes.FILTERS]
    source.outcomes = [name for name in source.outcomes if name in OUTCOMES] or OUTCOMES
    encoder = MessageEncoder(session.gateway.tick)
    owner = OutgoingLink(session, link, source, queue, consumed, encoder)
    owner.default_outcome = settlement
    consumer = owner.consumer
    consumer.filter_by(wanted.no_local, wanted.condition)
    priority = attach.properties.get(_PRIORITY)
    if isinstance(priority, WrappedInt):
        consumer.priority = min(priority.value, _PRIORITY_MAX)
    owner.limit_time(timeout_ms)
    session.connection.engine.spend(consumer.search_units(queue))
    if consumed is not queue or queue.keeps_all:
        consumer.seen = _seen(queue, source, found)
        if queue.keeps_all and consumer.seen.end > 0:
            wanted.arguments["x-stream-offset"] = consumer.seen.end
    answer = Attach(source=source, target=attach.target, properties=attach.properties)
    if found is not None or (source.dynamic and not is_reply) or outlives_session(source):
        owner.keep_terminus(found)
    terminus = owner.terminus
    if terminus is not None:
        consumer.context = terminus
        answer.unsettled = dict.fromkeys(terminus.unsettled)
        theirs = attach.unsettled or {}
        # No two unsettled deliveries of a link may have one tag. The client's map counts, too, because it may hold
        # deliveries that are settled here.
        numbers = [_number_of(tag) for tag in (*terminus.tags, *theirs)]
        consumer.number = max(int(terminus.last_number), *numbers, 0)
        if terminus.unsettled:
            owner.resumption = Resumption(link, terminus, encoder, theirs, not attach.incomplete_unsettled)
    try:
        consumed.subscribe(consumer, wanted.arguments)
    except AmqpError:
        if terminus is not None:
            terminus.detach()
        raise
    join(queue, owner, terminus, source.dynamic)
    session.connection.senders[link.name] = owner
    session.names.take(owner.name_key, owner)
    has_unsettled = terminus is not None and terminus.keeps_notes
    _answer(session, source, _AttachAnswer(None, owner, link, answer, found is not None), has_unsettled)
    return owner


def _source_of(session: ClientSession, name: str) -> Source | None:
    """The source by this name as it was attached last. A link that uses it stays attached."""
    found = session.vhost.termini.sources.get(session.key(name))
    if found is not None:
        return known_source(found)
    user = session.names.find(session.name_key(name, False))
    return user.source if isinstance(user, OutgoingLink) else None


def _seen(queue: Queue, source: Source, found: SourceTerminus | None) -> Seen:
    """The messages that earlier links of this source were sent: this link does not get them again (part 3 §3.5.2).

    A client starts a stream anew by attaching with other filters than before.
    """
    seen = None if found is None else found.seen
    if found is None or seen is None or seen.queue_id != queue.id:
        return Seen(queue.id)
    if queue.keeps_all and known_source(found).filter != source.filter:
        return Seen(queue.id)
    return seen


def _timeout(attach: Attach, queue: Queue) -> int:
    """The consumer timeout in milliseconds; 0 or less: none. Raises InvalidField if the link property is no uint."""
    asked = attach.properties.get(_TIMEOUT)
    if asked is None:
        return int(queue.settings.consumer_timeout_ms)
    if not isinstance(asked, UInt):
        raise InvalidField(f"the link property '{_TIMEOUT}' is a uint: milliseconds", SCOPE_LINK)
    return asked.value


def _answer(session: ClientSession, terminus: Source | Target, answer: "_AttachAnswer", has_unsettled: bool) -> None:
    """Answer an attach once everything that the answer promises is on the disk.

    That is a queue or terminus created for the link, and, with `has_unsettled`, the map of unsettled deliveries.
    The map may be the first confirmation that the client gets for a message, so it must still be true after a crash.
    """
    address = terminus.address
    may_create = address is not None and (address.startswith(_CREATING_PREFIX) or not address.startswith("/"))
    if has_unsettled or (
        (terminus.durable != 0 or may_create) and not session.gateway.broker.storage.definitions_durable
    ):
        session.connection.confirms.add(answer)
    else:
        answer.send()


@final
class _AttachAnswer(PendingReply):
    """The answer to an attach. Either `incoming` or `outgoing` owns the link. `resumes`: the terminus is older."""

    def __init__(
        self, incoming: IncomingLink | None, outgoing: OutgoingLink | None, link: Link, answer: Attach, resumes: bool
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._link = link
        self._answer = answer
        self._resumes = resumes

    def send(self) -> None:
        try:
            self._attach()
        except FrameSizeTooSmall as too_large:
            # The answer does not fit into the client's frame size. The errors of the two clauses have different names,
            # because mypyc gives a name the type of its first clause, and raises TypeError for another type.
            self._give_up(too_large)
        except Amqp10Error as error:
            # The client's handle-max leaves no handle for the link.
            self._link.session.end(error)

    def _attach(self) -> None:
        incoming, outgoing = self._incoming, self._outgoing
        if incoming is not None and not incoming.is_over:
            self._link.accept(self._answer)
            incoming.start()
        elif outgoing is not None and not outgoing.is_over:
            self._link.accept(self._answer)
            if self._answer.incomplete_unsettled and outgoing.resumption is not None:
                outgoing.resumption.abort_settled()
            outgoing.start()

    def fail(self, reason: str) -> None:
        self._give_up(ResourceError(f"nothing durable can be stored: {reason}"))

    def _give_up(self, error: AmqpError | Amqp10Error) -> None:
        # A terminus that is older than this attach is kept, because the client still holds deliveries of it and can
        # attach again.
        if self._incoming is not None:
            self._incoming.on_detached(None, not self._resumes)
        if self._outgoing is not None:
            self._outgoing.on_detached(None, not self._resumes)
        self._link.refuse(error)


def _number_of(tag: bytes) -> int:
    """The number in a delivery tag of the broker; 0 for a tag that is not the broker's."""
    number = int.from_bytes(tag, "big")
    return number if len(tag) == _TAG_BYTES and number < _NUMBER_MAX else 0


def _source_queue(session: ClientSession, address: str) -> Queue:
    place = parse(address)
    if not place.is_source:
        raise refused(address)
    if place.kind == QUEUE:
        # The permission is checked before the existence, because a user who may not read a queue must not learn whether
        # it exists.
        session.rights.check(READ, "queue", place.name)
        return _queue(session, place)
    vhost = session.vhost
    if place.kind == PLAIN:
        if place.name not in vhost.queues and place.name not in vhost.exchanges.by_name:
            nodes.auto_create(session, place.name)
        if place.name in vhost.queues or place.name not in vhost.exchanges.by_name:
            return _queue(session, Place(QUEUE, place.name))
        place = Place(EXCHANGE, place.name, "")
    return nodes.bound(session, place.name, place.key or "")
