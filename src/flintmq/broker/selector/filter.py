"""The interface of conditions on messages, which bindings and consumers share."""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Filter:
    """A condition on messages.

    `cost` is the work of matching a message of the usual size, in units. `matches` adds the work that it did to the
    meter.
    """

    cost: i64 = 1

    @abstractmethod
    def matches(self, message: Message) -> bool: ...
