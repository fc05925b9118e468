"""Publishes that the server has not confirmed yet."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.client.tags import Tags
from flintmq.client.waiting import Waitable


@final
class Confirms(Waitable):
    """Ready while every publish is confirmed, one way or the other.

    `published` is the number of publishes, which is the last one's tag.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = True
        self.published: i64 = 0
        self._done = Tags()
        self._reported: i64 = 0
        self._nacked: list[int] = []

    @property
    def is_reported(self) -> bool:
        """Whether there was no publish since the last report."""
        return self._reported == self.published

    def count(self) -> None:
        """One more was published."""
        self.published += 1
        self.is_ready = False

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

    def report(self) -> list[int]:
        """Positions of refused publishes, counted from the last report; all publishes are to be confirmed by now."""
        first = self._reported + 1
        nacked = sorted(int(tag - first) for tag in self._nacked)
        self._nacked = []
        self._reported = self.published
        return nacked
