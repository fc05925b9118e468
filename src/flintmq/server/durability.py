"""Futures that are done when changes are durable, for callers that are not AMQP connections."""

import asyncio
from typing import final

from flintmq.base.errors import AmqpError, StorageFenced
from flintmq.gateway.durability import DurabilityQueue, DurabilityWaiter, PendingReply
from flintmq.server.schedule import TickSchedule


@final
class DurabilityFutures:
    """Futures wait first for the end of the tick, which gives their changes a batch, and then for the batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: DurabilityQueue, schedule: TickSchedule) -> None:
        self._loop = loop
        self._schedule = schedule
        self._waiter = DurabilityWaiter(queue, self._disconnect)

    def create(self) -> "asyncio.Future[None]":
        """Return a future for all changes until now. It fails with StorageFenced when the storage fails."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiter.add(_FutureReply(future))
        self._schedule.request()
        return future

    def _disconnect(self, error: AmqpError) -> None:
        """Let the waiting futures fail after an internal error."""
        self._waiter.on_failure(error.reply_text)


@final
class _FutureReply(PendingReply):
    """The result of a future. A future that is done belongs to a caller that was cancelled."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def send(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def fail(self, reason: str) -> None:
        if not self._future.done():
            self._future.set_exception(StorageFenced(reason))
