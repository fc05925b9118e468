"""A connection's access to a virtual host: its user, its rights, and how to close it."""

from collections.abc import Callable
from typing import final

from flintmq.base.errors import NotAllowed
from flintmq.broker.access.connection import Connection
from flintmq.broker.access.limits import check_user_channels, check_user_connections, check_vhost_connections
from flintmq.broker.access.permission import Rights
from flintmq.broker.access.user import User
from flintmq.broker.vhost import VHost


@final
class Access(Connection):
    """The result of `enter`: a connection with its user and virtual host, which count it."""

    def __init__(self, user: User, vhost: VHost, rights: Rights, disconnect: Callable[[str], None]) -> None:
        super().__init__(rights, disconnect)
        self.user = user
        self.vhost = vhost

    def open_channel(self) -> None:
        """Count a channel. Raises NotAllowed if the user may have no more."""
        check_user_channels(self.user.limits, self.user.name, self.user.channels)
        self.user.channels += 1
        self.vhost.churn.channels_opened += 1

    def close_channel(self) -> None:
        self.user.channels -= 1
        self.vhost.churn.channels_closed += 1

    def leave(self) -> None:
        """End the access: the connection has ended."""
        self.vhost.churn.connections_closed += 1
        self.user.connections.pop(self, None)
        self.vhost.connections.pop(self, None)


def enter(user: User, vhost: VHost, disconnect: Callable[[str], None]) -> Access:
    """Let a user's connection enter a virtual host. Raises NotAllowed without permissions, or if a limit is reached."""
    check_vhost_connections(vhost.limits, vhost.name, user.name, len(vhost.connections))
    check_user_connections(user.limits, user.name, len(user.connections))
    rights = user.rights(vhost.name)
    if rights.permission is None:
        raise NotAllowed(f"access to vhost '{vhost.name}' refused for user '{user.name}'")
    access = Access(user, vhost, rights, disconnect)
    vhost.churn.connections_opened += 1
    user.connections[access] = None
    vhost.connections[access] = None
    return access
