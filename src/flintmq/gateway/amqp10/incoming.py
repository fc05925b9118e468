"""A link on which a client publishes: messages in, and outcomes back once they are safe."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    SCOPE_LINK,
    Amqp10Error,
    AmqpError,
    DecodeError,
    FlintError,
    InvalidField,
    NotFound,
    PreconditionFailed,
    ResourceDeleted,
)
from flintmq.base.limits import ADDRESS_WORK_UNITS, ASKED_CONSUMERS_PER_UNIT
from flintmq.broker.message import Message
from flintmq.broker.publishing import STORED, TURNED_AWAY, UNROUTED
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp10.addresses import EXCHANGE, parse_to
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.amqp10.promises import refuse_unsafe
from flintmq.gateway.amqp10.publication import Publication
from flintmq.gateway.amqp10.terms import Intake, Terms
from flintmq.protocol.amqp10.delivery import IncomingDelivery
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT
from flintmq.wire.amqp10.states import RELEASED, DeliveryState, Error, Rejected, TransactionalState
from flintmq.wire.amqp10.values import Symbol

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.session import ServerSession

# What a publisher may send before it hears of any: enough for what arrives while the disk syncs what came before.
LINK_CREDIT: Final = 8_192
_TOP_UP_AT: Final = LINK_CREDIT // 2
# What may come, of what was under way, once an alarm is on and credit was taken back; then the connection waits.
_GRACE_BYTES: Final = 1024 * 1024


@final
class IncomingLink(ReceiverOwner):
    """`publication` is where all messages go, None where each says that itself.

    With an `exchange` it says the routing key, as its subject; without one all of its address, in `to`.
    """

    def __init__(
        self,
        session: "ServerSession",
        link: ReceiverLink,
        publication: Publication | None,
        exchange: str | None,
    ) -> None:
        self.session = session
        self.link = link
        self._exchange = exchange
        self._connection = session.connection
        self._vhost = session.vhost
        self._rights = session.rights
        self._agenda = session.gateway.agenda
        self._promises = session.connection.promises
        self._fixed = publication
        self._publications = session.connection.service.publications(session.rights)
        self._intake = Intake(session.access.user)
        self._grace: i64 = _GRACE_BYTES
        # The queue that the target names, and whether it was made for this link and goes with it.
        self.queue: Queue | None = None
        self.is_dynamic = False
        session.incoming[self] = None

    # -- credit -------------------------------------------------------------------------------------------------

    def grant(self) -> None:
        """Give the client what it may send; nothing while an alarm is on."""
        self.link.grant(0 if self.session.gateway.alarm else LINK_CREDIT)
        self._grace = _GRACE_BYTES

    def _go_on(self, size: i64) -> None:
        """Few may still come."""
        if self.session.gateway.alarm:
            self._grace -= size
            if self._grace <= 0:
                self._connection.hold()
        else:
            self.grant()

    # -- messages -----------------------------------------------------------------------------------------------

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if link.credit <= _TOP_UP_AT:
            self._go_on(len(payload))
        if delivery is not None:
            if delivery.state is not None and isinstance(delivery.state, TransactionalState):
                self.session.transactions.publish(self, delivery, delivery.state, payload)
                return
            if delivery.message_format != MESSAGE_FORMAT:
                raise InvalidField(f"message format {delivery.message_format} is unknown: 0 is taken", SCOPE_LINK)
        try:
            terms = self._intake.read(payload)
            publication = self._fixed or self._publication()
            message = self.message(publication, terms)
            queues = self._vhost.queues_of(publication.route, message, terms.more_keys)
        except DecodeError as error:
            raise DecodeError(f"failed to parse message: {error.text}", SCOPE_LINK) from None
        except (AmqpError, Amqp10Error) as error:
            self._refuse(delivery, error)
            return
        self.put(delivery, publication, message, queues)

    def message(self, publication: Publication, terms: Terms) -> Message:
        """The message that was read last, once its publisher was found to be allowed it."""
        if publication.permitted != self._rights.version + self._vhost.router.version or terms.more_keys is not None:
            self._connection.engine.spend(ADDRESS_WORK_UNITS)
            publication.permit(self._rights, self._vhost, terms.more_keys)
        intake = self._intake
        return Message(
            publication.address,
            CODEC_10,
            intake.properties,
            intake.body,
            terms.handling,
            self._agenda.now_ms,
            self._connection.number,
        )

    def read(self, payload: bytes) -> tuple[Publication, Message, list[str] | None]:
        """A message that is not published at once, and the keys beside its address. Raises what is wrong with it."""
        try:
            terms = self._intake.read(payload)
        except DecodeError as error:
            raise DecodeError(f"failed to parse message: {error.text}", SCOPE_LINK) from None
        publication = self._fixed or self._publication()
        return publication, self.message(publication, terms), terms.more_keys

    def put(
        self, delivery: IncomingDelivery | None, publication: Publication, message: Message, queues: list[Queue]
    ) -> None:
        """A message goes to its queues, and its publisher hears of it."""
        agenda = self._agenda
        asked: i64 = agenda.asked
        if message.handling.persistent and self.session.gateway.failure:
            if delivery is not None:
                refuse_unsafe(delivery, self.session.gateway.failure)
            return
        outcome = self._vhost.deliver(message, queues)
        cost = publication.route.cost
        if cost != 0:
            self._connection.engine.spend(cost)
        if agenda.asked != asked:
            self._connection.engine.spend((agenda.asked - asked) // ASKED_CONSUMERS_PER_UNIT)
        if delivery is None or delivery.is_settled:
            return
        if outcome == STORED:
            self._promises.stored.append(delivery)
            self._connection.touch()
        elif outcome == UNROUTED:
            self.link.settle(delivery, RELEASED)
            if self.queue is not None and self.queue.gone:
                raise ResourceDeleted(f"queue '{self.queue.name}' in vhost '{self.queue.vhost}' was deleted")
        elif outcome == TURNED_AWAY:
            self.link.settle(delivery, _too_long(queues))
        else:
            self.link.accept_delivery(delivery)

    def _publication(self) -> Publication:
        """Where the message that was read last says it goes. Raises PreconditionFailed."""
        if self._exchange is not None:
            return self._publications.get(self._exchange, self._intake.subject or "")
        to = self._intake.to
        if to is None:
            raise PreconditionFailed("anonymous terminus requires 'to' address to be set")
        place = parse_to(to)
        if place is None:
            raise PreconditionFailed(f"bad 'to' address string: {to}")
        if place.kind == EXCHANGE:
            return self._publications.get(place.name, place.key or "")
        return self._publications.get("", place.name)

    def _refuse(self, delivery: IncomingDelivery | None, error: AmqpError | Amqp10Error) -> None:
        """A message cannot be published. That ends the link where it is the link's fault, or nobody would hear of it.

        What a message says itself of its address is refused with it (amqp anonymous terminus 1.0 §2.2.2).
        """
        if self._fixed is not None or self._exchange is not None or delivery is None or delivery.is_settled:
            if delivery is not None and not delivery.is_settled and isinstance(error, NotFound):
                self.link.settle(delivery, RELEASED)
            raise error
        self.link.settle(delivery, Rejected(error=Error(condition=error.condition, description=error.text)))

    # -- after it -----------------------------------------------------------------------------------------------

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """The client has settled what it was told of, or wants to hear of it: it will, when it is safe."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.end()

    def end(self) -> None:
        """The link is no more; what it published is, and needs no answer."""
        self.session.incoming.pop(self, None)
        self.link.take_unsettled()
        if self.is_dynamic and self.queue is not None:
            self._vhost.remove_queue(self.queue)


def _too_long(queues: list[Queue]) -> Rejected:
    """A queue is full, and declared to tell its publishers so (in RabbitMQ's words)."""
    full = queues[0].name if len(queues) == 1 else next((each.name for each in queues if each.is_guarded), "")
    return Rejected(
        error=Error(
            condition="amqp:resource-limit-exceeded",
            description=f"queue '{full}' exceeded maximum length",
            info={"queue": full, "reason": Symbol("maxlen")},
        )
    )
