"""A client's connection, as its user and its virtual host know it."""

from collections.abc import Callable

from flintmq.broker.access.permission import Rights


class Connection:
    """`rights` are those of its user in its virtual host. `disconnect` closes it, for the reason that it is given."""

    def __init__(self, rights: Rights, disconnect: Callable[[str], None]) -> None:
        self.rights = rights
        self.disconnect = disconnect
