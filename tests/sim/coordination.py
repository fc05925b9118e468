"""Transactions of clients that speak AMQP 1.0: declared, filled with messages and outcomes, and discharged, or lost."""

from typing import TYPE_CHECKING, final

from flintmq.base.errors import FlintError
from flintmq.client.amqp10 import coordinator
from flintmq.client.amqp10.sender import Sent as Command
from flintmq.protocol.amqp10.delivery import IncomingDelivery
from flintmq.wire.amqp10.states import Accepted, Declared, DeliveryState, Rejected, Released, TransactionalState
from tests.sim.ledger import REQUEUE, Group, Unexpected
from tests.sim.messages import Copy, Sent

if TYPE_CHECKING:
    from tests.sim.links import LinkClient, Receiver


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
class Work:
    """The transactions of a connection, one at a time: so what goes out on one link is in order on its queues."""

    def __init__(self, client: "LinkClient") -> None:
        assert client.session is not None
        self.txn_id = b""
        self.group = Group()
        # Messages that the coordinator has not said anything of yet.
        self.unposted = 0
        self._client = client
        self._ledger = client.ledger
        self._control = coordinator.coordinator(f"t{client.workload.next_number()}")
        self._control.attach(client.session)
        self._declaring: Command | None = None
        self._discharging: Command | None = None
        # What is discharged, if that is a commit.
        self._asked: Group | None = None
        self._staged: list[_Staged] = []
        self._is_over = False

    @property
    def is_open(self) -> bool:
        return bool(self.txn_id) and not self._is_over

    @property
    def is_waiting(self) -> bool:
        """For an answer."""
        return self._declaring is not None or self._discharging is not None

    @property
    def is_empty(self) -> bool:
        return not self.group.publishes and not self.group.settlements

    # -- what it does -------------------------------------------------------------------------------------------

    def declare(self) -> None:
        if not self._is_over:
            self._declaring = coordinator.declare(self._control)

    def publish(self, sent: Sent) -> TransactionalState:
        """What a message is sent with."""
        sent.is_in_transaction = True
        self.group.publishes.append(sent)
        self.unposted += 1
        return TransactionalState(self.txn_id)

    def posted(self, sent: Sent, state: DeliveryState | None) -> None:
        """A message has its provisional outcome."""
        self.unposted -= 1
        outcome = state.outcome if isinstance(state, TransactionalState) else None
        if not isinstance(outcome, Accepted) and not (isinstance(outcome, Released) and not sent.lines):
            raise Unexpected(f"in its transaction, {sent.number} is {state}")

    def settle(self, receiver: "Receiver", delivery: IncomingDelivery, copy: Copy, how: int, settled: bool) -> None:
        self.group.settlements.append((receiver.line, copy, how))
        self._staged.append(_Staged(receiver, delivery, copy, settled))

    def commit(self) -> None:
        group, self.group = self.group, Group()
        self._ledger.committing(group)
        self._asked = group
        self._discharge(False)

    def roll_back(self) -> None:
        """What was to be settled is in hand as before, or goes back."""
        self.group = Group()
        self._give_back([each for each in self._staged if not each.returns])
        for each in self._staged:
            if each.returns:
                each.take_back()
        self._staged = []
        self._discharge(True)

    def _discharge(self, fail: bool) -> None:
        self._discharging = coordinator.discharge(self._control, self.txn_id, fail)
        self.txn_id = b""

    def _give_back(self, staged: list[_Staged]) -> None:
        self._ledger.gave_back([each.copy for each in staged], [])

    # -- what comes ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See what the coordinator has answered."""
        if self._is_over:
            return
        if self._control.error is not None:
            # With the connection, or where the disk has failed under a commit.
            self._check(self._control.error)
            self.let_go()
            return
        declaring = self._declaring
        if declaring is not None and declaring.is_ready:
            self._declaring = None
            if not isinstance(declaring.outcome, Declared):
                raise Unexpected(f"no transaction is declared, but {declaring.outcome}")
            self.txn_id = declaring.outcome.txn_id
        discharging = self._discharging
        if discharging is not None and discharging.is_ready:
            self._discharging = None
            self._discharged(discharging.outcome)

    def _check(self, error: FlintError) -> None:
        is_lost = self._client.is_lost or not self._client.is_usable or self._ledger.is_closing()
        if not is_lost and not self._client.node.storage.failure:
            raise Unexpected(f"the coordinator has gone: {error}")

    def _discharged(self, outcome: DeliveryState | None) -> None:
        group, self._asked = self._asked, None
        staged, self._staged = self._staged, []
        if isinstance(outcome, Accepted):
            if group is not None:
                self._ledger.committed(group)
        elif group is None or not isinstance(outcome, Rejected):
            raise Unexpected(f"the discharge of a transaction is {outcome}")
        else:
            self._ledger.failed(group)
            for each in staged:
                # Or else somebody else has had it since.
                if each.returns and each.copy.settled_in is group:
                    each.take_back()

    def let_go(self) -> None:
        """The connection is over, or on its way there, or the coordinator is; what was asked for last may be done."""
        if self._is_over:
            return
        self._is_over = True
        self._declaring = self._discharging = None
        if self._asked is not None:
            # A start will tell.
            self._ledger.gave_back([], [copy for _, copy, how in self._asked.settlements if how != REQUEUE])
        else:
            self._give_back(self._staged)
        self._staged = []
