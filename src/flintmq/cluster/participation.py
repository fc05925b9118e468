"""A node in its cluster until it is to stop: it follows others, and is a broker as long as it leads."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, final

from flintmq.base.errors import FlintError, StorageError
from flintmq.cluster.coordinator import CoordinatorError
from flintmq.cluster.membership import Membership
from flintmq.cluster.term import NotLeading, Term
from flintmq.server import logs

log = logs.get_logger()

# After a start that failed, another node has time to lead.
_RETRY_SECONDS: Final = 1.0
# A node whose broker does not stop could not follow: its process ends, and is to be started again.
_STOP_SECONDS: Final = 30.0


class Serving:
    """The broker of a node in one term."""

    @abstractmethod
    async def start(self) -> None:
        """Recover, and accept clients. Raises NotLeading if the term ends meanwhile, and other FlintErrors."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop, whether it was started or not. The storage is closed then."""


@final
class Participation:
    """The part of a node in its cluster, until the task `stop` is done. `broker` makes the broker of a term.

    Attributes:
        on_follow: Called before this node follows, and stands for election.
        on_lead, on_resigned: Called when it was elected, before the broker is made, and when it leads no longer.
    """

    def __init__(self, membership: Membership, stop: "asyncio.Task[Any]", broker: Callable[[Term], Serving]) -> None:
        self.on_follow: Callable[[], object] = lambda: None
        self.on_lead: Callable[[], object] = lambda: None
        self.on_resigned: Callable[[], object] = lambda: None
        self._membership = membership
        self._stop = stop
        self._broker = broker

    async def join(self) -> None:
        """Join the cluster, unless it is time to stop. Raises FlintError if that is not possible."""
        await self._first(asyncio.create_task(self._membership.start()))

    async def run(self) -> None:
        """Follow and lead by turns. Raises FlintError if the broker cannot start or stop."""
        while not self._stop.done():
            self.on_follow()
            elected = asyncio.create_task(self._membership.until_elected())
            if await self._first(elected):
                self.on_lead()
                await self._lead(elected.result())
                self.on_resigned()

    async def _first(self, work: "asyncio.Task[Any]") -> bool:
        """Wait for work, unless it is time to stop. Returns whether it was done. Raises what it raises."""
        await asyncio.wait([work, self._stop], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
            return True
        work.cancel()
        await asyncio.wait([work])
        return False

    async def _lead(self, number: int) -> None:
        """Be the broker of the cluster until the term ends, or it is time to stop."""
        try:
            term = await self._membership.lead(number)
        except (CoordinatorError, StorageError, OSError) as error:
            log.warning("this node cannot lead", reason=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
            return
        broker = self._broker(term)
        stopping = asyncio.create_task(self._end_with_stop(term))
        try:
            await broker.start()
            await term.until_end()
        except NotLeading as error:
            log.warning("not started", reason=str(error))
        except StorageError as error:
            term.failed(str(error))
            raise
        finally:
            stopping.cancel()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await broker.stop()
            except TimeoutError:
                raise FlintError(f"the broker has not stopped within {_STOP_SECONDS:g} s: start it again") from None
            await self._membership.resign(term)

    async def _end_with_stop(self, term: Term) -> None:
        await asyncio.wait([self._stop])
        term.end("shutdown", is_handed_over=True)
