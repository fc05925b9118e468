"""Queues with choosy consumers and message groups, against a model that scans everything for every delivery."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.tick import Tick
from tests.effort import effort
from tests.unit.broker.memory import MemoryJournal, Taker, message, purge

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue

_COLOURS: Final = ("red", "green", "blue")
_STEPS: Final = 120


class Picker(Taker):
    """Takes messages of some colours, or any where `colours` is None; `check` sees each delivery before it counts."""

    def __init__(
        self, colours: frozenset[str] | None, credit: int, no_ack: bool, check: "Callable[[Picker, Entry], None]"
    ) -> None:
        super().__init__(credit, no_ack)
        self.colours = colours
        self.is_filtered = colours is not None
        self.check = check

    def matches(self, message: Message) -> bool:
        return self.colours is None or message.codec.headers(message.properties)["colour"] in self.colours

    def deliver(self, queue: "Queue", entry: Entry) -> None:
        self.check(self, entry)
        super().deliver(queue, entry)


def group_of(entry: Entry) -> object:
    return entry.message.codec.headers(entry.message.properties).get("group")


def order(entry: Entry) -> tuple[int, int]:
    return -max(0, entry.message.options.priority), entry.seq


class Model:
    """`ready` is what should be on the queue, `hands` who holds what (None: basic.get)."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_grouped = random.random() < 0.6
        self.is_ranked = random.random() < 0.4
        arguments: dict[str, object] = {"x-group-header": "group"} if self.is_grouped else {}
        if self.is_ranked:
            arguments["x-max-priority"] = 9
        if random.random() < 0.2:
            arguments["x-single-active-consumer"] = True
        self.queue = ClassicQueue(1, "/", "q", "classic", True, False, None, arguments, Tick(), MemoryJournal())
        self.ready: list[Entry] = []
        self.hands: list[tuple[Picker | None, Entry]] = []
        self.avoided: dict[int, object] = {}
        self.made = 0
        self.delivered = 0

    # -- what may happen ----------------------------------------------------------------------------------------

    def pickers(self) -> list[Picker]:
        return [each for each in self.queue.consumers if isinstance(each, Picker)]

    def served(self) -> list[Picker]:
        return self.pickers()[:1] if self.queue.settings.single_active else self.pickers()

    def may_have(self, picker: Picker | None, entry: Entry) -> bool:
        """Whether an entry is to be had, but for credit: it suits, and nobody else holds its group."""
        if picker is not None and not picker.matches(entry.message):
            return False
        group = group_of(entry) if self.is_grouped else None
        return group is None or all(holder is picker for holder, held in self.hands if group_of(held) == group)

    def best(self) -> Entry | None:
        """The first entry that any consumer can be given."""
        for entry in sorted(self.ready, key=order):
            if any(picker.can_take() and self.may_have(picker, entry) for picker in self.served()):
                return entry
        return None

    def on_delivery(self, picker: Picker, entry: Entry) -> None:
        assert entry is self.best()
        takers = [other for other in self.served() if other.can_take() and self.may_have(other, entry)]
        assert picker in takers
        assert picker.priority == max(other.priority for other in takers)
        peers = [other for other in takers if other.priority == picker.priority]
        assert self.avoided[entry.seq] is not picker or peers == [picker]
        self.ready.remove(entry)
        self.delivered += 1
        if not picker.no_ack:
            self.hands.append((picker, entry))

    # -- what happens -------------------------------------------------------------------------------------------

    def publish(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            headers = [f"colour={self.random.choice(_COLOURS)}"]
            if self.random.random() < 0.7:
                headers.append(f"group=g{self.random.randrange(4)}")
            if self.is_ranked and self.random.random() < 0.5:
                headers.append(f"priority={self.random.randrange(4)}")
            each = message(str(self.made), headers=";".join(headers))
            self.made += 1
            self.queue.enqueue(each)
            self.ready.append(next(entry for entry in self.queue.store.entries() if entry.message is each))

    def subscribe(self) -> None:
        colours = frozenset(self.random.sample(_COLOURS, self.random.randrange(4)))
        picker = Picker(
            None if self.random.random() < 0.3 else colours,
            self.random.randrange(6),
            self.random.random() < 0.2,
            self.on_delivery,
        )
        picker.priority = self.random.randrange(2)
        self.queue.subscribe(picker, {})

    def unsubscribe(self) -> None:
        if self.queue.consumers:
            picker = self.random.choice(self.pickers())
            self.queue.unsubscribe(picker)
            if self.random.random() < 0.5:
                self.give_back([item for item in self.hands if item[0] is picker])

    def give_back(self, items: list[tuple[Picker | None, Entry]]) -> None:
        for item in items:
            self.hands.remove(item)
            self.ready.append(item[1])
        self.queue.requeue([entry for _, entry in items])

    def more_credit(self) -> None:
        if self.queue.consumers:
            self.random.choice(self.pickers()).credit += self.random.randrange(1, 6)

    def settle(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.hands:
                item = self.random.choice(self.hands)
                self.hands.remove(item)
                (self.queue.settle if self.random.random() < 0.8 else self.queue.reject)(item[1])

    def requeue(self) -> None:
        if self.hands:
            items = self.random.sample(self.hands, self.random.randrange(1, len(self.hands) + 1))
            for picker, entry in items:
                entry.avoid = picker
            self.give_back(items)

    def remove(self) -> None:
        """What expiry does."""
        if self.ready:
            self.leave(self.random.choice(self.ready))

    def drop(self) -> None:
        """What a limit of length does: the oldest of the lowest priority goes."""
        entry = self.queue.store.drop_candidate()
        first = min(self.ready, key=lambda each: (max(0, each.message.options.priority), each.seq), default=None)
        assert entry is first
        if entry is not None:
            self.leave(entry)

    def leave(self, entry: Entry) -> None:
        self.ready.remove(entry)
        self.queue.remove(entry)
        self.queue.settle(entry)

    def get(self) -> None:
        # Consumers that wait go first.
        self.avoided = {entry.seq: entry.avoid for entry in self.ready}
        entry = self.queue.get()
        free = [each for each in self.ready if self.may_have(None, each)]
        assert entry is min(free, key=order, default=None)
        if entry is not None:
            self.ready.remove(entry)
            self.hands.append((None, entry))

    def purge(self) -> None:
        assert purge(self.queue) == len(self.ready)
        self.ready = []

    def dispatch(self) -> None:
        self.avoided = {entry.seq: entry.avoid for entry in self.ready}
        self.queue.dispatch()
        assert self.best() is None

    def check(self) -> None:
        assert self.queue.message_count == len(self.ready)
        assert {entry.seq for entry in self.queue.store.entries()} == {entry.seq for entry in self.ready}


_WEIGHTS: Final[dict[Callable[[Model], None], int]] = {
    Model.publish: 6,
    Model.subscribe: 4,
    Model.unsubscribe: 2,
    Model.more_credit: 8,
    Model.settle: 6,
    Model.requeue: 3,
    Model.remove: 2,
    Model.drop: 2,
    Model.get: 2,
    Model.purge: 0,
    Model.dispatch: 12,
}


@settings(max_examples=effort(150))
@given(st.randoms(use_true_random=True))
def test_deliveries_are_those_of_a_scan(random: Random) -> None:
    """Each delivery is the first entry, by priority and age, that anybody can be given, and goes to whose turn it is;
    a dispatch ends when there is none; nothing is lost or doubled, and no group is remembered that has no entries.
    """
    model = Model(random)
    for step in random.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=_STEPS):
        step(model)
        model.check()
    while model.hands:
        model.settle()
    model.purge()
    if model.queue.groups is not None:
        assert len(model.queue.groups) == 0
