"""Events that a client waits for: the protocol side makes them ready, and a driver (blocking or asyncio) waits for
them.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast, final

from flintmq.base.errors import FlintError
from flintmq.wire.amqp091.methods import Method

M = TypeVar("M", bound=Method)

# A request may take this long, because the server may have to wait for its disk.
REQUEST_SECONDS: Final = 60.0


class Waitable:
    """An event: not ready until it happens, or until it is certain never to happen. Then, `error` has the reason."""

    def __init__(self) -> None:
        self.is_ready: bool = False
        self.error: FlintError | None = None
        self._wakers: list[Callable[[], None]] = []

    def when_ready(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when this becomes ready, unless `forget` is called before."""
        self._wakers.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` any more."""
        if wake in self._wakers:
            self._wakers.remove(wake)

    def ready(self) -> None:
        """Make this ready, and call all functions that wait for it."""
        self.is_ready = True
        if self._wakers:
            wakers = self._wakers
            self._wakers = []
            for wake in wakers:
                wake()

    def unready(self) -> None:
        """Make this not ready, so that it can be waited for again."""
        self.is_ready = False

    def renew(self) -> None:
        """Make this not ready, and forget its error, because it may happen after all."""
        self.error = None
        self.is_ready = False

    def fail(self, error: FlintError) -> None:
        """Make this ready with an error: it will never happen."""
        self.error = error
        self.ready()

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error.with_traceback(None)


@final
class Answer(Generic[M]):
    """The method that answers a request, and its encoded properties and body if it has content."""

    def __init__(self, method: M, properties: bytes = b"", body: bytes = b"") -> None:
        self.method = method
        self.properties = properties
        self.body = body


@final
class Request(Waitable, Generic[M]):
    """A method that the server answers, and the types of the methods that may answer it."""

    def __init__(self, method: Method, *answers: type[M]) -> None:
        super().__init__()
        self.method = method
        self.answers = answers
        self._answer: Answer[M] | None = None

    def answer(self, answer: Answer[M]) -> None:
        """Take the server's answer, and become ready."""
        self._answer = answer
        self.ready()

    def result(self) -> Answer[M]:
        """Return the answer, once this is ready. Raises what ended the channel before the answer."""
        self.check()
        return cast("Answer[M]", self._answer)
