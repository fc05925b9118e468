"""Links to the coordinator, by which a client declares and discharges transactions (amqp-1.0 part 4 §4.2, §4.3)."""

from typing import Final, final

from flintmq.base.errors import (
    SCOPE_LINK,
    Amqp10Error,
    AmqpError,
    DecodeError,
    FlintError,
    IllegalState,
    InvalidField,
    LinkStolen,
    NotImplementedHere,
    ResourceError,
    TransactionRollback,
)
from flintmq.gateway.amqp10.names import Key, NamedLink
from flintmq.gateway.amqp10.ports import ClientConnection, ClientSession
from flintmq.gateway.amqp10.transactions import Transactions
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.faults import to_wire
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink
from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.sections import scan, section_at
from flintmq.wire.amqp10.spec import AMQP_VALUE, LOCAL_TRANSACTIONS, MULTI_TXNS_PER_SSN, REJECTED, SYMBOLS
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    Declared,
    DeliveryState,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Coordinator, Declare, Discharge

# The credit of a link to the coordinator.
_CREDIT: Final = 64
_REJECTED: Final = SYMBOLS[REJECTED]


def attach_coordinator(session: ClientSession, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
    """Attach a link to the coordinator."""
    capabilities = [LOCAL_TRANSACTIONS, MULTI_TXNS_PER_SSN]
    outcomes = attach.source.outcomes if attach.source is not None else []
    owner = CoordinatorLink(session, link, not outcomes or _REJECTED in outcomes)
    session.names.free(owner.name_key)
    session.names.take(owner.name_key, owner)
    link.accept(Attach(source=attach.source, target=Coordinator(capabilities=capabilities)))
    link.grant(_CREDIT)
    return owner


@final
class CoordinatorLink(ReceiverOwner, NamedLink):
    """A link to the coordinator: declares and discharges come as messages, and are answered by outcomes."""

    def __init__(self, session: ClientSession, link: ReceiverLink, rejects: bool) -> None:
        self.name_key: Key = session.name_key(link.name, True)
        self._session = session
        self._transactions = session.transactions
        self._link = link
        # Whether errors are sent as the outcome `rejected`; otherwise they end the link (part 4 §4.2).
        self._rejects = rejects

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if link.credit <= _CREDIT // 2:
            link.grant(_CREDIT)
        if delivery is None or delivery.is_settled:
            raise IllegalState("declare and discharge must not be sent settled", SCOPE_LINK)
        state: DeliveryState | None
        try:
            command = _command(payload)
            if isinstance(command, Declare):
                state = self._declare(command)
            elif isinstance(command, Discharge):
                state = self._discharge(command, delivery)
            else:
                raise InvalidField("a coordinator takes declare and discharge", SCOPE_LINK)
        except (AmqpError, Amqp10Error) as error:
            if not self._rejects:
                raise
            state = Rejected(error=to_wire(error))
        if state is not None:
            link.settle(delivery, state)

    def _declare(self, command: Declare) -> DeliveryState:
        if command.global_id is not None:
            raise NotImplementedHere("there are no distributed transactions here: no global-id")
        return Declared(txn_id=self._transactions.declare(self._link))

    def _discharge(self, command: Discharge, delivery: IncomingDelivery) -> DeliveryState | None:
        """Discharge a transaction. Returns the outcome to answer with; None: the answer comes later, or the link ended.

        Raises UnknownTransaction, and TransactionRollback if the client takes no `rejected`.
        """
        if self._is_half_posted(command.txn_id):
            # A message must be posted whole before the discharge (part 4 §4.4.1).
            self._transactions.end(self._link, "a message was posted in part when its transaction was discharged")
            return None
        connection = self._session.connection
        found = self._transactions.discharge(command.txn_id, command.fail)
        state: DeliveryState = ACCEPTED
        if not command.fail:
            if found.failure is None:
                connection.confirms.add(Discharged(self._transactions, self._link, delivery))
                return None
            error = TransactionRollback(found.failure.text)
            if not self._rejects:
                raise error
            state = Rejected(error=to_wire(error))
        # Dispositions as sender and as receiver are queued apart. They are flushed here, because the settlement of what
        # was acquired must come before the answer (part 4 §4.4.3).
        self._link.session.flush_dispositions()
        aborting = found.aborting
        if aborting:
            connection.confirms.at_end(_Aborted(connection, self._link, delivery, state, aborting))
            return None
        return state

    def _is_half_posted(self, txn_id: bytes) -> bool:
        """Whether a message has been posted in part in this transaction."""
        for link in self._session.engine.links:
            if isinstance(link, ReceiverLink) and link.begun is not None:
                state = link.begun.state
                if isinstance(state, TransactionalState) and state.txn_id == txn_id:
                    return True
        return False

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Nothing to do: declares and discharges are settled when they are answered."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._session.names.leave(self.name_key, self)
        self._transactions.roll_back_of(self._link)

    def on_released(self) -> None:
        self._session.names.leave(self.name_key, self)

    def stolen(self) -> None:
        self._link.detach(LinkStolen(f"link '{self._link.name}' was attached somewhere else"), closed=False)
        self._transactions.roll_back_of(self._link)
        self._session.connection.touch()


@final
class Discharged(PendingReply):
    """Accepts a discharge once its commit is durable."""

    def __init__(self, transactions: Transactions, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self._transactions = transactions
        self._link = link
        self._delivery = delivery

    def send(self) -> None:
        self._link.accept_delivery(self._delivery)

    def fail(self, reason: str) -> None:
        """The storage failed: a restart may or may not find the transaction, so the link ends without an outcome."""
        self._link.detach(
            ResourceError(f"nothing durable can be stored, the transaction may be there after a restart: {reason}")
        )
        self._transactions.roll_back_of(self._link)


@final
class _Aborted(PendingReply):
    """Answers a discharge that rolled back, after the aborts of deliveries acquired in it are sent (part 4 §4.4.3)."""

    def __init__(
        self,
        connection: ClientConnection,
        link: ReceiverLink,
        delivery: IncomingDelivery,
        state: DeliveryState,
        aborting: list[SenderLink],
    ) -> None:
        self._connection = connection
        self._link = link
        self._delivery = delivery
        self._state = state
        self._aborting = aborting

    def send(self) -> None:
        if any(link.is_aborting for link in self._aborting):
            self._connection.confirms.at_end(self)
        else:
            self._link.settle(self._delivery, self._state)

    def fail(self, reason: str) -> None:
        """Nothing to do: a rollback needs no storage."""


def _command(payload: bytes) -> Composite:
    """Decode the command in a message to the coordinator (part 4 §4.3). Raises InvalidField for any other body."""
    try:
        found = scan(payload)
        if found.body_kind == AMQP_VALUE:
            return decode_composite(payload, section_at(payload, found.body, found.end)[1], found.footer_or_end)[0]
    except DecodeError as error:
        raise InvalidField(f"no command for a coordinator: {error.text}", SCOPE_LINK) from None
    raise InvalidField("a coordinator takes messages with one amqp-value", SCOPE_LINK)
