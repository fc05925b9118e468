"""Which priorities of messages a queue tells apart."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.message import UNSTATED, MessageOptions, Table

# amqp-0-9-1 §1.1.1: priorities of messages are 0 to 9.
_SPECIFIED_HIGHEST: Final = 9
# RabbitMQ 4.3: a quorum queue tells 0 to 31 apart, and takes a message that states no priority for one of 4.
_QUORUM_HIGHEST: Final = 31
_QUORUM_UNSTATED: Final = 4


@final
class Levels:
    """Levels 0 to `highest`, of which the highest is delivered first; a message without a priority is `unstated`.

    With 0 for `highest`, all messages are of one level: the queue is FIFO.
    """

    def __init__(self, highest: i64, unstated: i64 = 0) -> None:
        self.highest: i64 = highest
        self.unstated: i64 = unstated
        # Up to this priority, messages are at the level of those without one: nothing is to be done for them.
        self.plain: i64 = UNSTATED if unstated > 0 else 0

    def of(self, options: MessageOptions) -> i64:
        """The level of messages that are to be handled so."""
        return self.unstated if options.priority == UNSTATED else options.level(self.highest)


def levels_of(kind: str, arguments: Table, ranks_all: bool) -> Levels:
    """What a queue was declared to tell apart; `ranks_all` is the specification's rule, for queues that do not say."""
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int) and not isinstance(highest, bool):
        return Levels(i64(highest))
    if ranks_all:
        return Levels(_SPECIFIED_HIGHEST)
    return Levels(_QUORUM_HIGHEST, _QUORUM_UNSTATED) if kind == "quorum" else Levels(0)
