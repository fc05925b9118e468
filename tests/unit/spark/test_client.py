"""A connection that outlives restarts of the broker, and gives up where waiting does not help."""

import time
from typing import cast

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost
from flintmq.spark.client import PATIENCE_SECONDS, ReconnectingClient
from flintmq.spark.endpoint import Endpoint

pytestmark = pytest.mark.usefixtures("slept")


class Broker:
    """Connections to nothing: `refusals` fail before one comes about."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = [*refusals]
        self.connected = 0
        self.channels = 0
        self.closed = 0

    def connect(self, first: int) -> "Broker":
        if self.refusals:
            raise self.refusals.pop(0)
        self.connected += 1
        return self

    def channel(self, confirms: bool) -> int:
        self.channels += 1
        return self.channels

    def close(self) -> None:
        self.closed += 1


class Operation:
    """Fails with each of `faults` in turn, then returns the channel it was given."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = [*faults]

    def __call__(self, channel: fc.Channel) -> int:
        if self.faults:
            raise self.faults.pop(0)
        return cast(int, channel)


def client_of(broker: Broker, patient: bool = True) -> ReconnectingClient:
    return ReconnectingClient(cast(Endpoint, broker), confirms=False, patient=patient)


def test_one_channel_serves_all_calls() -> None:
    """As long as nothing happens, there is one connection and one channel, closed at the end."""
    broker = Broker()
    with client_of(broker) as link:
        assert [link.call(Operation()), link.call(Operation())] == [1, 1]
    assert (broker.connected, broker.closed) == (1, 1)


@pytest.mark.parametrize(
    "fault",
    [ConnectionLost("reset"), fc.TimedOut("no answer"), fc.ConnectionClosed(320, "CONNECTION_FORCED - shutdown")],
)
def test_a_broker_that_restarts(fault: Exception) -> None:
    """When the connection ends, the operation is repeated on a new one, also if that takes some attempts."""
    broker = Broker()
    link = client_of(broker, patient=False)
    link.call(Operation())
    broker.refusals = [fc.ConnectFailed("refused"), fc.ConnectFailed("refused")]
    assert link.call(Operation(fault)) == 2
    assert (broker.connected, broker.closed) == (2, 1)


def test_patience_ends(slept: list[float]) -> None:
    """A broker that stays away is given up."""
    with pytest.raises(fc.ConnectFailed):
        client_of(Broker(*[fc.ConnectFailed("refused")] * 1000)).call(Operation())
    assert 0.9 * PATIENCE_SECONDS < sum(slept) <= PATIENCE_SECONDS


def test_patience_begins_with_the_loss(slept: list[float]) -> None:
    """An operation that went on for long before it lost its connection is tried again as any other."""
    broker = Broker()

    def long(channel: fc.Channel) -> int:
        if broker.closed == 0:
            time.sleep(2 * PATIENCE_SECONDS)
            raise fc.TimedOut("no answer")
        return cast(int, channel)

    assert client_of(broker).call(long) == 2


def test_planning_does_not_wait(slept: list[float]) -> None:
    """Whoever has not reached the broker once, and is not patient, learns that at once."""
    with pytest.raises(fc.ConnectFailed):
        client_of(Broker(fc.ConnectFailed("refused")), patient=False).call(Operation())
    assert slept == []


def test_the_first_operation_is_repeated_too() -> None:
    """A broker that could be reached is waited for: a cluster may change its leader at any time."""
    broker = Broker()
    link = client_of(broker, patient=False)
    assert link.call(Operation(fc.ConnectionClosed(320, "CONNECTION_FORCED - another node was elected"))) == 2


@pytest.mark.parametrize(
    "fault", [fc.LoginRefused(403, "ACCESS_REFUSED"), fc.ConnectionClosed(530, "NOT_ALLOWED - no vhost 'x'")]
)
def test_a_broker_that_refuses(fault: Exception, slept: list[float]) -> None:
    """What will be refused again is not tried again."""
    with pytest.raises(fc.ConnectionClosed):
        client_of(Broker(fault)).call(Operation())
    assert slept == []


def test_a_channel_that_was_closed() -> None:
    """The broker's refusal of an operation is the caller's; the next call has a new channel."""
    broker = Broker()
    link = client_of(broker)
    with pytest.raises(fc.ChannelClosed):
        link.call(Operation(fc.ChannelClosed(404, "NOT_FOUND")))
    assert link.call(Operation()) == 2
    assert broker.connected == 1
