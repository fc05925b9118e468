"""Frames of AMQP 1.0 as bytes, written here by the specification: odd ones that clients do send, and numbers at the
edges of their types.
"""

from collections.abc import Iterator

import pytest

from tests.hostile.amqp10_frames import (
    ATTACH,
    CLOSE,
    DETACH,
    END,
    ERROR,
    FALSE,
    FLOW,
    NULL,
    SOURCE,
    TARGET,
    TRUE,
    UINT_MAX,
    Peer,
    described,
    text,
    uint,
    ulong,
)
from tests.hostile.conftest import Bystander
from tests.servers import BrokerProcess


@pytest.fixture
def peer(broker: BrokerProcess, bystander: Bystander) -> Iterator[Peer]:
    with Peer(broker.port) as client:
        client.start()
        yield client
        client.say(CLOSE)
        client.expect(CLOSE)
    bystander.is_served()
    assert not broker.faults, broker.faults


def test_an_end_with_an_error_of_nothing(peer: Peer) -> None:
    """The `end` that RabbitMQ's Erlang client always sends is answered by one."""
    peer.say(END, described(ERROR, NULL, NULL, NULL))
    peer.expect(END)


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_any_largest_message(peer: Peer, size: int) -> None:
    """A receiver may say any largest size there is a number for; its link is attached."""
    target = described(TARGET, text("here"))
    declared = described(SOURCE, NULL, uint(0), NULL, uint(0), TRUE)
    fields = (text("link"), uint(0), TRUE, NULL, NULL, declared, target, NULL, NULL, NULL, ulong(size))
    peer.say(ATTACH, *fields)
    peer.expect(ATTACH)


@pytest.mark.parametrize("count", [0, 1, 2**31 - 1, 2**31, UINT_MAX - 1, UINT_MAX])
@pytest.mark.parametrize("credit", [0, 1, 2**31, UINT_MAX])
def test_any_credit_at_any_count(peer: Peer, count: int, credit: int) -> None:
    """Whatever count and credit a receiver says, the answer is a flow or the end of its link: never a fault."""
    dynamic = described(SOURCE, NULL, uint(0), NULL, uint(0), TRUE)
    peer.say(ATTACH, text("link"), uint(0), TRUE, NULL, NULL, dynamic, described(TARGET))
    peer.expect(ATTACH)
    numbers = (uint(0), uint(1000), uint(0), uint(1000), uint(0), uint(count), uint(credit))
    peer.say(FLOW, *numbers, NULL, FALSE, TRUE)
    peer.expect(FLOW)
    peer.say(DETACH, uint(0), TRUE)
    peer.expect(DETACH)
