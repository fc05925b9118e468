"""x-recent-history (RabbitMQ): fanout that also sends the last messages to each new binding's destination.

The history is in memory and ends with the broker.
"""

from collections import deque
from typing import Final, final

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import RECENT_HISTORY_MAX_MESSAGES
from flintmq.broker.exchange.base import Binding, Exchange
from flintmq.broker.fields import headers_of
from flintmq.broker.message import Message, Table

_LENGTH: Final = "x-recent-history-length"
# RabbitMQ's default.
_DEFAULT_MESSAGES: Final = 20


@final
class RecentHistoryExchange(Exchange):
    type = "x-recent-history"
    per_message = True

    def __init__(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        super().__init__(vhost, name, durable, auto_delete, internal, arguments)
        length = arguments.get(_LENGTH, _DEFAULT_MESSAGES)
        self._length = length if isinstance(length, int) else _DEFAULT_MESSAGES
        self._recent: deque[Message] = deque()
        self.compares_all = True
        self._all: dict[Binding, None] = {}

    def check(self) -> None:
        length = self.arguments.get(_LENGTH, _DEFAULT_MESSAGES)
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise PreconditionFailed(f"Invalid argument {length}, '{_LENGTH}' must be a positive integer")
        if length > RECENT_HISTORY_MAX_MESSAGES:
            raise PreconditionFailed(f"Invalid argument {length}, '{_LENGTH}' is {RECENT_HISTORY_MAX_MESSAGES} at most")

    def history(self) -> list[Message]:
        return list(self._recent)

    def add(self, binding: Binding) -> None:
        self._all[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._all[binding]

    def match(self, keys: list[str], message: Message | None) -> list[Binding]:
        assert message is not None
        if headers_of(message).get("x-recent-history-no-store") is not True:
            self._recent.append(message)
            if len(self._recent) > self._length:
                self._recent.popleft()
        return list(self._all)
