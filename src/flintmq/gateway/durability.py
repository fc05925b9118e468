"""Replies that wait for the disk: confirms of publishers, answers to methods and requests, answers over HTTP.

A batch is what the storage takes at the end of one tick. A reply that depends on a change of this tick waits until the
batch of this tick is durable. All replies of one client have one order, so a reply that depends on nothing waits behind
those that do.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import AmqpError, InternalError


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingReply:
    """A reply to send once everything that came before it is durable."""

    @abstractmethod
    def send(self) -> None: ...

    @abstractmethod
    def fail(self, reason: str) -> None:
        """The storage failed: what came before this reply will never be durable."""


@final
class _Pending:
    """A reply and the batch it waits for."""

    def __init__(self, batch: int, reply: PendingReply) -> None:
        self.batch = batch
        self.reply = reply


class DurabilityWaiter:
    """The replies of one client (a channel, a connection, the HTTP API) that wait for the disk.

    Its life: `add` takes replies during a tick; `end_tick` sends them, or has them wait for the batch of this tick;
    `on_durable` sends those whose batches are durable; `on_failure` fails all; `close` forgets all. `disconnect` ends
    the connection of the client after a fault of the broker.
    """

    def __init__(self, queue: "DurabilityQueue", disconnect: Callable[[AmqpError], None]) -> None:
        self.is_closed = False
        self.is_active = False
        self._queue = queue
        self._disconnect = disconnect
        # Replies of this tick.
        self._added: list[PendingReply] = []
        # Replies of earlier ticks, by rising batch.
        self._pending: deque[_Pending] = deque()
        # Replies for the end of this tick, whatever is durable by then.
        self._at_end: list[PendingReply] = []

    def touch(self) -> None:
        """Have `end_tick` called at the end of this tick."""
        if not self.is_active:
            self.is_active = True
            self._queue.activate(self)

    def add(self, reply: PendingReply) -> None:
        """Send a reply once everything that came before it is durable."""
        self._added.append(reply)
        self.touch()

    def at_end(self, reply: PendingReply) -> None:
        """Send a reply at the end of the tick, whatever is durable by then, even if the client is gone before."""
        self._at_end.append(reply)
        self.touch()

    def send_at_end(self) -> None:
        at_end = self._at_end
        if at_end:
            self._at_end = []
            for reply in at_end:
                reply.send()

    def end_tick(self, batch: int, durable: int) -> bool:
        """End the tick: what came in it becomes durable with `batch`, and batches up to `durable` already are.

        Returns whether a reply has to wait for a batch.
        """
        self.is_active = False
        if self.is_closed:
            return False
        self.send_at_end()
        must_wait = self.release(batch, durable, bool(self._added))
        self.flush()
        return must_wait

    def release(self, batch: int, durable: int, needs_disk: bool) -> bool:
        """Send the replies of this tick, or have them wait. `needs_disk`: they depend on a record of this tick.

        Returns whether any reply waits now.
        """
        added = self._added
        self._added = []
        pending = self._pending
        if not needs_disk or batch <= durable:
            if not pending:
                for reply in added:
                    reply.send()
                return False
            # The replies wait for the batch of the last waiting one, to keep their order.
            batch = pending[-1].batch
        for reply in added:
            pending.append(_Pending(batch, reply))
        return bool(pending)

    def on_durable(self, durable: int) -> bool:
        """Send the replies of all batches up to this one; returns whether any reply still waits."""
        pending = self._pending
        while pending and pending[0].batch <= durable:
            pending.popleft().reply.send()
        self.flush()
        return bool(pending)

    def on_failure(self, reason: str) -> None:
        """The storage failed: nothing that waits for it will become durable."""
        self.is_active = False
        self.send_at_end()
        if self.is_closed:
            return
        for reply in self.take():
            reply.fail(reason)
        self.flush()

    def on_fault(self, error: Exception) -> None:
        """A reply raised an error: close the connection of this client only."""
        self.is_active = False
        self._disconnect(InternalError(f"{type(error).__name__} while answering; see the broker log"))

    def take(self) -> list[PendingReply]:
        """Remove and return all replies that wait, in order."""
        replies = [pending.reply for pending in self._pending] + self._added
        self.forget()
        return replies

    def forget(self) -> None:
        self._added = []
        self._pending.clear()

    def close(self) -> None:
        """Forget all replies, because the client is gone; only those of `at_end` are still sent."""
        self.is_closed = True
        self.forget()
        self.send_at_end()

    def flush(self) -> None:
        """Write collected output after several replies, in subclasses that collect it."""


@final
class DurabilityQueue:
    """All waiters of a node: tells them of the end of each tick, and of the progress of the storage.

    `report` is called with errors that replies raised.
    """

    def __init__(self, report: Callable[[Exception], None]) -> None:
        self._report = report
        # Waiters with replies of this tick.
        self._active: list[DurabilityWaiter] = []
        # Waiters with replies that wait for a batch.
        self._waiting: dict[DurabilityWaiter, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no reply waits for a batch."""
        return not self._waiting and not self._active

    def activate(self, waiter: DurabilityWaiter) -> None:
        self._active.append(waiter)

    def end_tick(self, batch: int, durable: int) -> None:
        """End the tick: its changes are in `batch`, and the disk has all batches up to `durable`."""
        active = self._active
        if not active:
            return
        self._active = []
        for waiter in active:
            try:
                if waiter.end_tick(batch, durable):
                    self._waiting[waiter] = None
            except Exception as error:  # noqa: BLE001 - whatever it is
                self._at_fault(waiter, error)

    def on_durable(self, durable: int) -> None:
        """Send the replies that waited for batches up to `durable`, which are on the disk."""
        for waiter in list(self._waiting):
            try:
                if not waiter.on_durable(durable):
                    del self._waiting[waiter]
            except Exception as error:  # noqa: BLE001 - whatever it is
                del self._waiting[waiter]
                self._at_fault(waiter, error)

    def fail(self, reason: str) -> None:
        """The storage failed for good: all replies fail."""
        concerned = {**self._waiting, **dict.fromkeys(self._active)}
        self._waiting = {}
        self._active = []
        for waiter in concerned:
            try:
                waiter.on_failure(reason)
            except Exception as error:  # noqa: BLE001 - whatever it is
                self._at_fault(waiter, error)

    def _at_fault(self, waiter: DurabilityWaiter, error: Exception) -> None:
        """Report an error of a waiter, and end that waiter, so that the others still get their replies."""
        self._report(error)
        waiter.on_fault(error)
