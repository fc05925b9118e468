"""Who may have how many of the API's sockets, and whose goes when there are no more.

1. Who cannot log in keeps nobody out: while all sockets are taken, a stranger's goes first.
2. No user, and no address, has more than a share: beyond it, the idlest of its own sockets goes, and where none of them
   is idle, the request that asks for one more is refused. An address that many users share, this machine's or that of
   a proxy, has no share: two users there would keep out all others.
3. Some sockets are left for administrators, for those login monitor, and for health checks, whatever all others do.
4. An idle socket is kept only as long as nobody needs it.

A socket that is closed because another one needs its place was answered; clients open another one, as they do when a
kept connection has timed out.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from flintmq.base.limits import (
    HTTP_ADDRESS_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_MAX,
    HTTP_RESERVED_CONNECTIONS,
    HTTP_USER_CONNECTIONS_MAX,
)

UNAUTHENTICATED: Final = ""


class QuotaConnection(Protocol):
    """A socket. `login` is the user that has logged in there, UNAUTHENTICATED for nobody.

    `is_idle`: nothing was asked there that is not answered. `since` is when it became so, or when the socket came (the
    loop's time).
    """

    login: str
    is_preferred: bool
    since: float

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...

    def evict(self) -> None:
        """Close it; it does not count any more."""


def make_room(connections: Iterable[QuotaConnection]) -> bool:
    """Whether there is room for one more socket; where there was none, one of `connections` goes for it."""
    others = list(connections)
    if len(others) < HTTP_CONNECTIONS_MAX:
        return True
    unauthenticated = [connection for connection in others if connection.login == UNAUTHENTICATED]
    if unauthenticated:
        per_address = Counter(connection.address for connection in unauthenticated)
        # Whoever has most of them has to give up one: those of other addresses do not suffer from it. One whose login
        # is being checked goes last.
        evicted = max(
            unauthenticated,
            key=lambda connection: (connection.is_idle, per_address[connection.address], -connection.since),
        )
        evicted.evict()
        return True
    return _close_idlest(others)


def admit(
    login: str, address: str, is_preferred: bool, connections: Iterable[QuotaConnection], *, is_shared: bool = False
) -> str:
    """A stranger has logged in, from that address: why it cannot keep its socket, or "". `connections` are the other sockets.

    One that is idle goes where the share would be exceeded. `is_shared`: many users come from that address.
    """
    others = [connection for connection in connections if connection.login != UNAUTHENTICATED]
    own = [connection for connection in others if connection.login == login]
    if len(own) >= HTTP_USER_CONNECTIONS_MAX and not _close_idlest(own):
        return f"user '{login}' has {len(own)} connections with requests that are not answered: ask again later"
    if is_preferred:
        return ""
    others = [connection for connection in others if not connection.is_preferred]
    near = [] if is_shared else [connection for connection in others if connection.address == address]
    if len(near) >= HTTP_ADDRESS_CONNECTIONS_MAX and not _close_idlest(near):
        return f"{address} has {len(near)} connections with requests that are not answered: ask again later"
    if len(others) >= HTTP_CONNECTIONS_MAX - HTTP_RESERVED_CONNECTIONS and not _close_idlest(others):
        return f"{len(others)} connections have requests that are not answered: ask again later"
    return ""


def _close_idlest(connections: list[QuotaConnection]) -> bool:
    """Of those who have most, the one that was idle longest; False where none is idle."""
    idle = [connection for connection in connections if connection.is_idle]
    if not idle:
        return False
    per_user = Counter(connection.login for connection in connections)
    evicted = max(
        idle, key=lambda connection: (not connection.is_preferred, per_user[connection.login], -connection.since)
    )
    evicted.evict()
    return True
