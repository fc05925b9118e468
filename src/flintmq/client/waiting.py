"""What a client waits for: the core makes it ready, and a driver (blocking or asyncio) waits in its own way."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast, final

from flintmq.base.errors import FlintError
from flintmq.wire.amqp091.methods import Method

T = TypeVar("T")

# How long a request may take: the server may have a disk to wait for.
REQUEST_SECONDS: Final = 60.0


class Waitable:
    """Not ready until something arrives, or until it never will: then `error` says why."""

    def __init__(self) -> None:
        self.is_ready: bool = False
        self.error: FlintError | None = None
        self._wakers: list[Callable[[], None]] = []

    def when_ready(self, wake: Callable[[], None]) -> None:
        """`wake` is called once, when this gets ready, unless it is forgotten before."""
        self._wakers.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        if wake in self._wakers:
            self._wakers.remove(wake)

    def ready(self) -> None:
        self.is_ready = True
        if self._wakers:
            wakers = self._wakers
            self._wakers = []
            for wake in wakers:
                wake()

    def unready(self) -> None:
        """To be waited for again."""
        self.is_ready = False

    def renew(self) -> None:
        """The same, and what kept it from happening is over."""
        self.error = None
        self.is_ready = False

    def fail(self, error: FlintError) -> None:
        self.error = error
        self.ready()

    def check(self) -> None:
        """Raises what kept it from happening."""
        if self.error is not None:
            raise self.error.with_traceback(None)


@final
class Answer:
    """A method that answers a request; its encoded properties and its body, where it has content."""

    def __init__(self, method: Method, properties: bytes = b"", body: bytes = b"") -> None:
        self.method = method
        self.properties = properties
        self.body = body


@final
class Request(Waitable, Generic[T]):
    """A method that the server answers, and how to read the answer."""

    def __init__(self, method: Method, answers: tuple[type[Method], ...], convert: Callable[[Answer], T]) -> None:
        super().__init__()
        self.method = method
        self.answers = answers
        self._convert = convert
        self._result: T | None = None

    def answer(self, answer: Answer) -> None:
        self._result = self._convert(answer)
        self.ready()

    def result(self) -> T:
        """The answer, once this is ready. Raises what ended the channel before it came."""
        self.check()
        return cast(T, self._result)
