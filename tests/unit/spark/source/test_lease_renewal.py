"""A lease with a timeout: somebody calls for it as long as its query lives."""

import time
from collections.abc import Callable
from typing import Self, TypeVar, cast

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.source import lease_renewal
from flintmq.spark.source.lease_renewal import LeaseRenewal

T = TypeVar("T")


class Broker:
    """Counts what is asked; `faults` come first."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = [*faults]
        self.asked: list[tuple[str, str, int, int, int]] = []
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        return operation(cast(fc.Channel, self))

    def lease_extend(self, queue: str, name: str, epoch: int, max_messages: int, max_bytes: int) -> None:
        self.asked.append((queue, name, epoch, max_messages, max_bytes))
        if self.faults:
            raise self.faults.pop(0)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("fault", "goes_on"), [(ConnectionLost("reset"), True), (fc.ChannelClosed(406, "has been taken over"), False)]
)
def test_calls(monkeypatch: pytest.MonkeyPatch, fault: Exception, goes_on: bool) -> None:
    """It calls several times in a timeout, also after a lost connection, but not for a lease that is another's."""
    broker = Broker(fault)
    monkeypatch.setattr(lease_renewal, "ReconnectingClient", lambda *_, **__: broker)
    made = LeaseRenewal(Endpoint("amqp://h/"), "q", "c", 7, 20)
    if goes_on:
        until(lambda: len(broker.asked) >= 3)
        made.close()
    until(lambda: broker.closed)
    assert {*broker.asked} == {("q", "c", 7, 0, 0)}
    assert (len(broker.asked) > 1) is goes_on
