"""Priority levels: the priorities of messages that a queue distinguishes."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import UNSTATED, MessageOptions, Table

# Priorities of messages are 0 to 9 (amqp-0-9-1 §1.1.1).
_SPECIFIED_HIGHEST: Final = 9
# A quorum queue distinguishes priorities 0 to 31, and a message without one has priority 4 (RabbitMQ 4.3).
_QUORUM_HIGHEST: Final = 31
_QUORUM_UNSTATED: Final = 4


@final
class Levels:
    """Levels 0 to `highest`, which is delivered first. `unstated` is the level of messages without a priority.

    If `highest` is 0, all messages have one level: the queue is FIFO.
    """

    def __init__(self, highest: i64, unstated: i64 = 0) -> None:
        self.highest: i64 = highest
        self.unstated: i64 = unstated
        # Messages up to this priority have the same level as those without one, and need no ranking.
        self.plain: i64 = UNSTATED if unstated > 0 else 0

    def of(self, options: MessageOptions) -> i64:
        """The level of a message with these options."""
        return self.unstated if options.priority == UNSTATED else options.level(self.highest)


def levels_of(kind: str, arguments: Table, ranks_all: bool) -> Levels:
    """The levels of a queue. `ranks_all`: a queue without x-max-priority has those of the specification."""
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int) and not isinstance(highest, bool):
        return Levels(i64(highest))
    if ranks_all:
        return Levels(_SPECIFIED_HIGHEST)
    return Levels(_QUORUM_HIGHEST, _QUORUM_UNSTATED) if kind == "quorum" else Levels(0)
