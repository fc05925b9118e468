"""Who reads nothing of what waits for it is cut off; who reads little is not."""

import pytest

from flintmq.server.send_timeout import SendTimeout
from tests.sim.loop import VirtualLoop

SECONDS = 8.0


class Client:
    """`rate` is what the kernel takes for it in a second, of as much as there is."""

    def __init__(self, loop: VirtualLoop, rate: float) -> None:
        self._loop = loop
        self._rate = rate
        self._from = loop.time()
        self.is_empty = False
        self.cut: list[float] = []

    @property
    def taken_bytes(self) -> int:
        return -1 if self.is_empty else 1000 + int((self._loop.time() - self._from) * self._rate)

    def disconnect(self, seconds: float) -> None:
        assert seconds == SECONDS
        self.cut.append(self._loop.time())


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(100.0)


def test_who_reads_nothing_is_cut_off(loop: VirtualLoop) -> None:
    """Once, when the time is up, and not much later."""
    client = Client(loop, 0)
    timeout = SendTimeout(loop, SECONDS)
    for at in (100.0, 101.5, 107.5):
        loop.run(at)
        timeout.watch(client)
    loop.run(1000.0)
    assert len(client.cut) == 1
    assert 100.0 + SECONDS <= client.cut[0] <= 100.0 + SECONDS * 9 / 8


def test_who_reads_little_stays(loop: VirtualLoop) -> None:
    """A byte now and then is a slow reader; and for whom nothing waits any more nobody looks."""
    slow, quick = Client(loop, 1 / 7), Client(loop, 0)
    timeout = SendTimeout(loop, SECONDS)
    timeout.watch(slow)
    timeout.watch(quick)
    loop.run(105.0)
    quick.is_empty = True
    loop.run(1000.0)
    assert slow.cut == quick.cut == []


def test_a_standstill_is_nobodys_fault(loop: VirtualLoop) -> None:
    """Where the broker itself did nothing for long, its clients have nearly all of their time still."""
    client = Client(loop, 0)
    timeout = SendTimeout(loop, SECONDS)
    timeout.watch(client)
    loop.stand_still(100.0)
    loop.run(205.0)
    assert not client.cut
    loop.run(220.0)
    assert client.cut


def test_without_a_time_nobody_is_cut_off(loop: VirtualLoop) -> None:
    """A setting of 0 is for ever; another one that is taken up later counts for who waits by then."""
    client = Client(loop, 0)
    timeout = SendTimeout(loop, 0)
    timeout.watch(client)
    loop.run(1000.0)
    assert not client.cut
    timeout.seconds = SECONDS
    timeout.watch(client)
    loop.run(1020.0)
    assert client.cut
