"""Counts of connections, channels, queues and lost messages since the broker started."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.counters.traffic import Traffic


@final
class Churn:
    """Counters of the node that only grow. A session of AMQP 1.0 counts as a channel.

    `queues_declared` counts declarations, also of existing queues. `unsendable` counts messages that no frame could
    hold: queues gave them up, or they were skipped in streams. `routes_given_up` counts messages without a publisher to
    answer, such as dead letters and delayed messages, that were lost because finding their queues would take more than
    MESSAGE_WORK_UNITS. `io_workers_ended` counts I/O workers that have ended while the broker runs.

    `published` and `gone` are the traffic of deleted virtual hosts. `dead_letters` has the keys kind of queue, strategy
    (RabbitMQ's name) and reason.
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
        self.io_workers_ended: i64 = 0
        # Messages published on channels that closed before the messages were confirmed.
        self.unconfirmed: i64 = 0
        self.gone = Traffic()
        self.dead_letters: dict[tuple[str, str, str], int] = {}

    def dead_lettered(self, kind: str, strategy: str, reason: str) -> None:
        key = (kind, strategy, reason)
        self.dead_letters[key] = self.dead_letters.get(key, 0) + 1
