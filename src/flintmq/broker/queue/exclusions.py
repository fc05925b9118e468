"""Who must not get an entry again (amqp-1.0 §3.4.5 undeliverable-here), whoever has had it since.

A context is what consumers of one client have in common: a link, say. An entry is barred from it until the entry has
left its queue, or the context has ended.
"""

from typing import Final, final

from flintmq.broker.message import Entry

_NOBODY: Final[tuple[object, ...]] = ()


@final
class Exclusions:
    def __init__(self) -> None:
        # By the entries' numbers on the queue.
        self._contexts: dict[int, tuple[object, ...]] = {}

    def __len__(self) -> int:
        return len(self._contexts)

    def bar(self, entry: Entry, context: object) -> None:
        known = self.contexts(entry)
        if context not in known:
            self._contexts[int(entry.seq)] = (*known, context)

    def contexts(self, entry: Entry) -> tuple[object, ...]:
        return self._contexts.get(int(entry.seq), _NOBODY)

    def left(self, entry: Entry) -> None:
        """An entry has left the queue."""
        self._contexts.pop(int(entry.seq), None)

    def release(self, context: object) -> None:
        """A context has ended."""
        for seq, contexts in list(self._contexts.items()):
            if context in contexts:
                left = tuple([other for other in contexts if other is not context])
                if left:
                    self._contexts[seq] = left
                else:
                    del self._contexts[seq]
