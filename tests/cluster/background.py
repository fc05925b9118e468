"""An event loop on a thread of its own, beside tests that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.waiting import WAIT_SECONDS

T = TypeVar("T")


class Background:
    """Runs `loop` within a `with` block."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for its end. Raises TimeoutError if it does not come."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_SECONDS)

    def call(self, work: Callable[[], None]) -> None:
        """Call a function on the loop, and wait until it has returned."""

        async def calls() -> None:
            work()

        self.run(calls())

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
