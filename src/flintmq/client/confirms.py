"""Publishes that the server has not confirmed yet."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import FlintError, PreconditionFailed
from flintmq.client.tags import Tags
from flintmq.client.waiting import Waitable


@final
class Confirms(Waitable):
    """Ready while every publish is confirmed, one way or the other.

    `published` is the number of publishes, which is the last one's tag.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ready()
        self.published: i64 = 0
        self._done = Tags()
        self._reported: i64 = 0
        self._nacked: list[int] = []
        # Ready when this publish, and all before it, are confirmed.
        self._marked: Waitable | None = None
        self._mark: i64 = 0

    @property
    def confirmed(self) -> int:
        """How many publishes are confirmed, from the first one on without a gap."""
        return self._done.floor

    @property
    def has_refusals(self) -> bool:
        """Whether a publish was refused since the last report."""
        return bool(self._nacked)

    @property
    def is_reported(self) -> bool:
        """Whether there was no publish since the last report."""
        return self._reported == self.published

    def count(self) -> None:
        """One more was published."""
        self.published += 1
        self.unready()

    def mark(self) -> Waitable:
        """Gets ready when all that was published until now is confirmed. Only the last one that was asked for does."""
        marked = Waitable()
        self._marked = marked
        self._mark = self.published
        self._look_at_mark()
        return marked

    def _look_at_mark(self) -> None:
        marked = self._marked
        if marked is not None and self._done.floor >= self._mark:
            self._marked = None
            marked.ready()

    def fail(self, error: FlintError) -> None:
        super().fail(error)
        if self._marked is not None:
            self._marked.fail(error)

    def settle(self, tag: i64, multiple: bool, taken: bool) -> None:
        """The server's basic.ack (`taken`) or basic.nack. Raises PreconditionFailed for a tag never used."""
        if tag == 0 and multiple:
            tag = self.published
        if tag <= 0 or tag > self.published:
            raise PreconditionFailed(f"confirm of delivery tag {tag}: the last publish was {self.published}")
        done = self._done
        if not taken:
            first = done.floor + 1 if multiple else tag
            self._nacked += [lost for lost in range(first, tag + 1) if lost not in done]
        if multiple:
            done.add_up_to(tag)
        else:
            done.add(tag, tag)
        if done.floor == self.published:
            self.ready()
        self._look_at_mark()

    def report(self) -> list[int]:
        """Positions of refused publishes, counted from the last report; all publishes are to be confirmed by now."""
        first = self._reported + 1
        nacked = sorted(int(tag - first) for tag in self._nacked)
        self._nacked = []
        self._reported = self.published
        return nacked
