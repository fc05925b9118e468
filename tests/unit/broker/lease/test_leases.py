"""Leases: who has one, what it holds, and what becomes of that when somebody else does something to the queue."""

from collections.abc import Callable

import pytest

import flintmq
from flintmq.base.errors import AccessRefused, InternalError, NotFound, PreconditionFailed, StorageError
from flintmq.base.limits import LEASE_EXTEND_MAX_MESSAGES
from flintmq.broker.lease import lease as lease_module
from flintmq.broker.lease import registry as leases_module
from flintmq.broker.lease import returns
from flintmq.broker.lease.lease import Lease
from flintmq.broker.message import Entry, Table
from flintmq.broker.ports import Page
from flintmq.broker.queue.entries import EntryQueue
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import MemoryStorage, Taker, message, purge


class World(worlds.World):
    """A broker with a queue."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        super().__init__(storage)
        if storage is None:
            self.declare("q", {"x-max-priority": 9})
        else:
            self.broker.dispatch()
        self.leases = self.vhost.leases

    @property
    def queue(self) -> EntryQueue:
        found = super().queue
        assert isinstance(found, EntryQueue)
        return found

    def put(self, *bodies: str, persistent: bool = True, headers: str = "") -> None:
        for body in bodies:
            self.vhost.deliver(message(body, persistent, headers), [self.queue])

    def lease(self, count: int = 0, timeout_ms: int = 0) -> Lease:
        lease = self.leases.open(self.queue, "reader", 0, timeout_ms)
        lease.extend(lease.epoch, count, 0)
        return lease

    def taken(self) -> list[str]:
        """What is ready, which is taken out."""
        return worlds.bodies(self.queue)

    @property
    def kept(self) -> list[bytes]:
        """Messages in the journal, and how many notes are there beside them."""
        kept = self.storage.memory_journal.kept
        return sorted(body for (queue_id, _), body in kept.items() if queue_id == self.queue.id)

    @property
    def notes(self) -> int:
        return len(self.storage.memory_journal.kept) - len(self.kept)


def bodies(lease: Lease) -> list[tuple[int, str]]:
    found = []
    position = lease.first
    while (leased := lease.read(position)) is not None:
        for index in range(leased.index(position), len(leased.entries)):
            position = leased.position(index)
            found.append((position, leased.entries[index].message.body.decode()))
            position += 1
    return found


# -- who has it --------------------------------------------------------------------------------------------------------


def test_a_reader_takes_over() -> None:
    """The newest epoch is the only one that may go on; what was leased is its now."""
    world = World()
    world.put("a", "b")
    first = world.lease(2)
    old = first.epoch
    second = world.leases.open(world.queue, "reader", 0, 0)
    assert (second, second.epoch > old, bodies(second)) == (first, True, [(0, "a"), (1, "b")])
    fenced: list[Callable[[], object]] = [
        lambda: world.leases.open(world.queue, "reader", old, 0),
        lambda: second.extend(old, 1, 0),
        lambda: second.settle(old, 1),
        lambda: second.release(old),
    ]
    for call in fenced:
        with pytest.raises(PreconditionFailed, match="taken over by another reader with the same consumer name"):
            call()
    assert world.leases.open(world.queue, "reader", second.epoch, 0) is second
    second.settle(second.epoch, 1)
    assert bodies(second) == [(1, "b")]


def test_names_have_leases_of_their_own() -> None:
    """Two readers with two names share a queue as consumers do; positions are each one's own."""
    world = World()
    world.put("a", "b", "c")
    one = world.leases.open(world.queue, "one", 0, 0)
    other = world.leases.open(world.queue, "other", 0, 0)
    for lease in (one, other, one):
        lease.extend(lease.epoch, 1, 0)
    assert (bodies(one), bodies(other)) == ([(0, "a"), (1, "c")], [(0, "b")])
    assert (len(world.leases), world.leases.of(world.queue)) == (2, [one, other])


