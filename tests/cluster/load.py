"""A publisher and a consumer of a cluster, and what became of the messages."""

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from tests.cluster.ledger import Ledger
from tests.cluster.nodes import Cluster
from tests.cluster.with_pika import KEPT, LIVE, Consumer, PikaClient, Publisher

_RATE: Final = 500
# What has not come after so long without any delivery does not come.
_SILENCE_SECONDS: Final = 15


class Load:
    """Runs within a `with` block."""

    def __init__(self, cluster: Cluster) -> None:
        self.ledger = Ledger(LIVE, KEPT)
        ports = cluster.ports.values()
        self._publisher = Publisher(cluster.background, ports, self.ledger, _RATE)
        self._consumer = Consumer(cluster.background, ports, self.ledger, LIVE)
        self._late_consumer = Consumer(cluster.background, ports, self.ledger, KEPT)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._start(self._publisher)
        self._start(self._consumer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def drain(self) -> None:
        """Publish no more, and wait until all that was confirmed has been delivered, or nothing comes any more."""
        self._publisher.stop_publishing()
        self._start(self._late_consumer)
        began = time.monotonic()
        while self._publisher.is_waiting or self.ledger.lost:
            last = max(began, self.ledger.last_delivery(LIVE), self.ledger.last_delivery(KEPT))
            if time.monotonic() - last > _SILENCE_SECONDS:
                return
            time.sleep(0.1)

    def _start(self, client: PikaClient) -> None:
        client.start()
        self._stack.callback(client.end)
