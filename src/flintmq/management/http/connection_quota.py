"""Quota of HTTP connections: how many a client may have, and which one is closed when there are no more.

1. Unauthenticated clients keep nobody out: at the limit, one of their connections is closed first.
2. Each user and each address has a share. Beyond it, the longest idle one of its own connections is closed; if none is
   idle, the request on the new connection is refused. An address that many users share (this machine's, or a proxy's)
   has no share: two users there would keep out all others.
3. Some connections are reserved for administrators, for users with the tag monitoring, and for health checks.
4. An idle connection is kept only as long as nobody needs its place.

A connection that is closed for another one has no open request. Clients open a new one, as after an idle timeout.
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
    """A connection. `login` is the user that has logged in, or UNAUTHENTICATED.

    `is_idle` says that all requests were answered; `since` is when it became idle, or was opened (the event loop's time
    in seconds).
    """

    login: str
    is_preferred: bool
    since: float

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...

    def evict(self) -> None:
        """Close the connection; it no longer counts."""


def make_room(connections: Iterable[QuotaConnection]) -> bool:
    """Tell whether one more connection may be accepted; at the limit, one of `connections` is closed for it."""
    others = list(connections)
    if len(others) < HTTP_CONNECTIONS_MAX:
        return True
    unauthenticated = [connection for connection in others if connection.login == UNAUTHENTICATED]
    if unauthenticated:
        per_address = Counter(connection.address for connection in unauthenticated)
        # The address with the most unauthenticated connections loses one, so that others do not suffer. A connection
        # whose login is being checked is closed last.
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
    """Check the quota after a login; return why the connection cannot be kept, or "".

    `connections` are all others; an idle one is closed if a share would be exceeded. `is_shared` says that many users
    come from this address.
    """
    others = [connection for connection in connections if connection.login != UNAUTHENTICATED]
    own = [connection for connection in others if connection.login == login]
    if len(own) >= HTTP_USER_CONNECTIONS_MAX and not _close_idlest(own):
        return f"user '{login}' has {len(own)} connections with unanswered requests: try again later"
    if is_preferred:
        return ""
    others = [connection for connection in others if not connection.is_preferred]
    near = [] if is_shared else [connection for connection in others if connection.address == address]
    if len(near) >= HTTP_ADDRESS_CONNECTIONS_MAX and not _close_idlest(near):
        return f"{address} has {len(near)} connections with unanswered requests: try again later"
    if len(others) >= HTTP_CONNECTIONS_MAX - HTTP_RESERVED_CONNECTIONS and not _close_idlest(others):
        return f"{len(others)} connections have unanswered requests: try again later"
    return ""


def _close_idlest(connections: list[QuotaConnection]) -> bool:
    """Close the longest idle connection of the user with the most connections; return False if none is idle."""
    idle = [connection for connection in connections if connection.is_idle]
    if not idle:
        return False
    per_user = Counter(connection.login for connection in connections)
    evicted = max(
        idle, key=lambda connection: (not connection.is_preferred, per_user[connection.login], -connection.since)
    )
    evicted.evict()
    return True
