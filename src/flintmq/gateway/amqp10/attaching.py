"""What an attach asks for, and the link that comes of it: termini, permissions, and our answer."""

from typing import TYPE_CHECKING, Final

from flintmq.base.errors import SCOPE_LINK, InvalidField
from flintmq.base.limits import BROWSED_ENTRIES_PER_UNIT, SELECTOR_UNITS_PER_CHARACTER
from flintmq.broker.exchange.base import Exchange
from flintmq.broker.permission import READ, WRITE
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp10 import nodes
from flintmq.gateway.amqp10.addresses import EXCHANGE, PLAIN, QUEUE, Place, parse
from flintmq.gateway.amqp10.filters import read_filters
from flintmq.gateway.amqp10.incoming import IncomingLink
from flintmq.gateway.amqp10.outcomes import OUTCOMES, default_of
from flintmq.gateway.amqp10.outgoing import OutgoingLink
from flintmq.gateway.amqp10.outlet import Outlet
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import COPY, MOVE
from flintmq.wire.amqp10.termini import Coordinator, Target
from flintmq.wire.amqp10.values import WrappedInt

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.session import ServerSession

# A property of links by which consumers are ranked (RabbitMQ).
_PRIORITY: Final = "rabbitmq:priority"


# -- the client sends ------------------------------------------------------------------------------------------------


def receive_from(session: "ServerSession", link: ReceiverLink, attach: Attach) -> ReceiverOwner:
    """A link on which the client sends. Raises what is wrong with its target."""
    target = attach.target
    if isinstance(target, Coordinator):
        return session.transactions.control(link, attach)
    if target is None:
        raise InvalidField("Attach refused: a target is required", SCOPE_LINK)
    queue: Queue | None = None
    if target.dynamic:
        queue = nodes.create(session, link.name, target)
        place = Place(QUEUE, queue.name)
    elif target.address is None:
        # Each message says where it goes (amqp anonymous terminus 1.0).
        owner = IncomingLink(session, link, None, None)
        return _answer_sender(owner, attach, target)
    else:
        place = parse(target.address)
    if place.kind == PLAIN:
        place = _plain_target(session, place.name)
    if place.kind == QUEUE:
        session.rights.check(WRITE, "exchange", "")
        if queue is None:
            # Another connection may send to an exclusive queue: replies do.
            queue = session.vhost.queues.get(place.name) or _queue(session, place)
        made = IncomingLink(session, link, session.publication("", place.name), None)
        made.queue = queue
        made.is_dynamic = target.dynamic
    else:
        session.rights.check(WRITE, "exchange", place.name)
        _exchange(session, place.name)
        if place.key is None:
            made = IncomingLink(session, link, None, place.name)
        else:
            made = IncomingLink(session, link, session.publication(place.name, place.key), None)
    return _answer_sender(made, attach, target)


def _answer_sender(owner: IncomingLink, attach: Attach, target: Target) -> IncomingLink:
    owner.link.accept(Attach(source=attach.source, target=target, properties=attach.properties))
    owner.grant()
    return owner


def _plain_target(session: "ServerSession", name: str) -> Place:
    """A queue of this name, or else an exchange: of that, each message's subject is the routing key."""
    vhost = session.vhost
    if name not in vhost.queues and name in vhost.exchanges.by_name:
        return Place(EXCHANGE, name, None)
    return Place(QUEUE, name)


def _exchange(session: "ServerSession", name: str) -> Exchange:
    """Raises NotFound, or AccessRefused where nobody publishes to it but other exchanges."""
    exchange = session.vhost.router.exchange(name)
    session.vhost.router.check(session.publication(name, "").route)
    return exchange


def _queue(session: "ServerSession", place: Place) -> Queue:
    """Raises NotFound, or ResourceLocked."""
    if place.may_create and place.name not in session.vhost.queues:
        return nodes.declare(session, place.name)
    return session.vhost.queue(place.name, session.connection)


# -- the client receives ---------------------------------------------------------------------------------------------


def send_to(session: "ServerSession", link: SenderLink, attach: Attach) -> SenderOwner:
    """A link on which the client receives. Raises what is wrong with its source."""
    source = attach.source
    if source is None:
        raise InvalidField("Attach refused: source_required", SCOPE_LINK)
    if source.dynamic:
        queue = nodes.create(session, link.name, source)
    elif source.address is None:
        raise InvalidField("Attach refused: a source without an address is not to be found", SCOPE_LINK)
    else:
        queue = _source_queue(session, parse(source.address))
    session.rights.check(READ, "queue", queue.name)
    wanted = read_filters(source.filter, queue.keeps_all)
    session.connection.engine.spend(wanted.units * SELECTOR_UNITS_PER_CHARACTER)
    source.filter = wanted.in_place
    if source.distribution_mode == COPY and not queue.keeps_all:
        session.connection.engine.spend(queue.message_count // BROWSED_ENTRIES_PER_UNIT)
        consumed = queue.view()
    else:
        consumed = queue
        source.distribution_mode = COPY if queue.keeps_all else MOVE
    source.default_outcome, settlement = default_of(source)
    if not source.outcomes:
        source.outcomes = OUTCOMES
    owner = OutgoingLink(session, link, consumed, Outlet(session.gateway.agenda))
    owner.default_outcome = settlement
    owner.is_dynamic = source.dynamic
    consumer = owner.consumer
    consumer.choose(wanted.no_local, wanted.condition)
    priority = attach.properties.get(_PRIORITY)
    if isinstance(priority, WrappedInt):
        consumer.priority = priority.value
    if consumer.is_choosy:
        session.connection.engine.spend(queue.message_count // BROWSED_ENTRIES_PER_UNIT)
    consumed.subscribe(consumer, wanted.arguments)
    answer = Attach(source=source, target=attach.target, properties=attach.properties)
    answer.max_message_size = attach.max_message_size
    link.accept(answer)
    owner.start()
    return owner


def _source_queue(session: "ServerSession", place: Place) -> Queue:
    if place.kind == QUEUE:
        return _queue(session, place)
    vhost = session.vhost
    if place.kind == PLAIN:
        if place.name in vhost.queues or place.name not in vhost.exchanges.by_name:
            return _queue(session, Place(QUEUE, place.name))
        place = Place(EXCHANGE, place.name, "")
    return nodes.bound(session, place.name, place.key or "")
