"""Message groups: messages of a group go to one consumer at a time, in order (queue argument x-group-header)."""

from typing import final

from mypy_extensions import i64

from flintmq.broker.fields import Field, key_of
from flintmq.broker.message import Entry
from flintmq.broker.queue.base import Consumer
from flintmq.broker.queue.ready_index import OfferIndex, ReadyIndex, Slot


@final
class Sequence(ReadyIndex):
    """The ready entries of a group that match the same consumers. Only the first of them is `offered`."""

    def __init__(self, home: OfferIndex) -> None:
        super().__init__()
        self.home = home
        self.offered: Slot | None = None

    def holds(self, slot: Slot) -> bool:
        return slot.is_here and slot.home is self.home


@final
class Group:
    """A message group. `holder` is the consumer with its `held` unsettled entries; None: clients of basic.get.

    `waiting` is the number of its ready entries.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.sequences: list[Sequence] = []
        self.waiting: i64 = 0
        self.held: i64 = 0
        self.holder: Consumer | None = None

    def push(self, slot: Slot) -> None:
        for sequence in self.sequences:
            if sequence.home is slot.home:
                sequence.push(slot, slot.rank)
                return
        made = Sequence(slot.home)
        made.push(slot, slot.rank)
        self.sequences.append(made)


@final
class Groups:
    """The groups that have entries on a queue, ready or acquired."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._by_name: dict[str, Group] = {}
        # Groups by the numbers of their acquired entries.
        self._held: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, entry: Entry) -> Group | None:
        """Return the group of an entry, and make it if it is new; None if the entry has no group."""
        name = key_of(self._field, entry.message)
        if name is None:
            return None
        group = self._by_name.get(name)
        if group is None:
            group = Group(name)
            self._by_name[name] = group
        return group

    def known(self, entry: Entry) -> Group | None:
        """Return the group of an entry; None also if nothing else of the group is on the queue."""
        name = key_of(self._field, entry.message)
        return None if name is None else self._by_name.get(name)

    def hold(self, group: Group, entry: Entry, holder: Consumer | None) -> None:
        group.held += 1
        group.holder = holder
        self._held[int(entry.seq)] = group

    def release(self, entry: Entry) -> Group | None:
        """Note that an entry is no longer acquired. Returns its group if the group has no holder any more."""
        group = self._held.pop(int(entry.seq), None)
        if group is None:
            return None
        group.held -= 1
        if group.held > 0:
            return None
        group.holder = None
        self.forget_unused(group)
        return group

    def forget_unused(self, group: Group) -> None:
        if group.waiting == 0 and group.held == 0:
            self._by_name.pop(group.name, None)
