"""What a client posts in a transaction and has not settled: the outcome it was told, and who has to know of it."""

from typing import final

from flintmq.broker.terminus.terminus import ReceivedDelivery, TargetTerminus
from flintmq.gateway.amqp10.link_terminus import encoded_state
from flintmq.protocol.amqp10.delivery import IncomingDelivery
from flintmq.wire.amqp10.states import Outcome, TransactionalState


@final
class Posting:
    """A delivery that waits for the discharge of its transaction. `outcome` is what an accepted discharge gives it.

    The link's terminus tells the state of the delivery to a link that is resumed. Until the discharge that is the
    outcome as of the transaction; afterwards the outcome itself, or nothing where it was rolled back (part 4 §4.4.4).
    """

    def __init__(self, txn_id: bytes, delivery: IncomingDelivery, outcome: Outcome) -> None:
        self.state = TransactionalState(txn_id=txn_id, outcome=outcome)
        self._delivery = delivery
        self._outcome = outcome
        self._terminus: TargetTerminus | None = None
        self._kept: ReceivedDelivery | None = None

    def keep(self, terminus: TargetTerminus) -> None:
        """From now on the terminus knows of the delivery, until the client has settled it."""
        self._terminus = terminus
        self._kept = terminus.posted(self._delivery.tag, encoded_state(self.state))

    def applied(self) -> None:
        """The transaction is committed, in the group of the journal that is open."""
        self._delivery.mark = self._outcome
        terminus = self._terminus
        if terminus is not None and self._is_kept():
            terminus.received(self._delivery.tag, encoded_state(self._outcome))

    def undone(self) -> None:
        """The transaction is rolled back: the delivery is unsettled still, and has no outcome."""
        self._delivery.mark = None
        terminus = self._terminus
        if terminus is not None and self._is_kept():
            terminus.forget(self._delivery.tag)

    def _is_kept(self) -> bool:
        """Whether the terminus still means this delivery by its tag, which the client may use again once it settled."""
        terminus, kept = self._terminus, self._kept
        return terminus is not None and kept is not None and terminus.unsettled.get(self._delivery.tag) is kept
