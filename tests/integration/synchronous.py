"""The asyncio client under the blocking one's signatures, so that one test holds for both."""

import asyncio
import inspect
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self


class Synchronous:
    """Every coroutine of `inner` is run to its end, and every asynchronous iterator step by step."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401 - any object of the client
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the client has there
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*arguments: object, **named: object) -> object:
            return self._finish(value(*map(_inner, arguments), **{key: _inner(each) for key, each in named.items()}))

        return call

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._inner.__aexit__(kind, error, trace))

    def _finish(self, result: Any) -> object:  # noqa: ANN401
        if inspect.isasyncgen(result):
            return self._steps(result)
        if inspect.iscoroutine(result):
            return self._wrapped(self._loop.run_until_complete(result))
        return result

    def _steps(self, iterator: Any) -> Iterator[object]:  # noqa: ANN401
        try:
            while True:
                try:
                    item = self._loop.run_until_complete(anext(iterator))
                except StopAsyncIteration:
                    return
                yield self._wrapped(item)
        finally:
            self._loop.run_until_complete(iterator.aclose())

    def _wrapped(self, value: Any) -> object:  # noqa: ANN401
        is_client = type(value).__module__ in ("flintmq.client.aio", "flintmq.client.amqp10.aio")
        return Synchronous(value, self._loop) if is_client else value


def _inner(value: object) -> object:
    return value._inner if isinstance(value, Synchronous) else value
