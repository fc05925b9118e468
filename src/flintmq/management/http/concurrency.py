"""Limit of concurrent large answers: each takes memory until its client has read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

from flintmq.base.limits import HTTP_WHOLE_EACH_MAX, HTTP_WHOLE_MAX, HTTP_WHOLE_WAIT_SECONDS
from flintmq.management.errors import ServiceUnavailable

# The groups of large answers: lists and definitions, and metrics. Each group has its own limit.
LISTS: Final = "lists"
METRICS: Final = "metrics"
# The subject of the error message, for the limit per caller and for the total limit.
_YOURS: Final = f"{HTTP_WHOLE_EACH_MAX} of your answers"
_ALL: Final = f"{HTTP_WHOLE_MAX} answers"


@final
class AnswerLimit:
    """A limit of concurrent answers. Callers beyond it wait, first come, first served.

    Each caller has a limit of its own, so that one that asks for many answers, or reads them slowly, waits only for its
    own.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(HTTP_WHOLE_MAX)
        # The limits of callers that hold an answer or wait for one.
        self._own: dict[str, _CallerLimit] = {}

    @asynccontextmanager
    async def acquire(self, who: str) -> AsyncIterator[None]:
        """Hold one answer for a caller. Raises ServiceUnavailable if none is free in time."""
        own = self._own.setdefault(who, _CallerLimit())
        own.asked += 1
        try:
            deadline = asyncio.get_running_loop().time() + HTTP_WHOLE_WAIT_SECONDS
            async with _in_time(own.free, _YOURS, deadline), _in_time(self._free, _ALL, deadline):
                yield
        finally:
            own.asked -= 1
            if not own.asked:
                del self._own[who]


@final
class _CallerLimit:
    def __init__(self) -> None:
        self.free = asyncio.Semaphore(HTTP_WHOLE_EACH_MAX)
        self.asked = 0


@asynccontextmanager
async def _in_time(free: asyncio.Semaphore, whose: str, deadline: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(deadline):
            await free.acquire()
    except TimeoutError as error:
        raise ServiceUnavailable(f"{whose} about many objects are still being sent: try again later") from error
    try:
        yield
    finally:
        free.release()
