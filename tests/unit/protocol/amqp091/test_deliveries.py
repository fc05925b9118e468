"""Deliveries are written the same whether they are like the one before or not."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.limits import FRAME_MIN_BYTES
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.amqp091.reassembly import ReassemblyBudget
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role

NO_PROPERTIES = b"\0\0"
PREFIXES = [b"\0\x3c\0\x3c\1c", b"\0\x3c\0\x3c\2cc"]
ADDRESSES = [b"\1x\1k", b"\0\1k"]
PROPERTIES = [NO_PROPERTIES, b"\x10\0\2", b"\x80\0\3a/b", b"\x20\0" + bytes(2000)]
BODIES = [b"", b"a", b"b", b"bb", bytes(FRAME_MIN_BYTES - 8), bytes(FRAME_MIN_BYTES), bytes(70_000)]

Delivery = tuple[bytes, int, bool, bytes, bytes, bytes]
DELIVERIES = st.tuples(
    st.sampled_from(PREFIXES),
    st.integers(1, 2**40),
    st.booleans(),
    st.sampled_from(ADDRESSES),
    st.sampled_from(PROPERTIES),
    st.sampled_from(BODIES),
)


def channel(output: Output) -> Channel:
    return Channel(3, Role.SERVER, output, ReassemblyBudget(1 << 20, 1 << 20))


def sent_by_one(deliveries: list[Delivery]) -> tuple[bytes, int]:
    output = Output(Outbox())
    sender = channel(output)
    for delivery in deliveries:
        sender.send_delivery(*delivery)
    return b"".join(output.take()), output.backlog


def sent_each_by_another(deliveries: list[Delivery]) -> tuple[bytes, int]:
    output = Output(Outbox())
    for delivery in deliveries:
        channel(output).send_delivery(*delivery)
    return b"".join(output.take()), output.backlog


@given(st.lists(st.tuples(DELIVERIES, st.integers(1, 3)), max_size=8))
def test_what_went_before_makes_no_difference(runs: list[tuple[Delivery, int]]) -> None:
    """A channel writes what channels would write that have delivered nothing before, and counts as much."""
    deliveries = [delivery for delivery, times in runs for _ in range(times)]
    assert sent_by_one(deliveries) == sent_each_by_another(deliveries)


def test_channels_do_not_share_what_they_keep() -> None:
    """The number in what is kept is the channel's own."""
    output = Output(Outbox())
    first, second = channel(output), Channel(4, Role.SERVER, output, ReassemblyBudget(1 << 20, 1 << 20))
    for sender in (first, second, first, second, first):
        sender.send_delivery(PREFIXES[0], 1, False, ADDRESSES[0], NO_PROPERTIES, b"body")
    data = b"".join(output.take())
    size = len(data) // 5
    numbers = [data[at * size + 2] for at in range(5)]
    assert numbers == [3, 4, 3, 4, 3]
