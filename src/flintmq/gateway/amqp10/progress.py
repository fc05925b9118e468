"""Progress of deliveries that a terminus keeps: how much has arrived, and when the client is told."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, DecodeError
from flintmq.broker.terminus.terminus import ReceivedDelivery, TargetTerminus
from flintmq.gateway.amqp10.confirms import refuse_unsafe
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.reassembly import ReassemblyBudget
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink
from flintmq.wire.amqp10.received import bytes_before, received_state
from flintmq.wire.amqp10.states import DeliveryState, Received

# Up to this size every part of a message is confirmed at once; after that, once per this many bytes.
_CONFIRM_BYTES: Final = 2 * 1024 * 1024


@final
class Progress:
    """Progress of an incoming delivery. `seen` bytes of it came on an earlier link, and are skipped on this one."""

    def __init__(self, seen: i64) -> None:
        self._seen: i64 = seen
        self._held: i64 = 0
        # The size that was confirmed to the client last, and whether a new one is about to be confirmed.
        self._confirmed: i64 = 0
        self.is_confirming = False

    def hold(self, budget: ReassemblyBudget, size: i64) -> None:
        """Charge `size` bytes of a part to the budget. Raises ResourceLimitExceeded if the budget is used up."""
        self._held += size
        budget.hold(size)

    def release(self, budget: ReassemblyBudget) -> None:
        budget.release(self._held)
        self._held = 0

    def is_confirm_due(self, size: i64) -> bool:
        """Whether to confirm to the client that `size` bytes are here: each part at first, later at intervals."""
        if self.is_confirming or (size >= _CONFIRM_BYTES and size < self._confirmed + _CONFIRM_BYTES):
            return False
        self._confirmed = size
        self.is_confirming = True
        return True

    def unseen(self, payload: bytes) -> bytes:
        seen = self._seen
        if seen == 0:
            return payload
        size: i64 = len(payload)
        self._seen = seen - size if seen > size else 0
        return payload[seen:]


def seen(known: ReceivedDelivery, state: DeliveryState | None) -> i64:
    """How many bytes the client sends again in a resumed delivery; `state` says where it begins (part 3 §3.4.6)."""
    begins: i64 = 0
    if isinstance(state, Received):
        begins = bytes_before(b"".join(known.parts), state)
    return known.size - begins


@final
class PartKept(PendingReply):
    """Tells the client, once a part of a message is on the disk, that it need not send that part again."""

    def __init__(
        self, link: ReceiverLink, delivery: IncomingDelivery, received: ReceivedDelivery, progress: Progress
    ) -> None:
        self._link = link
        self._delivery = delivery
        self._received = received
        self._size = received.size
        self._progress = progress

    def send(self) -> None:
        self._progress.is_confirming = False
        parts = self._received.parts
        if not parts or not self._link.is_attached or self._delivery.mark is not self._progress:
            return
        try:
            place = received_state(b"".join(parts)[: self._size])
        except DecodeError as error:
            self._link.detach(DecodeError(f"failed to parse message: {error.text}", SCOPE_LINK))
            return
        self._link.update(self._delivery, place)

    def fail(self, reason: str) -> None:
        """The storage failed: the part is not confirmed."""


@final
class OutcomeKept(PendingReply):
    """Sends the outcome of a message once the message and the outcome are on the disk.

    The terminus then forgets the outcome; in settle mode second, only when the client has settled. If the link ends
    before that, the terminus keeps the outcome, and the next link of this name tells it.
    """

    def __init__(self, terminus: TargetTerminus, delivery: IncomingDelivery, outcome: DeliveryState) -> None:
        self._terminus = terminus
        self._delivery = delivery
        self._outcome = outcome

    def send(self) -> None:
        delivery = self._delivery
        if delivery.is_settled:
            return
        delivery.link.settle(delivery, self._outcome)
        if not delivery.settles_second:
            self._terminus.forget(delivery.tag)

    def fail(self, reason: str) -> None:
        refuse_unsafe(self._delivery, reason)
