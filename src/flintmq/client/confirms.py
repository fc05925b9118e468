"""Publishes that the server has not confirmed yet."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import FlintError, PreconditionFailed
from flintmq.client.tags import Tags
from flintmq.client.waitable import Waitable


@final
class Confirms(Waitable):
    """The publishes of a channel with confirms. Ready while the server has confirmed, or refused, all of them.

    `published` is the number of publishes; the last one has this number as its tag.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ready()
        self.published: i64 = 0
        self._done = Tags()
        self._reported: i64 = 0
        self._nacked: list[int] = []
        # The last mark: an event, and the publish up to which everything must be confirmed to make it ready.
        self._marked: Waitable | None = None
        self._mark: i64 = 0

    @property
    def confirmed(self) -> int:
        """How many publishes are confirmed, from the first one without a gap."""
        return self._done.floor

    @property
    def has_refusals(self) -> bool:
        """Whether the server has refused a publish since the last report."""
        return bool(self._nacked)

    @property
    def is_reported(self) -> bool:
        """Whether nothing was published since the last report."""
        return self._reported == self.published

    def count(self) -> None:
        """Count one more publish."""
        self.published += 1
        self.unready()

    def mark(self) -> Waitable:
        """Return an event that becomes ready when everything published until now is confirmed. An earlier mark is
        forgotten.
        """
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
        """Handle basic.ack (`taken`) or basic.nack of the server. Raises PreconditionFailed for a tag that was not
        published.
        """
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
        """Return the positions of refused publishes, counted from the last report. Call it when all publishes are
        confirmed.
        """
        first = self._reported + 1
        nacked = sorted(int(tag - first) for tag in self._nacked)
        self._nacked = []
        self._reported = self.published
        return nacked