def test_an_epoch_is_none_of_a_lease_before() -> None:
    """Whoever read by a lease that was released is fenced by the one that has its name now."""
    world = World()
    before = world.lease()
    before.release(before.epoch)
    after = world.lease()
    assert after.epoch > before.epoch
    with pytest.raises(PreconditionFailed):
        after.settle(before.epoch, 0)
    assert after.release(0) == 0
    with pytest.raises(NotFound, match="no lease 'reader' of queue 'q' in vhost '/'"):
        world.leases.open(world.queue, "reader", after.epoch, 0)


def test_positions_that_were_not_leased_cannot_be_settled() -> None:
    """A reader that is ahead of its lease has another one's positions; one that is behind has nothing to do."""
    world = World()
    world.put("a", "b")
    lease = world.lease(2)
    with pytest.raises(PreconditionFailed, match="position 3 .* was not leased yet: the next one is 2"):
        lease.settle(lease.epoch, 3)
    lease.settle(lease.epoch, 1)
    lease.settle(lease.epoch, 0)
    assert bodies(lease) == [(1, "b")]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"x-queue-type": "stream"}, "is a stream and cannot be leased: read it by offset"),
        ({"x-group-header": "g"}, r"one message of a group at a time \(x-group-header\): it cannot be leased"),
        ({"x-single-active-consumer": True}, r"\(x-single-active-consumer\): it cannot be leased"),
    ],
)
def test_queues_that_cannot_be_leased(arguments: Table, fault: str) -> None:
    """Where batches would break what the queue was declared for, the error says what that is."""
    world = World()
    with pytest.raises(PreconditionFailed, match=fault):
        world.leases.open(world.declare("other", arguments), "reader", 0, 0)
    assert len(world.leases) == 0


def test_a_lease_and_an_exclusive_consumer_exclude_each_other() -> None:
    """Either of them would get what the other takes for its own."""
    world = World()
    lease = world.lease()
    alone = Taker(exclusive=True)
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        world.queue.subscribe(alone, {})
    lease.release(0)
    world.queue.subscribe(alone, {})
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        world.lease()


@pytest.mark.skipif(flintmq.compiled, reason="limits are part of compiled code")
def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many leases in a virtual host, so many extensions that were not settled; the error says what to do."""
    monkeypatch.setattr(leases_module, "LEASES_MAX", 1)
    monkeypatch.setattr(lease_module, "LEASE_EXTENSIONS_MAX", 2)
    world = World()
    world.put("a", "b", "c")
    lease = world.lease(1)
    with pytest.raises(PreconditionFailed, match="release unused ones"):
        world.leases.open(world.queue, "other", 0, 0)
    with pytest.raises(PreconditionFailed, match="needs the name of a consumer"):
        world.leases.open(world.queue, "", 0, 0)
    lease.extend(lease.epoch, 1, 0)
    with pytest.raises(PreconditionFailed, match="was extended 2 times without a settle"):
        lease.extend(lease.epoch, 1, 0)
    # To ask where it stands is no extension.
    assert lease.extend(lease.epoch, 0, 0) == 0
    lease.settle(lease.epoch, 2)
    assert lease.extend(lease.epoch, 1, 0) == 1


def test_what_was_fetched() -> None:
    """The journal is told of the first of what is not settled, and so it outlives a restart that something was read."""
    world = World()
    world.put(*"abcdef")
    lease = world.lease(6)
    assert [lease.fetched_before(position) for position in (0, 2, 4, 3)] == [False, True, False, False]
    assert lease.fetched == 4
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    assert found.fetched == 2
    found.settle(found.epoch, 4)
    assert [found.fetched_before(position) for position in (3, 5)] == [False, True]
    assert found.release(0) == 2
    assert again.lease(1).fetched == 0


def test_what_was_fetched_before_that_was_noted() -> None:
    """A lease of an older version counts all that was leased as fetched: nobody can know."""
    world = World()
    world.put(*"ab")
    lease = world.lease(2)
    state = lease._state
    assert state is not None
    world.storage.memory_journal.kept[lease.record.id, state.seq] = state.message.body[:18]
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    assert (found.epoch, found.first, found.fetched) == (lease.epoch, 0, 2)


# -- what it holds -----------------------------------------------------------------------------------------------------


def test_what_is_taken_at_once_has_bounds() -> None:
    """As many messages and bytes as were asked for, one in any case, and no more than the tick has time for."""
    world = World()
    world.put("a" * 10, "b" * 10, "c" * 10, "d" * 10)
    lease = world.lease()
    assert [lease.extend(lease.epoch, *limits) for limits in ((9, 25), (9, 3), (0, 0))] == [2, 1, 0]
    assert (lease.first, lease.next, world.queue.message_count) == (0, 3, 1)
    world.put(*["x"] * (LEASE_EXTEND_MAX_MESSAGES + 1))
    assert lease.extend(lease.epoch, 2**62, 0) == LEASE_EXTEND_MAX_MESSAGES


def test_a_paused_queue_gives_nothing() -> None:
    """As consumers get nothing from it."""
    world = World()
    world.put("a")
    world.queue.settings.paused = True
    assert world.lease(1).count == 0


def test_what_is_leased_does_not_expire() -> None:
    """It is in a reader's hands, as with a consumer; what comes back expires when its time is over."""
    world = World()
    world.put("a", "b", headers="ttl=100")
    lease = world.lease(2)
    world.pass_ms(200)
    assert bodies(lease) == [(0, "a"), (1, "b")]
    lease.settle(lease.epoch, 1)
    lease.release(0)
    world.pass_ms(1)
    assert (world.taken(), world.kept) == ([], [])


