"""A cache per set of permissions: one value for all connections of a user to a virtual host."""

from collections.abc import Callable
from typing import Generic, TypeVar, final

from flintmq.broker.access.permission import Rights
from flintmq.broker.vhost_access import Access

T = TypeVar("T")


@final
class PermissionCache(Generic[T]):
    """Values by the rights of a user in a virtual host. `make` creates the value of a user who has none yet.

    No other user shares a value, so it may hold what the user is permitted.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._known: dict[Rights, T] = {}

    def of(self, rights: Rights) -> T:
        known = self._known.get(rights)
        if known is None:
            known = self._make()
            self._known[rights] = known
        return known

    def left(self, access: Access) -> None:
        """A connection ended: drop the value if it was the last connection of the user to the virtual host."""
        if not any(other.rights is access.rights for other in access.user.connections):
            self._known.pop(access.rights, None)
