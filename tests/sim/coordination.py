"""Transactions of clients that speak AMQP 1.0: declared, filled by messages, outcomes and acquisitions, and discharged.

A session has several of them open at once. Each is a group of the ledger for itself, whatever becomes of the others.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, final

from flintmq.base.errors import FlintError, ResourceError
from flintmq.client.amqp10 import coordinator
from flintmq.client.amqp10.errors import LinkDetached
from flintmq.client.amqp10.sender import Sent as Command
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.wire.amqp10.states import Accepted, Declared, DeliveryState, Rejected, Released, TransactionalState
from tests.sim.ledger import REQUEUE, Group, Unexpected
from tests.sim.messages import Copy, Sent

if TYPE_CHECKING:
    from tests.sim.links import LinkClient, Receiver


class Progress(Enum):
    """How far a transaction has come, as its client knows."""

    OPEN = auto()
    # Its commit was asked for.
    ASKED = auto()
    COMMITTED = auto()
    # Its rollback was asked for, or it went with its coordinator, or nobody will know.
    LEFT = auto()
    # That it was rolled back, or refused, was answered.
    UNDONE = auto()


@final
class _Staged:
    """An outcome that a transaction has; `settled`: its client has no say any more."""

    def __init__(self, receiver: "Receiver", delivery: IncomingDelivery, copy: Copy, settled: bool) -> None:
        self.receiver = receiver
        self.delivery = delivery
        self.copy = copy
        self.settled = settled

    @property
    def returns(self) -> bool:
        """Whether it is in its client's hands again once the transaction is rolled back."""
        return not self.settled and not self.receiver.is_over

    def take_back(self) -> None:
        self.copy.holder = self.receiver
        self.receiver.unsettled[self.delivery] = self.copy


@final
class SimTransaction:
    """One transaction of a session. It is the hands that hold what is acquired in it."""

    def __init__(self, client: "LinkClient", txn_id: bytes) -> None:
        self.id = txn_id
        self.progress = Progress.OPEN
        self.group = Group()
        # Messages that the coordinator has not said anything of yet.
        self.unposted = 0
        self._client = client
        self._ledger = client.ledger
        self._staged: list[_Staged] = []
        self._acquired: list[tuple[Receiver, IncomingDelivery]] = []

    @property
    def may_be_over(self) -> bool:
        """The server takes back what was acquired when it undoes the transaction, and we hear of that later."""
        return self.progress not in (Progress.OPEN, Progress.COMMITTED)

    @property
    def is_ready(self) -> bool:
        """Whether it may be discharged, and there is a reason to."""
        is_empty = not (self.group.publishes or self.group.settlements or self._acquired)
        return self.progress is Progress.OPEN and not self.unposted and not is_empty

    def publish(self, sent: Sent) -> TransactionalState:
        """What a message is sent with."""
        sent.is_in_transaction = True
        self.group.publishes.append(sent)
        self.unposted += 1
        return TransactionalState(self.id)

    def posted(self, sent: Sent, state: DeliveryState | None) -> None:
        """A message has its provisional outcome."""
        self.unposted -= 1
        is_ours = isinstance(state, TransactionalState) and state.txn_id == self.id
        outcome = state.outcome if isinstance(state, TransactionalState) else None
        if not is_ours or not (isinstance(outcome, Accepted) or (isinstance(outcome, Released) and not sent.lines)):
            raise Unexpected(f"in transaction {self.id.hex()}, {sent.number} is {state}")

    def settle(self, receiver: "Receiver", delivery: IncomingDelivery, copy: Copy, how: int, settled: bool) -> None:
        self.group.settlements.append((receiver.line, copy, how))
        self._staged.append(_Staged(receiver, delivery, copy, settled))

    def acquire(self, receiver: "Receiver", delivery: IncomingDelivery, copy: Copy) -> None:
        """A delivery was made in its name; one that comes behind the end of it is back on its queue."""
        if self.progress is Progress.UNDONE:
            raise Unexpected(f"{copy.sent.number} is acquired in transaction {self.id.hex()}, which was undone")
        if self.progress is not Progress.COMMITTED:
            self._acquired.append((receiver, delivery))
        if self.progress is Progress.LEFT:
            self._ledger.gave_back([copy], [])
            return
        receiver.unsettled[delivery] = copy
        if self.progress is not Progress.COMMITTED:
            receiver.acquired[delivery] = self

    # -- its end ------------------------------------------------------------------------------------------------

    def asked(self) -> None:
        """Its commit is asked for: its messages come to their queues now, whenever they were sent."""
        self.progress = Progress.ASKED
        for sent in self.group.publishes:
            sent.place = self._client.workload.next_number()
        self._ledger.committing(self.group)

    def rolled_back(self) -> None:
        """What was to be settled is in hand as before, or goes back, as does what was acquired."""
        self.progress = Progress.LEFT
        self._ledger.gave_back([each.copy for each in self._staged if not each.returns], [])
        self._take_back([each for each in self._staged if each.returns])

    def committed(self) -> None:
        self.progress = Progress.COMMITTED
        self._ledger.committed(self.group)
        for receiver, delivery in self._acquired:
            receiver.acquired.pop(delivery, None)
        self._acquired.clear()

    def refused(self) -> None:
        self.progress = Progress.UNDONE
        self._ledger.failed(self.group)
        # Or else somebody else has had it since.
        self._take_back([each for each in self._staged if each.returns and each.copy.settled_in is self.group])
        self._check_released()

    def undone(self) -> None:
        """That it was rolled back is answered."""
        self.progress = Progress.UNDONE
        self._check_released()

    def _check_released(self) -> None:
        """The server has given up what was acquired before it said that the transaction is no more."""
        for receiver, delivery in self._acquired:
            if not (receiver.is_over or delivery.is_settled):
                raise Unexpected(
                    f"what transaction {self.id.hex()} acquired from {receiver.line} outlives its rollback"
                )

    def lost(self) -> None:
        """The connection is over, or on its way there, or the coordinator is; what was asked for may be done."""
        if self.progress is Progress.ASKED:
            # A start will tell.
            outs = [copy for _, copy, how in self.group.settlements if how != REQUEUE]
            self._ledger.gave_back([], [copy for copy in outs if copy.settled_in is self.group])
        elif self.progress is Progress.OPEN:
            self._ledger.gave_back([each.copy for each in self._staged], [])
        self.progress = Progress.LEFT
        self._take_back([])

    def _take_back(self, staged: list[_Staged]) -> None:
        for each in staged:
            each.take_back()
        for receiver, delivery in self._acquired:
            receiver.acquired.pop(delivery, None)
            copy = receiver.unsettled.pop(delivery, None)
            if copy is not None:
                self._ledger.gave_back([copy], [])
        self._staged.clear()


