"""Replies that wait for the disk: each is sent in order once its batch is durable, or fails with the storage."""

from typing import Final

from flintmq.base.errors import AmqpError
from flintmq.gateway.durability import DurabilityQueue, DurabilityWaiter, PendingReply


class _Reply(PendingReply):
    def __init__(self, log: list[str], name: str) -> None:
        self._log: Final = log
        self._name: Final = name

    def send(self) -> None:
        if self._name == "fault":
            raise ValueError(self._name)
        self._log.append(self._name)

    def fail(self, reason: str) -> None:
        self._log.append(f"{self._name}: {reason}")


class _Node:
    """A queue with two waiters; `log` is what they sent and what was reported."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.queue = DurabilityQueue(lambda error: self.log.append(f"reported {error}"))
        self.waiters = [DurabilityWaiter(self.queue, self._disconnected) for _ in range(2)]

    def _disconnected(self, error: AmqpError) -> None:
        self.log.append(error.text)

    def add(self, name: str, waiter: int = 0) -> None:
        self.waiters[waiter].add(_Reply(self.log, name))

    def said(self) -> list[str]:
        log = self.log[:]
        self.log.clear()
        return log


def test_replies_wait_for_the_batch_of_their_tick() -> None:
    """A reply is sent once its batch is durable, and not before; then nothing waits."""
    node = _Node()
    node.add("a")
    node.queue.end_tick(1, 0)
    node.add("b")
    node.queue.end_tick(2, 0)
    assert (node.said(), node.queue.is_empty) == ([], False)
    node.queue.on_durable(1)
    assert (node.said(), node.queue.is_empty) == (["a"], False)
    node.queue.on_durable(2)
    assert (node.said(), node.queue.is_empty) == (["b"], True)


def test_a_reply_that_could_go_stays_behind_one_that_waits() -> None:
    """The storage may be further than the waiters know: the order of one client's replies holds all the same."""
    node = _Node()
    node.add("a")
    node.queue.end_tick(1, 0)
    node.add("b")
    node.add("other", 1)
    node.queue.end_tick(1, 1)
    assert node.said() == ["other"]
    node.queue.on_durable(1)
    assert node.said() == ["a", "b"]


def test_a_failure_of_the_storage_fails_all_replies() -> None:
    """Replies of earlier ticks and of this one fail, in their order."""
    node = _Node()
    node.add("a")
    node.queue.end_tick(1, 0)
    node.add("b")
    node.add("c", 1)
    node.queue.fail("no disk")
    assert (node.said(), node.queue.is_empty) == (["a: no disk", "b: no disk", "c: no disk"], True)


def test_a_fault_costs_its_own_client() -> None:
    """A reply that raises is reported, and disconnects its client; others are answered."""
    node = _Node()
    node.add("fault")
    node.add("good", 1)
    node.queue.end_tick(1, 0)
    node.queue.on_durable(1)
    assert node.said() == ["reported fault", "ValueError while answering; see the broker log", "good"]


def test_a_closed_client_is_sent_nothing_but_what_the_end_of_the_tick_has() -> None:
    """Replies of a client that is gone are forgotten; work for the end of its tick is done at once."""
    node = _Node()
    node.add("a")
    node.waiters[0].at_end(_Reply(node.log, "end"))
    node.waiters[0].close()
    assert node.said() == ["end"]
    node.queue.end_tick(1, 1)
    assert (node.said(), node.queue.is_empty) == ([], True)


def test_work_of_the_end_of_a_tick_is_done_after_a_failure() -> None:
    """It depends on no batch; replies that do depend on one fail."""
    node = _Node()
    node.waiters[0].at_end(_Reply(node.log, "end"))
    node.add("a")
    node.queue.fail("disk")
    assert node.said() == ["end", "a: disk"]
