"""x-delayed-message (RabbitMQ's plugin): routes by another type, `x-delayed-type`, once a message's time has come.

A message whose header `x-delay` is a positive number of milliseconds goes to a queue that holds what is not due. When
it is, it is routed by the bindings of that moment; all others are routed at once. One that cancels another goes where
that is held.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue

DELAYED_TYPE: Final = "x-delayed-type"


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiting:
    """Keeps messages for delayed exchanges until they are due, as safe as their persistence asks for."""

    @abstractmethod
    def make(self, exchange: "DelayedExchange") -> Queue:
        """The queue that holds what this exchange gets too early, made with the exchange."""

    @abstractmethod
    def ended(self, exchange: "DelayedExchange") -> None:
        """The exchange is deleted, and with it what it still holds."""


@final
class DelayedExchange(Exchange):
    """`underlying` knows the same bindings and says where a message goes that is due."""

    type = "x-delayed-message"
    per_message = True

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        underlying: Exchange,
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        self.underlying = underlying
        self.asks_all = underlying.asks_all
        self.waiting: Queue | None = None
        underlying.bindings = self.bindings

    def check(self) -> None:
        self.underlying.check()

    def check_binding(self, binding: Binding) -> None:
        self.underlying.check_binding(binding)

    def asking_beside(self, binding: Binding) -> i64:
        return self.asking if self.asks_all else self.underlying.asking_beside(binding)

    def asking_cost(self, binding: Binding) -> i64:
        return self.underlying.asking_cost(binding)

    def history(self) -> list[Message]:
        return self.underlying.history()

    def add(self, binding: Binding) -> None:
        self.underlying.add(binding)

    def remove(self, binding: Binding) -> None:
        self.underlying.remove(binding)

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        assert message is not None
        options = message.options
        if self.waiting is not None and (options.delay_ms > 0 or options.until_ms > 0 or options.is_command):
            return [Binding(self, self.waiting, keys[0], {})]
        return self.underlying.match(keys, message)
