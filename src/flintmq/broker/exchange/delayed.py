"""x-delayed-message (RabbitMQ's plugin): routes by the type in `x-delayed-type` once a message is due.

A message whose header `x-delay` is a positive number of milliseconds goes to a queue that holds it until it is due, and
is then routed by the bindings of that moment. All other messages are routed at once. A message that cancels another one
goes to the queue that holds it.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.message import Message, Table
from flintmq.broker.queue.base import Queue

# The argument that names the type of the underlying exchange.
UNDERLYING_TYPE: Final = "x-delayed-type"


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedQueues:
    """Holds messages of delayed exchanges until they are due, as durably as the messages are persistent."""

    @abstractmethod
    def make(self, exchange: "DelayedExchange") -> Queue:
        """Create the queue that holds the messages of a new exchange."""

    @abstractmethod
    def exchange_deleted(self, exchange: "DelayedExchange") -> None:
        """Delete the queue of a deleted exchange, with the messages in it."""


@final
class DelayedExchange(Exchange):
    """An exchange that delays messages. `underlying` matches the same bindings and routes the due ones."""

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
        self.compares_all = underlying.compares_all
        self.picks_one = underlying.picks_one
        self.delayed_queue: Queue | None = None

    def check(self) -> None:
        self.underlying.check()

    def check_binding(self, binding: Binding) -> None:
        self.underlying.check_binding(binding)

    def match_cost_beside(self, binding: Binding) -> i64:
        return self.match_costs if self.compares_all else self.underlying.match_cost_beside(binding)

    def match_cost(self, binding: Binding) -> i64:
        return self.underlying.match_cost(binding)

    def history(self) -> list[Message]:
        return self.underlying.history()

    def add(self, binding: Binding) -> None:
        self.underlying.add(binding)

    def remove(self, binding: Binding) -> None:
        self.underlying.remove(binding)

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        assert message is not None
        options = message.options
        if self.delayed_queue is not None and (options.delay_ms > 0 or options.until_ms > 0 or options.is_command):
            return [Binding(self, self.delayed_queue, keys[0], {})]
        return self.underlying.match(keys, message)
