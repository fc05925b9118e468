"""What an application sets that keeps its tasks in quorum queues.

With them, Celery counts no prefetch across consumers, and countdowns wait in the broker: in 28 queues, each of which
holds messages for one power of two of seconds, and topic exchanges that take a task through those its time is made of.
"""

from typing import Any, Final

QUEUE: Final = "replicated"

SETTINGS: Final[dict[str, Any]] = {
    "broker_connection_timeout": 60,
    "task_default_queue": QUEUE,
    "task_default_queue_type": "quorum",
    "task_default_exchange_type": "topic",
    "task_queues": None,
    "broker_transport_options": {"confirm_publish": True},
}
