"""Parts of messages on links that broke off in the middle, while nobody is connected to go on with them.

Their client may never come back: so they are put out of memory, beside the pages of deep queues, and have a bound, for
each user and for the node. Beyond it the ones longest suspended are given up, and so is one that cannot be read back.
Their clients hear of that when they attach again, by a map that does not have them, and send the messages from the
beginning; nothing that was answered is lost.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

# Nobody holds so much.
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
    def half_bytes(self) -> int:
        """The bytes of its parts of messages."""

    @abstractmethod
    def discard_partial_messages(self) -> int:
        """Discard these parts: their sender has to send the messages again. Returns how many messages there were."""


@final
class PartialMessages:
    """`held` is in bytes, of all users. Until `bound` is called there is no bound: a start restores all there was."""

    def __init__(self) -> None:
        self.held: i64 = 0
        # The disk has no room to spare: what is suspended stays in memory, within the same bounds.
        self.is_disk_low = False
        self._user_most: i64 = _NO_LIMIT
        self._most: i64 = _NO_LIMIT
        # How many messages were given up.
        self.given_up: i64 = 0
        # What each suspended terminus has, the one longest suspended first: of all users, and of each.
        self._suspended: dict[PartialMessageHolder, i64] = {}
        self._of_users: dict[str, dict[PartialMessageHolder, None]] = {}
        self._held_by: dict[str, i64] = {}

    def bound(self, user_most: i64, most: i64) -> None:
        """A user's may have so many bytes from now on, and all of them together."""
        self._user_most = user_most
        self._most = most
        for user in list(self._of_users):
            self._keep_to_bounds(user)

    def _keep_to_bounds(self, user: str) -> None:
        while self._held_by.get(user, 0) > self._user_most:
            self._give_up(next(iter(self._of_users[user])))
        while self.held > self._most:
            self._give_up(next(iter(self._suspended)))

    def suspended(self, terminus: PartialMessageHolder) -> None:
        """Nobody uses it. What is too much now is given up, of others of its user first."""
        self.resumed(terminus)
        size = terminus.half_bytes
        if size == 0:
            return
        user = terminus.user_name
        self._suspended[terminus] = size
        self._of_users.setdefault(user, {})[terminus] = None
        self.held += size
        self._held_by[user] = self._held_by.get(user, 0) + size
        self._keep_to_bounds(user)

    def resumed(self, terminus: PartialMessageHolder) -> None:
        """It is in use again, or gone."""
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

    def _give_up(self, terminus: PartialMessageHolder) -> None:
        self.resumed(terminus)
        self.given_up += terminus.discard_partial_messages()