@final
class Work:
    """A link to the coordinator, and the transactions that were declared by it."""

    def __init__(self, client: "LinkClient") -> None:
        assert client.session is not None
        self._client = client
        self._ledger = client.ledger
        self._control = coordinator.coordinator(f"t{client.workload.next_number()}")
        self._control.attach(client.session)
        self._open: list[SimTransaction] = []
        self._declaring: list[Command] = []
        self._discharging: list[tuple[SimTransaction, Command]] = []
        self.is_over = False

    @property
    def open(self) -> list[SimTransaction]:
        return [] if self.is_over else self._open

    @property
    def was_ended(self) -> bool:
        """Whether the server has ended it, as it does when the disk fails under a commit."""
        error = self._control.error
        return isinstance(error, LinkDetached) and error.condition == ResourceError.condition

    @property
    def is_waiting(self) -> bool:
        """For an answer."""
        return bool(self._declaring or self._discharging)

    @property
    def count(self) -> int:
        """How many transactions are open, or on their way."""
        return len(self._open) + len(self._declaring)

    # -- what it does -------------------------------------------------------------------------------------------

    def declare(self) -> None:
        if not self.is_over and self._control.error is None:
            self._declaring.append(coordinator.declare(self._control))

    def commit(self, transaction: SimTransaction) -> None:
        transaction.asked()
        self._discharge(transaction, False)

    def roll_back(self, transaction: SimTransaction) -> None:
        transaction.rolled_back()
        self._discharge(transaction, True)

    def _discharge(self, transaction: SimTransaction, fail: bool) -> None:
        self._open.remove(transaction)
        command = coordinator.discharge(self._control, transaction.id, fail)
        self._discharging.append((transaction, command))

    def detach(self) -> None:
        """The transactions that are open are rolled back with that (amqp-1.0 part 4 §4.3)."""
        for transaction in self._open:
            transaction.rolled_back()
        self._control.say_first()
        self._control.close(True)
        self.let_go()

    # -- what comes ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See what the coordinator has answered."""
        if self.is_over:
            return
        if self._control.error is not None:
            # With the connection, or where the disk has failed under a commit.
            self._check(self._control.error)
            self._client.has_lost_coordinator |= self.was_ended
            self.let_go()
            return
        for declaring in [each for each in self._declaring if each.is_ready]:
            self._declaring.remove(declaring)
            if not isinstance(declaring.outcome, Declared):
                raise Unexpected(f"no transaction is declared, but {declaring.outcome}")
            self._declared(declaring.outcome.txn_id)
        for each in [each for each in self._discharging if each[1].is_ready]:
            self._discharging.remove(each)
            self._discharged(each[0], each[1].outcome)

    def _check(self, error: FlintError) -> None:
        is_lost = self._client.is_lost or not self._client.is_usable or self._ledger.is_closing()
        if not is_lost and not self._client.node.storage.failure:
            raise Unexpected(f"the coordinator has gone: {error}")

    def _declared(self, txn_id: bytes) -> None:
        if txn_id in self._client.transactions:
            raise Unexpected(f"transaction {txn_id.hex()} is declared for the second time")
        transaction = SimTransaction(self._client, txn_id)
        self._client.transactions[txn_id] = transaction
        self._open.append(transaction)

    def _discharged(self, transaction: SimTransaction, outcome: DeliveryState | None) -> None:
        if isinstance(outcome, Accepted):
            if transaction.progress is Progress.ASKED:
                transaction.committed()
            else:
                transaction.undone()
        elif transaction.progress is Progress.ASKED and isinstance(outcome, Rejected):
            transaction.refused()
        else:
            raise Unexpected(f"the discharge of a transaction is {outcome}")

    def let_go(self) -> None:
        """The connection is over, or on its way there, or this link is."""
        if self.is_over:
            return
        self.is_over = True
        for transaction in (*self._open, *(transaction for transaction, _ in self._discharging)):
            transaction.lost()
        self._open.clear()
        self._declaring.clear()
        self._discharging.clear()
