"""A condition on messages, beside what the type of an exchange compares."""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Filter:
    """A condition on messages, of a binding or a consumer.

    `cost` is the work of matching a message of the usual size, in units. `matches` adds the work that it did to the
    meter.
    """

    cost: i64 = 1

    @abstractmethod
    def matches(self, message: Message) -> bool: ...
