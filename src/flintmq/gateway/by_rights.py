"""What is remembered for a user in a virtual host, for all connections together, as long as there are any."""

from collections.abc import Callable
from typing import Generic, TypeVar, final

from flintmq.broker.access.permission import Rights
from flintmq.broker.vhost_access import Access

T = TypeVar("T")


@final
class ByRights(Generic[T]):
    """`make` makes what there is at first: what is allowed is remembered with it, so it is no other user's."""

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
        """A connection ended; the user's last one in the virtual host takes along what was remembered."""
        if not any(other.rights is access.rights for other in access.user.connections):
            self._known.pop(access.rights, None)
