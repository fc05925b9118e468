"""The handlers of methods, as a table that the handlers register themselves in."""

from collections.abc import Callable
from typing import TypeVar, cast, final

from flintmq.gateway.amqp091.channel import MethodHandler, ServerChannel
from flintmq.wire.amqp091.methods import Method

M = TypeVar("M", bound=Method)


@final
class Handlers:
    """The handlers of a module, by the number of the method."""

    def __init__(self) -> None:
        self.by_method: dict[int, MethodHandler] = {}

    def handles(
        self, method: type[M], changes: Callable[[ServerChannel, M], str] | None = None, names: tuple[str, ...] = ()
    ) -> Callable[[Callable[[ServerChannel, M], None]], Callable[[ServerChannel, M], None]]:
        """Register the decorated function for this method. The other arguments are those of `MethodHandler`."""

        def register(handle: Callable[[ServerChannel, M], None]) -> Callable[[ServerChannel, M], None]:
            self.by_method[method.id] = MethodHandler(
                cast("Callable[[ServerChannel, Method], None]", handle),
                cast("Callable[[ServerChannel, Method], str] | None", changes),
                names,
            )
            return handle

        return register
