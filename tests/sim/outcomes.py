"""What both kinds of clients that speak AMQP 1.0 say and expect: addresses, outcomes, and how links end."""

from typing import Final

from flintmq.wire.amqp10.states import Accepted, Modified, Outcome, Rejected, Released
from tests.sim.ledger import ACK, REJECT, REQUEUE
from tests.sim.topology import Address

# What a link may be ended with: a node that cannot store any more, or that is about to stop; a queue that is gone.
EXPECTED: Final = {
    "amqp:internal-error",
    "amqp:resource-limit-exceeded",
    "amqp:resource-deleted",
    "amqp:connection:forced",
    "amqp:not-found",
}
_OUTCOMES: Final[dict[int, tuple[Outcome, ...]]] = {
    ACK: (Accepted(),),
    REJECT: (Rejected(),),
    REQUEUE: (Released(), Modified(delivery_failed=True)),
}


def outcome_of(how: int, chosen: int) -> Outcome:
    """`chosen` says by which of the outcomes that come to the same."""
    outcomes = _OUTCOMES[how]
    return outcomes[chosen % len(outcomes)]


def target_of(address: Address) -> str:
    return f"/exchanges/{address.exchange}/{address.key}" if address.exchange else f"/queues/{address.key}"
