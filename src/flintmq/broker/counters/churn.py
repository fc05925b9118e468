"""How many of what comes and goes have come, and gone, since the broker started."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.counters.traffic import Traffic


@final
class Churn:
    """`queues_declared` counts declarations, of queues that were there as well. A session of AMQP 1.0 is a channel.

    `unsendable` are messages that queues gave up because no frame could hold them, or that were passed over in streams.
    `routes_given_up` counts messages without a publisher who could be told, such as dead letters and delayed ones, that
    went nowhere because finding their queues would take more than MESSAGE_WORK_UNITS.

    `published` and `gone` are what passed through virtual hosts that are deleted. `dead_letters` are by the kind of
    queue they are from, the strategy (RabbitMQ's name) and the reason.
    """

    def __init__(self) -> None:
        self.connections_opened: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_opened: i64 = 0
        self.channels_closed: i64 = 0
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0
        self.published: i64 = 0
        self.unsendable: i64 = 0
        self.routes_given_up: i64 = 0
        # Of channels that closed: what they had published and nobody will confirm any more.
        self.unconfirmed: i64 = 0
        self.gone = Traffic()
        self.dead_letters: dict[tuple[str, str, str], int] = {}

    def dead_lettered(self, kind: str, strategy: str, reason: str) -> None:
        key = (kind, strategy, reason)
        self.dead_letters[key] = self.dead_letters.get(key, 0) + 1
