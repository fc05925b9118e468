"""Answers about all there is, so many at a time: each of them is memory until its client has read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

from flintmq.base.limits import HTTP_WHOLE_EACH_MAX, HTTP_WHOLE_MAX, HTTP_WHOLE_WAIT_SECONDS
from flintmq.management.errors import ServiceUnavailable

# Of lists and definitions, and of metrics: neither waits for the other.
LISTS: Final = "lists"
METRICS: Final = "metrics"
# What there is no room beside.
_YOURS: Final = f"{HTTP_WHOLE_EACH_MAX} of your answers"
_ALL: Final = f"{HTTP_WHOLE_MAX} answers"


@final
class AnswerLimit:
    """Whoever comes while all of them are taken waits, first come, first served: clients count on an answer.

    Nobody has more than a few: who asks for many, or reads them slowly, waits for its own.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(HTTP_WHOLE_MAX)
        # By who has some, or waits for one.
        self._own: dict[str, _CallerLimit] = {}

    @asynccontextmanager
    async def acquire(self, who: str) -> AsyncIterator[None]:
        """Raises ServiceUnavailable where there is none in time."""
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
        raise ServiceUnavailable(f"{whose} about all there is are being made and read: ask again later") from error
    try:
        yield
    finally:
        free.release()
