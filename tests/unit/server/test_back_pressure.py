"""A socket is read if and only if there is no reason for back-pressure."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from flintmq.server import back_pressure
from flintmq.server.back_pressure import ALARM, JOURNAL, ReadGate

REASONS = (
    back_pressure.TICK,
    back_pressure.WORK,
    JOURNAL,
    back_pressure.OUTPUT,
    ALARM,
    back_pressure.REASSEMBLY,
    back_pressure.SHUTDOWN,
    back_pressure.UNAUTHENTICATED,
)


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.is_over = False

    def pause_reading(self) -> None:
        assert not self.is_over
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_over
        assert not self.is_read
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_over


def test_each_reason_is_a_bit_of_its_own() -> None:
    """No reason is part of another one."""
    assert sum(REASONS) == 2 ** len(REASONS) - 1


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(REASONS), min_size=1)), max_size=30))
def test_read_if_and_only_if_there_is_no_reason(steps: list[tuple[bool, set[int]]]) -> None:
    """Whatever is added and removed, in whatever order, and however often."""
    wire = Wire()
    gate = ReadGate()
    gate.attach(wire)
    reasons: set[int] = set()
    for adds, some in steps:
        if adds:
            gate.add(sum(some))
            reasons |= some
        else:
            gate.remove(sum(some))
            reasons -= some
        assert gate.reasons == sum(reasons)
        assert wire.is_read == (not reasons)


def test_a_transport_that_closes_is_left_alone() -> None:
    """The event loop refuses to pause or resume what is closed; a gate without a transport only keeps its reasons."""
    wire = Wire()
    gate = ReadGate()
    gate.attach(wire)
    gate.add(JOURNAL)
    wire.is_over = True
    gate.remove(JOURNAL)
    gate.add(ALARM)
    gate.detach()
    gate.remove(ALARM)
    assert gate.reasons == 0
