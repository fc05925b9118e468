"""The latest operations of a leader, by number, and how far the followers have them.

The sync thread appends while other threads send and acknowledge, so all methods may be called from any thread.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, final

from flintmq.storage.replication.operation import Buffer

# The bytes of operations that are kept for followers that were away for a moment.
KEPT_BYTES: Final = 16 * 1024 * 1024
# Publishers have to wait while followers that copy files, or are slow, let more than this be kept.
LONG_BYTES: Final = 512 * 1024 * 1024
# What is sent to a follower in one message; one operation may be larger.
BYTES_AT_ONCE: Final = 4 * 1024 * 1024


@final
class OperationLog:
    """Operations are numbered from 1; the numbers go on in the next term, whichever node leads in it.

    `on_append` is called after each operation. It and the calls of `when_confirmed` must not block: the lock is held.
    """

    def __init__(
        self,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.on_append: Callable[[], None] | None = None
        self.newest = 0
        self.confirmed = 0
        self._kept_bytes = kept_bytes
        self._lock = threading.Lock()
        # The latest operations; those before `_first` are forgotten. A list, because readers begin anywhere in it.
        self._kept: list[Buffer] = []
        self._first = 0
        self._size = 0
        # The operations from here on must be kept, by the follower that will need them, whatever their size.
        self._held: dict[str, int] = {}
        # Acknowledgements of the present term only: a node may have lost since what it acknowledged in an earlier one.
        self._term = 0
        self._acknowledged: dict[str, int] = {}
        # Operations that are logged and about to be made.
        self._unmade: set[int] = set()
        self._required: frozenset[str] = frozenset()
        # What is called when operations up to a number are confirmed, by rising number.
        self._awaited: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no follower is there, so that operations need only be counted: call `skip`."""
        return self.on_append is None or not (self._held or self._acknowledged or self._required)

    def skip(self, is_made: bool = True) -> int:
        """Count an operation that no follower will have: whoever comes later copies the files. Returns its number."""
        with self._lock:
            if self._kept:
                self._clear()
            self.newest += 1
            return self._logged(self.newest, is_made)

    def append(self, operation: Buffer, is_made: bool = True) -> int:
        """Log an operation; call `made` for one that is not made yet. Returns its number."""
        with self._lock:
            self.newest += 1
            self._kept.append(operation)
            self._size += len(operation)
            self._forget()
            number = self._logged(self.newest, is_made)
            if self.on_append is not None:
                self.on_append()
            return number

    def _logged(self, number: int, is_made: bool) -> int:
        if not self._required:
            self._confirm(number)
        if not is_made:
            self._unmade.add(number)
        return number

    def made(self, number: int) -> None:
        """The operation with this number is made, or never will be."""
        with self._lock:
            self._unmade.discard(number)

    def begin(self, term: int) -> None:
        """Begin a term of leadership: nobody has acknowledged anything, and nothing is awaited."""
        with self._lock:
            self._term = term
            self._acknowledged.clear()
            self._held.clear()
            self._awaited.clear()
            self._required = frozenset()
            # Nor is it known which of the operations so far the followers of this term have.
            self.confirmed = 0

    def restart(self, newest: int) -> None:
        """Forget all operations: the directory was copied from a leader whose newest one had this number."""
        with self._lock:
            self._clear()
            self.newest = self.confirmed = newest

    def _clear(self) -> None:
        self._kept = []
        self._first = 0
        self._size = 0

    def _forget(self) -> None:
        if self._size <= self._kept_bytes:
            return
        oldest_held = self.newest + 1
        for held in self._held.values():
            oldest_held = min(oldest_held, held)
        for acknowledged in self._acknowledged.values():
            oldest_held = min(oldest_held, acknowledged + 1)
        kept = self._kept
        while self._size > self._kept_bytes and self._oldest < oldest_held:
            self._size -= len(kept[self._first])
            kept[self._first] = b""
            self._first += 1
        if self._first > len(kept) // 2:
            del kept[: self._first]
            self._first = 0

    @property
    def is_long(self) -> bool:
        """Whether so much is kept for followers that publishers have to wait for them."""
        return self._size > LONG_BYTES

    def bytes_after(self, number: int) -> int:
        """The size of all operations that follow the one with this number, as far as they are kept."""
        with self._lock:
            first = self._first + max(number + 1 - self._oldest, 0)
            return sum(len(each) for each in self._kept[first:])

    @property
    def _oldest(self) -> int:
        """The number of the oldest operation that is kept, or that of the next one."""
        return self.newest - len(self._kept) + self._first + 1

    def hold(self, node: str) -> int:
        """Keep all operations from now on for a node that copies files. Returns the number of the newest one."""
        with self._lock:
            self._held[node] = self.newest + 1
            return self.newest

    def has_made(self, number: int) -> bool:
        """Whether all operations up to this one are made, so that a copy of the files has them."""
        with self._lock:
            return all(unmade > number for unmade in self._unmade)

    def release(self, node: str) -> None:
        """Stop holding operations for a node."""
        with self._lock:
            self._held.pop(node, None)
            self._forget()

    def after(self, number: int, most: int) -> list[Buffer] | None:
        """Up to `most` operations that follow the one with this number; None if they are not kept any more.

        They are fewer if they have more than BYTES_AT_ONCE: while a message comes, the follower says nothing.
        """
        with self._lock:
            skipped = number + 1 - self._oldest
            if skipped < 0:
                return None
            kept = self._kept
            first = end = self._first + skipped
            last = min(first + most, len(kept))
            size = 0
            while end < last and size < BYTES_AT_ONCE:
                size += len(kept[end])
                end += 1
            return kept[first:end]

    # -- acknowledgements ---------------------------------------------------------------------------------------

    def require(self, nodes: frozenset[str]) -> None:
        """From now on, operations are confirmed when these nodes have them."""
        with self._lock:
            self._required = nodes
            self._recount()

    def acknowledge(self, term: int, node: str, number: int) -> None:
        """A node has all operations up to this one durably. It counts in this term only."""
        with self._lock:
            if term != self._term:
                return
            self._acknowledged[node] = max(self._acknowledged.get(node, 0), number)
            if node in self._required:
                self._recount()

    def acknowledged(self, node: str) -> int:
        """The number up to which a node has acknowledged all operations; 0 if it has not said so."""
        return self._acknowledged.get(node, 0)

    def has_confirmed(self, node: str) -> bool:
        """Whether a node has acknowledged everything that is confirmed."""
        return 0 < self.confirmed <= self.acknowledged(node)

    def forget(self, term: int, node: str) -> None:
        """A node was lost in this term: what it has acknowledged is not known any more."""
        with self._lock:
            if term != self._term:
                return
            self._acknowledged.pop(node, None)
            self._held.pop(node, None)

    def when_confirmed(self, call: Callable[[], None]) -> None:
        """Call back when everything that was appended by now is confirmed: at once if it is, or on another thread."""
        with self._lock:
            self._awaited.append((self.newest, call))
            self._call_back()

    def _call_back(self) -> None:
        while self._awaited and self._awaited[0][0] <= self.confirmed:
            self._awaited.popleft()[1]()

    def _recount(self) -> None:
        self._confirm(min((self.acknowledged(node) for node in self._required), default=self.newest))

    def _confirm(self, number: int) -> None:
        if number > self.confirmed:
            self.confirmed = number
            self._call_back()
