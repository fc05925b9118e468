"""Queue ids, by which the journal identifies queues."""

from typing import final


@final
class QueueIds:
    """Hands out queue ids, each once in the life of a node."""

    def __init__(self, following: int) -> None:
        self._next = following

    def take(self) -> int:
        taken = self._next
        self._next += 1
        return taken
