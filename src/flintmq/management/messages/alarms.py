"""What is published or declared by the API waits for room: what would come meanwhile is refused."""

from flintmq.management.http.errors import ServiceUnavailable
from flintmq.management.ports import Node


def check_alarms(node: Node) -> None:
    """Raises ServiceUnavailable while memory or disk is too full for more messages, or more definitions."""
    if node.alarms:
        resources = " and ".join(sorted({alarm.resource for alarm in node.alarms}))
        raise ServiceUnavailable(
            f"the {resources} alarm is on: messages and declarations are taken again once there is room, so consume or "
            "purge some messages"
        )