def test_what_expires_before_it_is_leased_is_not() -> None:
    """Also where it was packed away meanwhile."""
    world = World()
    world.put(*"abcdefgh", headers="ttl=100")
    world.put("i")
    world.queue.page_out()
    world.broker.now_ms += 200
    assert bodies(world.lease(9)) == [(0, "i")]


def test_purging_leaves_what_is_leased() -> None:
    """As it leaves what consumers have."""
    world = World()
    world.put("a", "b", "c")
    lease = world.lease(2)
    assert purge(world.queue) == 1
    assert (bodies(lease), world.kept) == ([(0, "a"), (1, "b")], [b"a", b"b"])


@pytest.mark.parametrize("arguments", [{}, {"x-dedup-size": 10}, {"x-last-value-key": "k"}, {"x-max-length-bytes": 99}])
@pytest.mark.parametrize("is_packed", [False, True])
def test_settled_messages_are_gone(arguments: Table, is_packed: bool) -> None:
    """Whatever the queue has to be told of each: nothing of them is left in the journal."""
    world = World()
    world.vhost.remove_queue(world.queue)
    world.declare("q", arguments)
    world.put(*[f"{number}" for number in range(30)])
    if is_packed:
        world.queue.page_out()
    lease = world.lease(30)
    assert [body for _, body in bodies(lease)] == [f"{number}" for number in range(30)]
    lease.settle(lease.epoch, 17)
    assert world.kept == [b"%d" % number for number in range(17, 30)]
    lease.settle(lease.epoch, 30)
    # One note says where the lease stands.
    assert (world.kept, world.notes, lease.count) == ([], 1, 0)


def test_a_newer_value_takes_the_place_of_what_comes_back() -> None:
    """What was leased of a queue of last values is outdated by then."""
    world = World()
    world.vhost.remove_queue(world.queue)
    world.declare("q", {"x-last-value-key": "k"})
    world.put("old", headers="k=1")
    lease = world.lease(1)
    world.put("new", headers="k=1")
    lease.release(0)
    assert (world.taken(), world.kept) == (["new"], [])


def test_small_extensions_are_kept_together() -> None:
    """A reader that leases one message at a time does not cost a page for each."""
    world = World()
    world.put(*[f"{number}" for number in range(100)])
    lease = world.lease()
    for _ in range(100):
        lease.extend(lease.epoch, 1, 0)
    assert len(world.storage.memory_pages.kept) < 10
    assert bodies(lease) == [(number, f"{number}") for number in range(100)]


