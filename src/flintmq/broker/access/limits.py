"""Limits that an administrator sets for a virtual host or a user.

A negative or missing value means no limit (RabbitMQ).
"""

from typing import Final, final

from flintmq.base.errors import ConfigurationError, NotAllowed, PreconditionFailed
from flintmq.broker.ports import LimitRecord

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"

# The names of limits, by scope.
LIMITS: Final = {"vhost": (MAX_CONNECTIONS, MAX_QUEUES), "user": (MAX_CONNECTIONS, MAX_CHANNELS)}


def check_limit(record: LimitRecord) -> None:
    """Raises ConfigurationError if the scope has no limit of this name."""
    names = LIMITS.get(record.scope)
    if names is None:
        raise ConfigurationError(f"limit scope '{record.scope}' is unknown; known scopes: {', '.join(LIMITS)}")
    if record.name not in names:
        raise ConfigurationError(f"a {record.scope} has no limit '{record.name}'; known limits: {', '.join(names)}")


@final
class Limits:
    """The limits of one virtual host or user."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def reached(self, name: str, count: int) -> int:
        """Return the limit if `count` has reached it, else -1."""
        limit = self.values.get(name, -1)
        return limit if 0 <= limit <= count else -1


def check_vhost_connections(limits: Limits, vhost: str, user: str, count: int) -> None:
    """Raises NotAllowed if the virtual host, which has `count` connections, accepts no more."""
    limit = limits.reached(MAX_CONNECTIONS, count)
    if limit >= 0:
        raise NotAllowed(f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached")


def check_user_connections(limits: Limits, user: str, count: int) -> None:
    """Raises NotAllowed if the user, who has `count` connections, may open no more."""
    limit = limits.reached(MAX_CONNECTIONS, count)
    if limit >= 0:
        raise NotAllowed(f"connection refused for user '{user}': user connection limit ({limit}) is reached")


def check_user_channels(limits: Limits, user: str, count: int) -> None:
    """Raises NotAllowed if the user, who has `count` channels on all connections, may open no more."""
    limit = limits.reached(MAX_CHANNELS, count)
    if limit >= 0:
        raise NotAllowed(
            f"number of channels opened for user '{user}' has reached the maximum allowed user limit of {limit}"
        )


def check_vhost_queues(limits: Limits, vhost: str, queue: str, count: int) -> None:
    """Raises PreconditionFailed if the virtual host, which has `count` queues, accepts no more."""
    limit = limits.reached(MAX_QUEUES, count)
    if limit >= 0:
        raise PreconditionFailed(f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached")
