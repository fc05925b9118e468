"""Futures that are done when changes are durable: for callers that are no AMQP connections."""

import asyncio
from typing import final

from flintmq.base.errors import StorageFenced
from flintmq.broker.ports import Storage
from flintmq.server.schedule import TickSchedule


@final
class DurabilityFutures:
    """Futures wait first for the end of the tick, which gives their changes a batch, and then for the batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, storage: Storage, schedule: TickSchedule) -> None:
        self._loop = loop
        self._schedule = schedule
        self._storage = storage
        self._changed: list[asyncio.Future[None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def create(self) -> "asyncio.Future[None]":
        """Return a future for all changes until now. It fails with StorageFenced when the storage fails."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._changed.append(future)
        self._schedule.request()
        return future

    def end_tick(self, batch: int) -> None:
        """All changes of the tick are in this batch."""
        if self._changed:
            self._waiting += [(batch, future) for future in self._changed]
            self._changed = []
            self.settle()

    def settle(self) -> None:
        """Complete the futures whose batch and definitions are durable, or all of them when the storage has failed."""
        if not self._waiting:
            return
        waiting = self._waiting
        self._waiting = []
        failure = self._storage.failure
        durable = self._storage.durable_batch
        for batch, future in waiting:
            if future.done():
                # The caller was cancelled.
                continue
            if batch <= durable and self._storage.definitions_durable:
                future.set_result(None)
            elif failure:
                future.set_exception(StorageFenced(failure))
            else:
                self._waiting.append((batch, future))
