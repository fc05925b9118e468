"""Lifetime policies: queues that are deleted with their links, their messages or both (amqp-1.0 §3.5.10 to §3.5.13).

A link counts from `open` to `close`, also while it is suspended; the first one is the creator of the queue. Consumers
of other protocols count as links. A message counts until it is settled, also while it is acquired.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.broker.arguments import ON_CLOSE, ON_NO_LINKS_OR_MESSAGES, ON_NO_MESSAGES
from flintmq.broker.message import Entry
from flintmq.broker.queue.features import COMING, SETTLEMENT, Feature


@final
class Lifetime(Feature):
    """The lifetime of a queue by its `policy`. `end` is called each time that the policy may want the queue deleted."""

    def __init__(self, policy: str, has_consumers: Callable[[], bool], end: Callable[[], None]) -> None:
        self.policy = policy
        self._has_consumers = has_consumers
        self._end = end
        # Whether the queue is kept as long as it has messages.
        self._counts = policy == ON_NO_MESSAGES or policy == ON_NO_LINKS_OR_MESSAGES
        self._of_creator = policy == ON_CLOSE or policy == ON_NO_MESSAGES
        self._creator: object | None = None
        # Whether a link was opened, or a restart is over: the queue is not deleted before.
        self._has_begun = False
        self._links: dict[object, None] = {}
        self._messages: i64 = 0

    def open(self, link: object) -> None:
        """Count a link whose source or target is the queue."""
        if not self._has_begun:
            self._has_begun = True
            self._creator = link
        self._links[link] = None

    def close(self, link: object) -> None:
        """Stop counting a link that is over."""
        self._links.pop(link, None)
        if self._creator is link:
            self._creator = None
        self.check()

    def hears(self) -> int:
        return COMING | SETTLEMENT if self._counts else 0

    def taken(self, entry: Entry, now_ms: i64) -> None:
        self._messages += 1

    def restored(self, entry: Entry, is_outside: bool) -> None:
        self._messages += 1

    def settled(self, entry: Entry) -> None:
        self._messages -= 1
        if self._messages == 0:
            self.check()

    def restart(self) -> None:
        """End the recovery: all suspended links are restored, and no others will come back."""
        self._has_begun = True
        self.check()

    def check(self) -> None:
        """Call `end` if the policy wants the queue deleted now; that may change until the end of the tick."""
        if self.is_over:
            self._end()

    @property
    def is_over(self) -> bool:
        """Whether the queue is to be deleted, as far as links, consumers and messages are concerned."""
        if not self._has_begun or (self._counts and self._messages > 0):
            return False
        if self._of_creator:
            return self._creator is None
        return not self._links and not self._has_consumers()
