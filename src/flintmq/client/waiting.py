"""What a client waits for: the core makes it ready, and a driver (blocking or asyncio) waits in its own way."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast, final

from flintmq.base.errors import FlintError
from flintmq.wire.amqp091.methods import Method

T = TypeVar("T")


class Waitable:
    """Not ready until something arrives, or until it never will: then `error` says why.

    `wake` belongs to whoever waits; it is called once, when this gets ready.
    """

    def __init__(self) -> None:
        self.is_ready = False
        self.error: FlintError | None = None
        self.wake: Callable[[], None] | None = None

    def ready(self) -> None:
        self.is_ready = True
        wake = self.wake
        if wake is not None:
            self.wake = None
            wake()

    def fail(self, error: FlintError) -> None:
        self.error = error
        self.ready()


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
        error = self.error
        if error is not None:
            raise error.with_traceback(None)
        return cast(T, self._result)
