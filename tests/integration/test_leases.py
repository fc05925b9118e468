"""Leases over the wire: what a reader takes from a queue is the same whenever it is read, until it is settled."""

from collections.abc import Callable, Iterator

import pytest

import flintmq.client as fc
from tests.servers import BrokerProcess

Connect = Callable[..., fc.Connection]

PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))


@pytest.fixture
def channel(connect: Connect, broker: BrokerProcess) -> Iterator[fc.Channel]:
    with connect(broker.url) as connection, connection.channel(confirms=True) as opened:
        yield opened


def _fill(channel: fc.Channel, queue: str, count: int, start: int = 0) -> None:
    channel.declare_queue(queue)
    channel.publish_batch([("", queue, b"%d" % n, PERSISTENT) for n in range(start, start + count)])


def _read(channel: fc.Channel, queue: str, start: int, end: int) -> list[tuple[int, bytes, bool]]:
    return [
        (record.offset, record.body, record.redelivered)
        for chunk in channel.lease_chunks(queue, "reader", start, end)
        for record in chunk.records
    ]


def test_a_batch_is_read_and_settled(channel: fc.Channel) -> None:
    """Messages get positions in the order of the queue; what is settled is gone, and the rest goes on behind it."""
    _fill(channel, "orders", 10_000)
    opened = channel.lease_open("orders", "reader")
    assert (opened.first, opened.next) == (0, 0)
    extended = channel.lease_extend("orders", "reader", opened.epoch, 6_000)
    assert (extended.first, extended.next, extended.ready) == (0, 6_000, 4_000)
    expected = [(n, b"%d" % n, False) for n in range(6_000)]
    assert _read(channel, "orders", 0, 6_000) == expected
    assert _read(channel, "orders", 1_234, 5_678) == expected[1_234:5_678]
    channel.lease_settle("orders", "reader", opened.epoch, 2_500)
    again = channel.lease_extend("orders", "reader", opened.epoch, 100_000)
    assert (again.first, again.next, again.ready) == (2_500, 10_000, 0)
    assert _read(channel, "orders", 2_500, 10_000) == [(n, b"%d" % n, False) for n in range(2_500, 10_000)]
    channel.lease_settle("orders", "reader", opened.epoch, 10_000)
    assert channel.lease_release("orders", "reader", opened.epoch) == 0
    assert channel.declare_queue("orders").message_count == 0