def test_an_extension_holds_where_a_page_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was leased before is of no use to its reader for now; what is leased next is all there after a restart."""
    world = World()
    world.put("a", "b", "c")
    lease = world.lease(1)

    def broken(_page: Page) -> list[Entry]:
        raise StorageError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(world.storage.memory_pages, "read", broken)
        assert lease.extend(lease.epoch, 2, 0) == 2
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    assert (found.next, bodies(found)) == (3, [(0, "a"), (1, "b"), (2, "c")])


def test_what_cannot_be_read_is_settled_as_one_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch ends within a page that cannot be read: nothing of it is settled, and all of it when that is over."""
    world = World()
    world.put("a" * 300_000, "b" * 300_000, "c", "d")
    lease = world.lease(2)
    lease.extend(lease.epoch, 2, 0)

    def broken(_page: Page) -> list[Entry]:
        raise StorageError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(world.storage.memory_pages, "read", broken)
        with pytest.raises(InternalError, match="broken"):
            lease.settle(lease.epoch, 3)
    assert (lease.first, len(bodies(lease)), len(world.kept)) == (0, 4, 4)
    lease.settle(lease.epoch, 3)
    assert (lease.first, len(bodies(lease)), len(world.kept)) == (3, 1, 1)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_what_is_released_is_back_in_its_place() -> None:
    """Before what is behind it, flagged, and without counting as a failure; the lease is forgotten, notes and all."""
    world = World()
    world.put("a", "b", "c", "d")
    lease = world.lease(3)
    lease.settle(lease.epoch, 1)
    assert lease.release(lease.epoch) == 2
    entry = world.queue.get()
    assert entry is not None
    assert (entry.message.body, entry.redelivered, entry.returns) == (b"b", True, 0)
    world.queue.release([entry])
    assert world.taken() == ["b", "c", "d"]
    assert (world.notes, world.storage.memory_definitions.leases, len(world.leases)) == (0, {}, 0)
    assert world.lease().next == 0


