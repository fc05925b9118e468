"""Deliveries that a client posted in a transaction and has not settled, and their outcome."""

from typing import final

from flintmq.broker.terminus.terminus import ReceivedDelivery, TargetTerminus
from flintmq.gateway.amqp10.link_terminus import encoded_state
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.wire.amqp10.states import Outcome, TransactionalState


@final
class PostedDelivery:
    """A delivery that waits for the discharge of its transaction. `outcome` is what an accepted discharge gives it.

    The terminus of the link tells the state of the delivery to a link that resumes. Until the discharge, that is a
    transactional-state with the outcome; then the outcome itself, or nothing after a rollback (part 4 §4.4.4).
    """

    def __init__(self, txn_id: bytes, delivery: IncomingDelivery, outcome: Outcome) -> None:
        self.state = TransactionalState(txn_id=txn_id, outcome=outcome)
        self._delivery = delivery
        self._outcome = outcome
        self._terminus: TargetTerminus | None = None
        self._kept: ReceivedDelivery | None = None

    def keep(self, terminus: TargetTerminus) -> None:
        """Have the terminus keep the delivery until the client settles it."""
        self._terminus = terminus
        self._kept = terminus.posted(self._delivery.tag, encoded_state(self.state))

    def applied(self) -> None:
        """Set the outcome: the transaction is committed. The record goes into the open group of the journal."""
        self._delivery.mark = self._outcome
        terminus = self._terminus
        if terminus is not None and self._is_kept():
            terminus.received(self._delivery.tag, encoded_state(self._outcome))

    def undone(self) -> None:
        """Remove the outcome: the transaction is rolled back. The delivery stays unsettled."""
        self._delivery.mark = None
        terminus = self._terminus
        if terminus is not None and self._is_kept():
            terminus.forget(self._delivery.tag)

    def _is_kept(self) -> bool:
        """Whether the terminus still holds this delivery by its tag: the client may reuse the tag after it settled."""
        terminus, kept = self._terminus, self._kept
        return terminus is not None and kept is not None and terminus.unsettled.get(self._delivery.tag) is kept
