"""What a connection owes its peer once the storage has it: outcomes of what was published, and answers."""

from abc import abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import ResourceLimitExceeded
from flintmq.broker.counters.traffic import Traffic
from flintmq.protocol.amqp10.delivery import IncomingDelivery
from flintmq.wire.amqp10.states import Error, Rejected

# What counters call this protocol.
PROTOCOL: Final = "amqp10"


@mypyc_attr(allow_interpreted_subclasses=True)
class Answer:
    """Something to say when what came before it is safe."""

    @abstractmethod
    def give(self) -> None: ...

    @abstractmethod
    def fail(self, reason: str) -> None:
        """It will not become safe: the storage failed."""


@final
class _Promise:
    def __init__(self, batch: i64, stored: list[IncomingDelivery], answers: list[Answer]) -> None:
        self.batch: i64 = batch
        self.stored = stored
        self.answers = answers


@final
class Promises:
    """Deliveries that are `stored` are accepted once the batch of their tick is durable, and `answers` given."""

    def __init__(self) -> None:
        self.stored: list[IncomingDelivery] = []
        self.answers: list[Answer] = []
        # Of the virtual host, once the connection is in one.
        self.traffic = Traffic()
        self._waiting: deque[_Promise] = deque()

    def end_tick(self, batch: i64, durable: i64) -> bool:
        """What came in this tick is safe with `batch`; True when something waits for a batch."""
        if self.stored or self.answers:
            promise = _Promise(batch, self.stored, self.answers)
            self.stored = []
            self.answers = []
            if batch > durable:
                self._waiting.append(promise)
            else:
                self._keep(promise)
        return bool(self._waiting)

    def on_durable(self, durable: i64) -> bool:
        """Keep the promises of batches up to this one; True while there are more to wait for."""
        waiting = self._waiting
        while waiting and waiting[0].batch <= durable:
            self._keep(waiting.popleft())
        return bool(waiting)

    def _keep(self, promise: _Promise) -> None:
        self.traffic.confirmed += len(promise.stored)
        if promise.stored:
            self.traffic.inflow_of(PROTOCOL).confirmed += len(promise.stored)
        for delivery in promise.stored:
            delivery.link.accept_delivery(delivery)
        for answer in promise.answers:
            answer.give()

    def take(self) -> tuple[list[IncomingDelivery], list[Answer]]:
        """All of them, none of which will be kept."""
        stored = self.stored
        answers = self.answers
        for promise in self._waiting:
            stored = stored + promise.stored
            answers = answers + promise.answers
        self.forget()
        return stored, answers

    def forget(self) -> None:
        self.stored = []
        self.answers = []
        self._waiting.clear()


def refuse_unsafe(delivery: IncomingDelivery, reason: str) -> None:
    """The storage has failed for good, and what was published with it."""
    text = f"nothing durable can be stored: {reason}"
    error = Error(condition=ResourceLimitExceeded.condition, description=text)
    delivery.link.settle(delivery, Rejected(error=error))