@pytest.mark.skipif(flintmq.compiled, reason="limits are part of compiled code")
def test_much_goes_back_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick stays short; all of it is back soon, and after a restart at once."""
    monkeypatch.setattr(returns, "_STEP_MESSAGES", 1)
    world = World()
    world.put(*[f"{number:03}" + "." * 300_000 for number in range(4)])
    world.lease(4).release(0)
    assert world.queue.message_count == 1
    world.pass_ms(1)
    assert world.queue.message_count == 2
    assert world.restarted().queue.message_count == 4
    # What is yet to go back goes with its queue.
    world.vhost.remove_queue(world.queue)
    assert (world.storage.memory_journal.kept, world.storage.memory_pages.kept) == ({}, {})


def test_a_reader_that_is_silent_loses_what_it_has() -> None:
    """After its time it all goes back; positions pass, and who comes back has to take over to go on."""
    world = World()
    world.put("a", "b", "c")
    lease = world.lease(2, timeout_ms=100)
    world.pass_ms(90)
    lease.used()
    world.pass_ms(90)
    assert lease.count == 2
    world.pass_ms(20)
    assert (lease.first, lease.next, lease.count) == (2, 2, 0)
    for call in (lease.settle, lambda epoch, up_to: lease.extend(epoch, up_to, 0)):
        with pytest.raises(PreconditionFailed, match="timed out: it was not used for 100 ms"):
            call(lease.epoch, 2)
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    with pytest.raises(PreconditionFailed, match="timed out"):
        found.settle(found.epoch, 2)
    found = again.lease(2, timeout_ms=100)
    assert bodies(found) == [(2, "a"), (3, "b")]


def test_time_begins_anew_with_the_broker() -> None:
    """Nobody can call while it is down."""
    world = World()
    world.put("a")
    world.lease(1, timeout_ms=100)
    again = world.restarted()
    (lease,) = again.leases.of(again.queue)
    again.pass_ms(90)
    assert lease.count == 1
    again.pass_ms(20)
    assert (lease.count, again.taken()) == (0, ["a"])


@pytest.mark.parametrize("of", ["queue", "vhost"])
def test_a_lease_goes_with_its_queue(of: str) -> None:
    """What it held is gone as what was ready is, and nothing of it is left anywhere."""
    world = World()
    world.put("a", "b", "c")
    lease = world.lease(2, timeout_ms=100)
    if of == "queue":
        world.vhost.remove_queue(world.queue)
    else:
        world.broker.delete_vhost("/")
    assert (world.storage.memory_journal.kept, world.storage.memory_pages.kept) == ({}, {})
    assert (lease.count, len(world.leases), world.broker.next_due_ms) == (0, 0, 0)
    if of == "queue":
        assert world.storage.memory_definitions.leases == {}
        queue = world.declare("q")
        with pytest.raises(NotFound):
            world.leases.find(queue, "reader")


# -- a restart ---------------------------------------------------------------------------------------------------------


def test_a_restart_finds_what_was_leased() -> None:
    """The same messages at the same positions, flagged as they were; the others are on the queue."""
    world = World()
    world.put("a", "b", "c", "d")
    entry = world.queue.get()
    assert entry is not None
    world.queue.release([entry])
    lease = world.lease(2)
    lease.extend(lease.epoch, 1, 0)
    lease.settle(lease.epoch, 0)
    again = world.restarted()
    assert again.count == 4
    (found,) = again.leases.of(again.queue)
    leased = found.read(0)
    assert leased is not None
    assert [entry.redelivered for entry in leased.entries] == [True, False]
    assert (found.epoch, bodies(found)) == (lease.epoch, [(0, "a"), (1, "b"), (2, "c")])
    assert again.taken() == ["d"]
    found.settle(found.epoch, 3)
    assert (again.kept, again.notes) == ([], 1)
    assert found.extend(found.epoch, 1, 0) == 0
    assert (found.first, found.next) == (3, 3)


def test_transient_messages_leave_gaps() -> None:
    """A restart loses them, as it does any; their positions are passed over, and never given to others."""
    world = World()
    world.put("a")
    world.put("b", persistent=False)
    world.put("c")
    world.put("d", persistent=False)
    lease = world.lease(4)
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    assert (found.first, found.next, bodies(found)) == (0, 4, [(0, "a"), (2, "c")])
    assert found.read(3) is None
    found.settle(lease.epoch, 2)
    assert (bodies(found), again.kept) == ([(2, "c")], [b"c"])
    again.put("e")
    found.extend(found.epoch, 1, 0)
    assert bodies(found) == [(2, "c"), (4, "e")]


def test_lost_messages_lend_their_numbers_to_nobody() -> None:
    """What is published after a restart is none of a lease that held messages which were not kept."""
    world = World()
    world.put("a")
    world.put("b", "c", persistent=False)
    world.lease(3)
    again = world.restarted()
    again.put("d", "e")
    third = again.restarted()
    (found,) = third.leases.of(third.queue)
    assert bodies(found) == [(0, "a")]
    found.settle(found.epoch, 3)
    assert third.taken() == ["d", "e"]


def test_priorities_have_their_order_again() -> None:
    """Positions are in the order in which messages were taken, not in that of their numbers."""
    world = World()
    for priority in (1, 5, 3):
        world.put(f"{priority}", headers=f"priority={priority}")
    assert bodies(world.lease(3)) == [(0, "5"), (1, "3"), (2, "1")]
    again = world.restarted()
    (found,) = again.leases.of(again.queue)
    assert bodies(found) == [(0, "5"), (1, "3"), (2, "1")]


def test_what_does_not_survive_cannot_be_leased() -> None:
    """After a restart, positions of other messages would be taken for those that a reader knows."""
    world = World()
    with pytest.raises(PreconditionFailed, match="queue 'other' in vhost '/' does not survive a restart"):
        world.leases.open(world.declare("other", durable=False), "reader", 0, 0)
    assert world.storage.memory_definitions.leases == {}
