"""Queues as their documentation tells them, naively: lists that are searched from end to end for every question.

Nothing here is remembered to be fast, and nothing is shared with the broker. The one thing the model does not say is
which of several consumers with equal rights gets a message: that it takes from what the broker did, and judges it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from flintmq.broker.message import Table

FOREVER: Final = 10**12

# What publishers are told.
TAKEN: Final = "taken"
REFUSED: Final = "refused"
DISCARDED: Final = "discarded"

# A death: queue, reason, count.
Death = tuple[str, str, int]


@dataclass(eq=False)
class Item:
    """A message on one queue. `until` is when a delay or pause ends."""

    body: str
    persistent: bool = False
    priority: int = 0
    ttl: int | None = None
    delay: int = 0
    group: str | None = None
    key: str | None = None
    deaths: list[Death] = field(default_factory=list)
    seq: int = 0
    position: int = 0
    expires: int = FOREVER
    until: int = 0
    returns: int = 0
    redelivered: bool = False
    avoided: object = None


@dataclass(eq=False)
class Client:
    """What the model knows of a consumer. `log` is what the broker delivered and the model has not judged yet."""

    credit: int
    no_ack: bool
    priority: int


@dataclass
class Delivery:
    client: Client
    body: str
    redelivered: bool


class World:
    """The time, all queues, and the dead letters of this tick."""

    def __init__(self) -> None:
        self.now = 0
        self.queues: dict[str, ModelQueue] = {}
        self.letters: deque[tuple[ModelQueue, Item, str]] = deque()
        # Of what no queue took: these go first.
        self.discarded: deque[tuple[ModelQueue, Item, str]] = deque()

    def tick(self) -> None:
        queues = list(self.queues.values())
        for queue in queues:
            queue.rearrange()
        for queue in queues:
            queue.expire(self.now - 1)
        for queue in queues:
            queue.end_delays()
        for queue in queues:
            queue.dispatch()
        for queue in queues:
            queue.expire(self.now)
        self.dead_letter_all()
        for queue in queues:
            queue.dispatch()
        for queue in queues:
            if queue.expires is not None and not queue.clients and queue.used + queue.expires <= self.now:
                queue.delete()

    def dead_letter_all(self) -> None:
        while self.discarded or self.letters:
            queue, item, reason = (self.discarded or self.letters).popleft()
            queue.dying.remove(item)
            target = self.queues.get(queue.dead_letters_to or "")
            deaths = _with_death(item.deaths, queue.name, reason)
            if target is not None and not _is_cycle(deaths, target.name):
                copy = Item(item.body, item.persistent, item.priority, group=item.group, key=item.key, deaths=deaths)
                target.publish(copy)


def _with_death(deaths: list[Death], queue: str, reason: str) -> list[Death]:
    before = [count for name, why, count in deaths if (name, why) == (queue, reason)]
    others = [death for death in deaths if death[:2] != (queue, reason)]
    return [(queue, reason, 1 + sum(before)), *others]


def _is_cycle(deaths: list[Death], target: str) -> bool:
    for name, reason, _ in deaths:
        if reason == "rejected":
            return False
        if name == target:
            return True
    return False


class ModelQueue:
    """`hands` are items that clients hold, `dying` those whose dead letters are still to be written."""

    def __init__(self, world: World, name: str, arguments: Table) -> None:
        self.world = world
        self.name = name
        self.ttl: Any = arguments.get("x-message-ttl")
        self.expires: Any = arguments.get("x-expires")
        self.max_length: Any = arguments.get("x-max-length")
        self.max_bytes: Any = arguments.get("x-max-length-bytes")
        self.overflow = arguments.get("x-overflow", "drop-head")
        self.highest = int(str(arguments.get("x-max-priority", 0)))
        self.delivery_limit: Any = arguments.get("x-delivery-limit")
        self.retry = arguments.get("x-delayed-retry-type")
        self.pause: Any = arguments.get("x-delayed-retry-min")
        self.is_grouped = "x-group-header" in arguments
        self.keeps_last = "x-last-value-key" in arguments
        self.single_active = arguments.get("x-single-active-consumer") is True
        self.dead_letters_to: Any = arguments.get("x-dead-letter-routing-key")
        self.is_paused = False
        self.is_rearranged = False
        self.used = world.now
        self.gone = False
        self.clients: list[Client] = []
        self.ready: list[Item] = []
        self.held: list[Item] = []
        self.hands: list[tuple[Client | None, Item]] = []
        self.dying: list[Item] = []
        self.replaced: list[Item] = []
        self.newest: dict[str, Item] = {}
        self.numbers = 0
        self.log: deque[Delivery] = deque()
        world.queues[name] = self

    # -- order, and who may have what ---------------------------------------------------------------------------

    def level(self, item: Item) -> int:
        return min(self.highest, item.priority)

    def in_order(self) -> list[Item]:
        return sorted(self.ready, key=lambda item: (-self.level(item), item.position))

    def served(self) -> list[Client]:
        return self.clients[:1] if self.single_active else self.clients

    def is_free(self, item: Item, client: Client | None) -> bool:
        """Whether nobody else has an item of the same group in hand."""
        if not self.is_grouped or item.group is None:
            return True
        return all(holder is client for holder, held in self.hands if held.group == item.group)

    def takers(self, item: Item) -> list[Client]:
        return [client for client in self.served() if client.credit > 0 and self.is_free(item, client)]

    def best(self) -> Item | None:
        """What is delivered next."""
        if self.is_paused:
            return None
        return next((item for item in self.in_order() if self.takers(item)), None)

    # -- in -----------------------------------------------------------------------------------------------------

    def publish(self, item: Item) -> str:
        answer = self.admit(item)
        if answer == TAKEN:
            item.seq = item.position = self.number()
            if item.delay > 0:
                item.until = self.world.now + item.delay
                self.held.append(item)
            else:
                self.make_ready(item)
        return answer

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def admit(self, item: Item) -> str:
        if not self.has_no_room_for(item):
            return TAKEN
        if self.takes_at_once(item) or not self.has_no_room_for(item):
            return TAKEN
        if self.overflow != "drop-head":
            if self.overflow == "reject-publish-dlx":
                self.discard(item)
            return REFUSED
        if item.delay > 0:
            return TAKEN
        while self.has_no_room_for(item):
            first = self.first_to_drop()
            if first is None or self.level(first) > self.level(item):
                self.discard(item)
                return DISCARDED
            self.drop(first)
        return TAKEN

    def takes_at_once(self, item: Item) -> bool:
        self.catch_up()
        if item.delay > 0 or self.is_paused or not self.takers(item):
            return False
        if self.is_grouped:
            return all(other.group != item.group for other in self.ready if item.group is not None)
        return not self.ready

    def catch_up(self) -> None:
        """What would have happened by now, had the tick been shorter."""
        self.expire(self.world.now - 1)
        self.dispatch()

    def make_way(self, count: int, size: int) -> None:
        if self.is_over(count, size) and self.ready:
            self.catch_up()

    def is_over(self, count: int, size: int) -> bool:
        if self.max_length is not None and len(self.ready) + count > self.max_length:
            return True
        return self.max_bytes is not None and sum(len(item.body) for item in self.ready) + size > self.max_bytes

    def has_no_room_for(self, item: Item) -> bool:
        replaced = self.waiting(item.key)
        if replaced is None:
            return self.is_over(1, len(item.body))
        return self.is_over(0, len(item.body) - len(replaced.body))

    def first_to_drop(self) -> Item | None:
        return min(self.ready, key=lambda item: (self.level(item), item.position), default=None)

    def drop(self, item: Item) -> None:
        self.ready.remove(item)
        self.give_up(item, "maxlen")

    def trim(self) -> None:
        if self.overflow == "drop-head":
            while self.ready and self.is_over(0, 0):
                first = self.first_to_drop()
                assert first is not None
                self.drop(first)

    def make_ready(self, item: Item) -> None:
        ttls = [ttl for ttl in (self.ttl, item.ttl) if ttl is not None]
        if ttls:
            item.expires = self.world.now + min(ttls)
        if self.keeps_last and item.key is not None:
            older = self.waiting(item.key)
            if older is not None:
                self.ready.remove(older)
                self.replaced.append(older)
            self.newest[item.key] = item
        self.ready.append(item)

    def waiting(self, key: str | None) -> Item | None:
        """The last value that a newer one of this key would replace."""
        if not self.keeps_last or key is None:
            return None
        return next((item for item in self.ready if item.key == key), None)

    def is_outdated(self, item: Item) -> bool:
        return self.keeps_last and item.key is not None and self.newest[item.key] is not item

    def obey(self, command: str) -> None:
        self.is_paused = command == "pause"
        self.is_rearranged = True

    def rearrange(self) -> None:
        """A command changed an argument: all of them hold anew."""
        if self.is_rearranged:
            self.is_rearranged = False
            self.make_way(0, 0)
            self.trim()

    # -- time ---------------------------------------------------------------------------------------------------

    def end_delays(self) -> None:
        """All that is due by now; what has expired by then goes before."""
        while True:
            due = [item for item in self.held if item.until <= self.world.now]
            if not due:
                break
            item = min(due, key=lambda each: (each.until, each.seq))
            self.held.remove(item)
            self.expire(self.world.now - 1)
            if item.expires <= self.world.now:
                if not self.is_outdated(item):
                    self.expire(item.expires)
                    self.give_up(item, "expired")
                continue
            if item.returns > 0:
                self.give_back([item])
                continue
            self.make_way(1, len(item.body))
            item.position = self.number()
            self.make_ready(item)
            self.trim()

    def expire(self, limit: int) -> None:
        for item in sorted(self.ready, key=lambda each: (each.expires, each.seq)):
            if item.expires <= limit:
                self.ready.remove(item)
                self.give_up(item, "expired")

    # -- out ----------------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Judge what the broker delivered; all that can be delivered has to be."""
        while True:
            item = self.best()
            if item is None:
                return
            assert self.log, f"{item.body} of {self.name} is not delivered"
            found = self.log.popleft()
            assert found.body == item.body
            assert found.redelivered == item.redelivered
            takers = self.takers(item)
            assert found.client in takers
            assert found.client.priority == max(client.priority for client in takers) or self.single_active
            peers = [client for client in takers if client.priority == found.client.priority]
            assert item.avoided is not found.client or peers == [found.client]
            item.avoided = None
            self.ready.remove(item)
            found.client.credit -= 1
            if not found.client.no_ack:
                self.hands.append((found.client, item))

    def get(self) -> Item | None:
        self.used = self.world.now
        if self.is_paused:
            return None
        self.catch_up()
        self.expire(self.world.now)
        item = next((item for item in self.in_order() if self.is_free(item, None)), None)
        if item is not None:
            self.ready.remove(item)
            self.hands.append((None, item))
        return item

    def leave_hands(self, items: list[Item]) -> None:
        self.hands = [(holder, item) for holder, item in self.hands if item not in items]

    def give_up(self, item: Item, reason: str) -> None:
        if self.dead_letters_to is not None and not self.gone:
            self.dying.append(item)
            self.world.letters.append((self, item, reason))

    def discard(self, item: Item) -> None:
        if self.dead_letters_to is not None:
            self.dying.append(item)
            self.world.discarded.append((self, item, "maxlen"))

    def take_back(self, items: list[Item], failed: bool) -> None:
        """What clients gave back; `failed`, because they could not handle it."""
        self.leave_hands(items)
        if self.gone:
            return
        pauses = self.retry == "all" or self.retry == ("failed" if failed else "returned")
        back = []
        for item in items:
            if self.is_outdated(item):
                continue
            item.redelivered = True
            item.returns += 1
            if self.delivery_limit is not None and item.returns > self.delivery_limit:
                self.give_up(item, "delivery_limit")
            elif pauses and not self.is_grouped:
                item.until = min(self.world.now + self.pause, item.expires)
                self.held.append(item)
            else:
                back.append(item)
        self.give_back(back)

    def give_back(self, items: list[Item]) -> None:
        for item in [item for item in items if item.expires <= self.world.now]:
            items.remove(item)
            if not self.is_outdated(item):
                self.give_up(item, "expired")
        self.make_way(len(items), sum(len(item.body) for item in items))
        self.ready += [item for item in items if not self.is_outdated(item)]
        self.trim()

    def purge(self) -> int:
        count = len(self.ready) + len(self.held)
        self.ready = []
        self.held = []
        return count

    def delete(self) -> None:
        self.purge()
        self.gone = True
        del self.world.queues[self.name]

    def kept(self) -> list[str]:
        """The bodies that a crash must not take."""
        items = [*self.ready, *self.held, *(item for _, item in self.hands)]
        return [item.body for item in items if item.persistent]
