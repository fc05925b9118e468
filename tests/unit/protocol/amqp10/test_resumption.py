"""The example of part 3 §3.4.6, all of its fourteen deliveries, and what is beside it."""

import pytest

from flintmq.protocol.amqp10.resumption import Action, plan, settled_meanwhile
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Received

ABSENT = "absent"


@pytest.mark.parametrize(
    ("number", "ours", "theirs", "action", "state"),
    [
        (1, None, ABSENT, Action.SEND, None),
        (2, None, Received(3, 0), Action.RESUME, Received(3, 0)),
        (3, None, ACCEPTED, Action.SETTLE, ACCEPTED),
        (4, None, None, Action.RESUME, Received(0, 0)),
        (5, Received(0, 200), ABSENT, Action.SEND, None),
        (6, Received(1, 150), Received(2, 0), Action.RESUME, Received(2, 0)),
        (7, Received(0, 500), Received(0, 100), Action.ABORT, None),
        (8, Received(3, 5), ACCEPTED, Action.SETTLE, ACCEPTED),
        (9, Received(2, 0), None, Action.ABORT, None),
        (10, ACCEPTED, ABSENT, Action.FORGET, None),
        (11, ACCEPTED, Received(1, 2000), Action.ABORT, None),
        (12, ACCEPTED, ACCEPTED, Action.SETTLE, ACCEPTED),
        (13, ACCEPTED, RELEASED, Action.RESTATE, ACCEPTED),
        (14, ACCEPTED, None, Action.ABORT, None),
    ],
)
def test_example(
    number: int, ours: DeliveryState | None, theirs: object, action: Action, state: DeliveryState | None
) -> None:
    """What the sender does follows from both maps."""
    tag = bytes([number])
    assert theirs is None or theirs == ABSENT or isinstance(theirs, DeliveryState)
    remote = {} if isinstance(theirs, str) else {tag: theirs}
    planned = plan(tag, ours, remote)
    assert (planned.action, planned.state) == (action, state)


@pytest.mark.parametrize("ours", [None, Received(1, 1), ACCEPTED])
def test_incomplete_map(ours: DeliveryState | None) -> None:
    """What an incomplete map does not say is not known."""
    assert plan(b"tag", ours, {b"other": None}, is_complete=False).action is Action.WAIT


def test_place_within_a_section() -> None:
    """A message can be resumed from the very place the receiver has come to, and not from before it."""
    assert plan(b"t", Received(1, 10), {b"t": Received(1, 10)}).action is Action.RESUME
    assert plan(b"t", Received(1, 11), {b"t": Received(1, 10)}).action is Action.ABORT


def test_settled_meanwhile() -> None:
    """The receiver forgets what the sender does not speak of, if that speaks of all it has."""
    ours: dict[bytes, DeliveryState | None] = {b"a": None, b"b": ACCEPTED}
    assert settled_meanwhile(ours, {b"a": None}) == [b"b"]
    assert settled_meanwhile(ours, {b"a": None}, is_complete=False) == []
