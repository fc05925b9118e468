"""Parts of messages on suspended links: the transfer broke off in the middle, and no connection continues it.

The client may never return. The parts are therefore moved out of memory, to where the pages of deep queues are, and
bounded per user and per node. Above the bound the parts that were suspended first are discarded, as are parts that
cannot be read back. The clients find out when they attach again: the unsettled map does not have these deliveries, so
the clients send the messages from the beginning. Nothing that was accepted is lost.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

# An unreachable number of bytes.
_NO_LIMIT: Final = 1 << 62


@trait
class PartialMessageHolder:
    """A suspended link terminus that has parts of messages."""

    @property
    @abstractmethod
    def user_name(self) -> str:
        """The user whose link it is."""

    @property
    @abstractmethod
    def partial_bytes(self) -> int:
        """The number of bytes of its parts of messages."""

    @abstractmethod
    def discard_partial_messages(self) -> int:
        """Discard these parts: their sender has to send the messages again. Returns how many messages there were."""


@final
class PartialMessages:
    """Parts of all suspended links. `held` is bytes, of all users.

    There is no bound until `bound` is called, so that a start restores everything.
    """

    def __init__(self) -> None:
        self.held: i64 = 0
        # The disk is nearly full: suspended parts stay in memory, within the same bounds.
        self.is_disk_low = False
        self._user_most: i64 = _NO_LIMIT
        self._most: i64 = _NO_LIMIT
        # The number of messages whose parts were discarded.
        self.discarded: i64 = 0
        # Bytes by suspended terminus, the one that was suspended first in front: of all users, and by user.
        self._suspended: dict[PartialMessageHolder, i64] = {}
        self._of_users: dict[str, dict[PartialMessageHolder, None]] = {}
        self._held_by: dict[str, i64] = {}

    def bound(self, user_most: i64, most: i64) -> None:
        """Set the bounds in bytes: per user, and for all users together."""
        self._user_most = user_most
        self._most = most
        for user in list(self._of_users):
            self._keep_to_bounds(user)

    def _keep_to_bounds(self, user: str) -> None:
        while self._held_by.get(user, 0) > self._user_most:
            self._discard(next(iter(self._of_users[user])))
        while self.held > self._most:
            self._discard(next(iter(self._suspended)))

    def suspended(self, terminus: PartialMessageHolder) -> None:
        """Count the parts of a terminus that no link uses. Above a bound, parts of this user are discarded first."""
        self.resumed(terminus)
        size = terminus.partial_bytes
        if size == 0:
            return
        user = terminus.user_name
        self._suspended[terminus] = size
        self._of_users.setdefault(user, {})[terminus] = None
        self.held += size
        self._held_by[user] = self._held_by.get(user, 0) + size
        self._keep_to_bounds(user)

    def resumed(self, terminus: PartialMessageHolder) -> None:
        """Stop counting a terminus that a link uses again, or that is gone."""
        size = self._suspended.pop(terminus, 0)
        if size == 0:
            return
        user = terminus.user_name
        self.held -= size
        self._held_by[user] -= size
        own = self._of_users[user]
        del own[terminus]
        if not own:
            del self._of_users[user]
            del self._held_by[user]

    def _discard(self, terminus: PartialMessageHolder) -> None:
        self.resumed(terminus)
        self.discarded += terminus.discard_partial_messages()
