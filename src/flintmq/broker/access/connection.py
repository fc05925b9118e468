"""A client's connection, as its user and its virtual host know it."""

from collections.abc import Callable

from flintmq.broker.access.permission import Rights


class Connection:
    """A connection of a user to a virtual host.

    `rights` are the user's in that virtual host. `disconnect` closes the connection with a reason.
    """

    def __init__(self, rights: Rights, disconnect: Callable[[str], None]) -> None:
        self.rights = rights
        self.disconnect = disconnect
