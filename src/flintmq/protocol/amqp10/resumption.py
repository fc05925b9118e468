"""Decisions on unsettled deliveries when a link is resumed (amqp-1.0 part 2 §2.6.13, part 3 §3.4.6).

The attach of each side has its map of unsettled deliveries. The sender calls `plan` for each of its deliveries; the
receiver calls `settled_meanwhile` to find which of its deliveries the sender has settled.
"""

from collections.abc import Iterable
from enum import Enum
from typing import final

from flintmq.wire.amqp10.states import Declared, DeliveryState, Outcome, Received

Unsettled = dict[bytes, DeliveryState | None]


class Action(Enum):
    """The action of the sender for a delivery."""

    SEND = "send the message as a new delivery"
    RESUME = "resume it, with the message from a place on"
    SETTLE = "resume it, settled, with the outcome and no message"
    RESTATE = "resume it, unsettled, with our outcome and no message: the receiver has another one, and follows"
    ABORT = "resume it only to abort it; send the message as a new delivery if there still is one"
    FORGET = "settle it without a word: the receiver has"
    WAIT = "leave it: the receiver's map is not complete"


@final
class Plan:
    """An action, and the state in the resuming transfer: an outcome, or the position where the message begins."""

    def __init__(self, action: Action, state: DeliveryState | None = None) -> None:
        self.action = action
        self.state = state


_START = Received(0, 0)


def plan(tag: bytes, ours: DeliveryState | None, theirs: Unsettled, is_complete: bool = True) -> Plan:
    """Return what the sender does with delivery `tag`: `ours` is its state here, `theirs` the receiver's unsettled map.

    `is_complete` says whether `theirs` is complete. The numbers in the comments are those of the example in
    part 3 §3.4.6.
    """
    if tag not in theirs:
        if not is_complete:
            return Plan(Action.WAIT)
        # 10: we have an outcome, so the receiver has decided and settled it. 1, 5: the receiver never saw the delivery.
        return Plan(Action.FORGET) if isinstance(ours, Outcome) else Plan(Action.SEND)
    remote = theirs[tag]
    if isinstance(remote, Declared):
        # Declared is no outcome of a message.
        remote = None
    if isinstance(ours, Outcome):
        if not isinstance(remote, Outcome):
            # 11, 14: the outcome was decided on this side, and there is nothing more to send.
            return Plan(Action.ABORT)
        # 12, 13: the outcome takes effect at the sender, so ours counts.
        return Plan(Action.SETTLE if remote == ours else Action.RESTATE, ours)
    if isinstance(remote, Outcome):
        # 3, 8: the receiver has decided; the sender only applies its outcome.
        return Plan(Action.SETTLE, remote)
    # 2, 4, 6, 7, 9: on either side, no state means the beginning of the message.
    here = ours if isinstance(ours, Received) else _START
    there = remote if isinstance(remote, Received) else _START
    return Plan(Action.RESUME, there) if _reaches(here, there) else Plan(Action.ABORT)


def settled_meanwhile(ours: Iterable[bytes], theirs: Unsettled, is_complete: bool = True) -> list[bytes]:
    """Return the receiver's deliveries that the sender has settled: those missing in its map, if that is complete."""
    return [tag for tag in ours if tag not in theirs] if is_complete else []


def _reaches(here: Received, there: Received) -> bool:
    """Return whether a sender that can send from `here` on can send from `there` on."""
    return (here.section_number, here.section_offset) <= (there.section_number, there.section_offset)
