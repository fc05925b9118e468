"""Who may have how many of the API's sockets, and whose goes when there are no more.

1. Who cannot log in keeps nobody out: while all sockets are taken, a stranger's goes first.
2. No user, and no address, has more than a share: beyond it, the idlest of its own sockets goes, and where none of them
   is idle, the request that asks for one more is refused. An address that many users share, this machine's or that of
   a proxy, has no share: two users there would keep out all others.
3. Some sockets are left for administrators, for those who monitor, and for health checks, whatever all others do.
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

STRANGER: Final = ""


class Seat(Protocol):
    """A socket. `who` is the user that has logged in there, STRANGER for nobody.

    `is_idle`: nothing was asked there that is not answered. `since` is when it became so, or when the socket came (the
    loop's time).
    """

    who: str
    is_preferred: bool
    since: float

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool: ...

    def leave(self) -> None:
        """Close it; it does not count any more."""


def make_room(seats: Iterable[Seat]) -> bool:
    """Whether there is room for one more socket; where there was none, one of `seats` goes for it."""
    others = list(seats)
    if len(others) < HTTP_CONNECTIONS_MAX:
        return True
    strangers = [seat for seat in others if seat.who == STRANGER]
    if strangers:
        per_address = Counter(seat.address for seat in strangers)
        # Whoever has most of them has to give up one: those of other addresses do not suffer from it. One whose login
        # is being checked goes last.
        goes = max(strangers, key=lambda seat: (seat.is_idle, per_address[seat.address], -seat.since))
        goes.leave()
        return True
    return _idlest_goes(others)


def may_sit(who: str, address: str, is_preferred: bool, seats: Iterable[Seat], *, is_shared: bool = False) -> str:
    """A stranger has logged in, from that address: why it cannot keep its socket, or "". `seats` are the other sockets.

    One that is idle goes where the share would be exceeded. `is_shared`: many users come from that address.
    """
    others = [seat for seat in seats if seat.who != STRANGER]
    own = [seat for seat in others if seat.who == who]
    if len(own) >= HTTP_USER_CONNECTIONS_MAX and not _idlest_goes(own):
        return f"user '{who}' has {len(own)} connections with requests that are not answered: ask again later"
    if is_preferred:
        return ""
    others = [seat for seat in others if not seat.is_preferred]
    near = [] if is_shared else [seat for seat in others if seat.address == address]
    if len(near) >= HTTP_ADDRESS_CONNECTIONS_MAX and not _idlest_goes(near):
        return f"{address} has {len(near)} connections with requests that are not answered: ask again later"
    if len(others) >= HTTP_CONNECTIONS_MAX - HTTP_RESERVED_CONNECTIONS and not _idlest_goes(others):
        return f"{len(others)} connections have requests that are not answered: ask again later"
    return ""


def _idlest_goes(seats: list[Seat]) -> bool:
    """Of those who have most, the one that was idle longest; False where none is idle."""
    idle = [seat for seat in seats if seat.is_idle]
    if not idle:
        return False
    per_user = Counter(seat.who for seat in seats)
    goes = max(idle, key=lambda seat: (not seat.is_preferred, per_user[seat.who], -seat.since))
    goes.leave()
    return True
