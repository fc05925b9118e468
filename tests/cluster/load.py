"""Publishers and consumers of a cluster, and what became of the messages."""

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Protocol, Self

from tests.cluster.ledger import Ledger
from tests.cluster.nodes import Cluster
from tests.cluster.with_pika import EXCHANGE, KEPT, LIVE, PikaConsumer, PikaPublisher
from tests.cluster.with_spark import PIPED, SparkPipeline

_RATE: Final = 500
# What has not come after so long without any delivery does not come. Where Spark passes it on, Spark may have to start
# again first.
_SILENCE_SECONDS: Final = 15
_SPARK_SILENCE_SECONDS: Final = 120


class Publisher(Protocol):
    """`is_paused` may be set at any time."""

    is_paused: bool

    @property
    def is_waiting(self) -> bool:
        """Whether something that was published is to be confirmed."""

    def start(self) -> None: ...

    def end(self) -> None: ...


class Load:
    """Runs within a `with` block. `others` are publishers beside the one with pika; `pipeline` passes all on."""

    def __init__(
        self, cluster: Cluster, ledger: Ledger, *others: Publisher, pipeline: SparkPipeline | None = None
    ) -> None:
        self.ledger = ledger
        self._pipeline = pipeline
        self._cluster = cluster
        pika = PikaPublisher(cluster.background, cluster.ports.values(), ledger, _RATE)
        self._publishers = [pika, *others]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # What comes before there are all queues would be lost.
        connection = self._cluster.connect()
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "fanout", durable=True)
        for queue in (LIVE, KEPT):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, EXCHANGE)
        connection.close()
        for publisher in self._publishers:
            publisher.start()
            self._stack.callback(publisher.end)
        self._stack.callback(self._consume(LIVE).end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def drain(self) -> None:
        """Publish no more, and wait until all that was confirmed has been delivered, or nothing comes any more."""
        self._pause(True)
        late = [self._consume(queue) for queue in ((KEPT, PIPED) if self._pipeline else (KEPT,))]
        silence = _SPARK_SILENCE_SECONDS if self._pipeline else _SILENCE_SECONDS
        began = time.monotonic()
        while any(publisher.is_waiting for publisher in self._publishers) or self.ledger.lost:
            if time.monotonic() - max(began, self.ledger.last_delivery) > silence:
                break
            if self._pipeline:
                self._pipeline.tend()
            time.sleep(0.1)
        for consumer in late:
            consumer.end()

    def go_on(self) -> None:
        """Publish again."""
        self._pause(False)

    def _pause(self, is_paused: bool) -> None:
        for publisher in self._publishers:
            publisher.is_paused = is_paused

    def _consume(self, queue: str) -> PikaConsumer:
        consumer = PikaConsumer(self._cluster.background, self._cluster.ports.values(), self.ledger, queue)
        consumer.start()
        return consumer
