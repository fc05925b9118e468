"""What becomes of an unsettled delivery when its link is taken up again (amqp-1.0 part 2 §2.6.13, part 3 §3.4.6).

Both sides have said in their attach what they hold for unsettled. The sender goes through its deliveries and asks
`plan` about each; the receiver asks `settled_meanwhile` which of its own the sender has forgotten.
"""

from collections.abc import Iterable
from enum import Enum
from typing import final

from flintmq.wire.amqp10.states import Declared, DeliveryState, Outcome, Received

Unsettled = dict[bytes, DeliveryState | None]


class Action(Enum):
    """What the sender does with a delivery."""

    SEND = "send the message as a new delivery"
    RESUME = "resume it, with the message from a place on"
    SETTLE = "resume it, settled, with the outcome and no message"
    RESTATE = "resume it, unsettled, with our outcome and no message: the receiver has another one, and follows"
    ABORT = "resume it only to abort it; send the message as a new delivery if there still is one"
    FORGET = "settle it without a word: the receiver has"
    WAIT = "leave it: the receiver's map is not complete"


@final
class Plan:
    """`state` is what the resuming transfer says: the outcome, or from where on the message can be sent."""

    def __init__(self, action: Action, state: DeliveryState | None = None) -> None:
        self.action = action
        self.state = state


_START = Received(0, 0)


def plan(tag: bytes, ours: DeliveryState | None, theirs: Unsettled, is_complete: bool = True) -> Plan:
    """What the sender does with delivery `tag`, of which it says `ours`, by what the receiver's map says.

    The numbers are those of the example in part 3 §3.4.6.
    """
    if tag not in theirs:
        if not is_complete:
            return Plan(Action.WAIT)
        # 10: an outcome that we know, the receiver must have told us. 1, 5: otherwise it has never seen the delivery.
        return Plan(Action.FORGET) if isinstance(ours, Outcome) else Plan(Action.SEND)
    remote = theirs[tag]
    if isinstance(remote, Declared):
        # Nothing that a message can come to.
        remote = None
    if isinstance(ours, Outcome):
        if not isinstance(remote, Outcome):
            # 11, 14: we came to it by ourselves, and have nothing more to send.
            return Plan(Action.ABORT)
        # 12 and 13: the outcome takes effect here, so ours counts.
        return Plan(Action.SETTLE if remote == ours else Action.RESTATE, ours)
    if isinstance(remote, Outcome):
        # 3, 8: all that is left to do is to apply it.
        return Plan(Action.SETTLE, remote)
    # 2, 4, 6, 7, 9: nothing said is the beginning, on either side.
    here = ours if isinstance(ours, Received) else _START
    there = remote if isinstance(remote, Received) else _START
    return Plan(Action.RESUME, there) if _reaches(here, there) else Plan(Action.ABORT)


def settled_meanwhile(ours: Iterable[bytes], theirs: Unsettled, is_complete: bool = True) -> list[bytes]:
    """Deliveries of a receiver that the sender has settled, because it does not speak of them any more."""
    return [tag for tag in ours if tag not in theirs] if is_complete else []


def _reaches(here: Received, there: Received) -> bool:
    """Whether who can send from `here` on can send from `there` on."""
    return (here.section_number, here.section_offset) <= (there.section_number, there.section_offset)
