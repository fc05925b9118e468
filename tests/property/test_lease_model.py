"""A lease beside a model of it: whatever a crash takes, a position has one message, and a message one place.

Each step is a batch of its own, so that a crash leaves the state after some step that was not before the last sync.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.lease.lease import Lease
from flintmq.broker.lease.registry import LeaseRegistry
from flintmq.broker.message import PERSISTENT, TRANSIENT, Address, Entry, Message
from flintmq.broker.ports import Journal, Pages
from flintmq.broker.queue.base import Recoverable
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.publish import put
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.tick import Tick
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from flintmq.storage.pages.spill import Spill, SpillRunner
from flintmq.storage.pages.store import PageStore
from tests.effort import effort
from tests.property import in_memory
from tests.sim.disk import SimulatedDisk
from tests.unit.broker.memory import MemoryDefinitions, MemoryStorage
from tests.unit.storage.nodes import CODEC, CODECS

# Small, so that segments end, are moved and go within a run.
SEGMENT_BYTES = 1500
DIRECTORY = Path("/journal")
QUEUE_ID = 1
TIMEOUT_MS = 1000


class LeaseStorage(MemoryStorage):
    def __init__(self, journal: Journal, pages: Pages, definitions: MemoryDefinitions) -> None:
        super().__init__()
        self.memory_definitions = definitions
        self._journal = journal
        self._pages = pages

    @property
    def journal(self) -> Journal:
        return self._journal

    @property
    def pages(self) -> Pages:
        return self._pages


class NoRunner(SpillRunner):
    """Pages stay in memory."""

    def submit(self, job: Callable[[], None]) -> None:
        raise AssertionError

    def close(self) -> None:
        """There is nothing to do."""


class State:
    """What there is: messages by their numbers, and whether somebody may have had them before.

    `held` are in a consumer's hands. `leased` are by their positions. `lease` is its id, 0 for none.
    """

    def __init__(self) -> None:
        self.ready: dict[int, bool] = {}
        self.held: set[int] = set()
        self.lease = 0
        self.epoch = 0
        self.leased: dict[int, tuple[int, bool]] = {}
        self.first = 0
        self.next = 0
        self.has_lapsed = False

    def copy(self) -> "State":
        made = State()
        made.__dict__.update(self.__dict__)
        made.ready, made.held, made.leased = dict(self.ready), set(self.held), dict(self.leased)
        return made

    def after_crash(self, lease: int, transient: set[int]) -> "State":
        """What a start makes of it, where the definitions have this lease."""
        made = self.copy()
        if lease != self.lease:
            made.put_back()
            made.lease, made.epoch, made.first, made.next, made.has_lapsed = lease, lease << 32, 0, 0, False
        made.ready = dict.fromkeys({*made.ready, *made.held} - transient, True)
        made.held = set()
        made.leased = {at: each for at, each in made.leased.items() if each[0] not in transient}
        return made

    def put_back(self) -> None:
        self.ready.update(dict.fromkeys((number for number, _ in self.leased.values()), True))
        self.leased = {}
        self.first = self.next


class LeaseMachine(RuleBasedStateMachine):
    """`now` is the state in memory, `since` all states since the last sync, the one that was synced included."""

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.definitions = MemoryDefinitions()
        self.counter = 0
        self.now_ms = 1
        self.following_id = QUEUE_ID + 1
        self.transient: set[int] = set()
        self.now = State()
        self.since = [self.now.copy()]
        self._open()
        for _ in range(60):
            self._put(False, 0)
        self.extend(40, 0)

    def _open(self) -> None:
        self.files = JournalFiles(self.disk, DIRECTORY, SEGMENT_BYTES)
        self.encoder = JournalEncoder(SEGMENT_BYTES, self.files.chunks)
        replay = Replay(CODECS, {QUEUE_ID}, set(self.definitions.leases))
        number = self.files.recover(replay, self.encoder.occupancy)
        next_seqs = replay.next_seqs()
        self.encoder.start(number, max(next_seqs.values()) - 1)
        self.files.drop(self.encoder.occupancy.drop_dead())
        self.writer = RoundWriter(in_memory.definitions(), self.files)
        pages = PageStore(CODECS, Spill(self.disk, Path("/pages"), NoRunner()), 1 << 30)
        self.tick = Tick()
        self.tick.pages = pages
        self.tick.now_ms = self.now_ms
        self.queue = ClassicQueue(QUEUE_ID, "/", "q", "classic", True, False, None, {}, self.tick, self.encoder)
        storage = LeaseStorage(self.encoder, pages, self.definitions)
        self.leases = LeaseRegistry("/", storage, self.tick, QueueIds(self.following_id))
        self.lease: Lease | None = None
        stored: dict[int, Recoverable] = {QUEUE_ID: Recovery(self.queue)}
        for record in list(self.definitions.leases.values()):
            self.lease = stored[record.id] = self.leases.restore(record, {QUEUE_ID: self.queue})  # type: ignore[assignment]
        for queue_id, entries in replay.entries(self.files, self.encoder.occupancy):
            stored[queue_id].restore_all(entries)
        for queue_id, next_seq in next_seqs.items():
            stored[queue_id].start_at(next_seq)
        self.held: list[Entry] = []

    def _done(self) -> None:
        """A step has been taken."""
        if self.encoder.staged:
            self.writer.write([Batch(0, 0, [], self.encoder.take(), [], [])])
        self._happened()

    def _happened(self) -> None:
        """A part of a step, which a crash leaves whole or not at all."""
        self.since.append(self.now.copy())

    # -- others who use the queue -------------------------------------------------------------------------------

    @rule(count=st.integers(1, 30), is_transient=st.booleans(), size=st.sampled_from([0, 300]))
    def publish(self, count: int, is_transient: bool, size: int) -> None:
        for _ in range(count):
            self._put(is_transient, size)
        self._done()

    def _put(self, is_transient: bool, size: int) -> None:
        self.counter += 1
        body = b"%d" % self.counter + b"." * size
        options = TRANSIENT if is_transient else PERSISTENT
        put([self.queue], Message(Address("", "q"), CODEC, b"", body, options, 1), self.encoder)
        self.now.ready[self.counter] = False
        if is_transient:
            self.transient.add(self.counter)
        self._happened()

    @rule(count=st.integers(1, 5))
    def consume(self, count: int) -> None:
        for _ in range(count):
            entry = self.queue.get()
            if entry is not None:
                assert entry.redelivered == self.now.ready.pop(_number(entry))
                self.held.append(entry)
                self.now.held.add(_number(entry))
        self._done()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_done=st.booleans())
    def settle_consumed(self, data: st.DataObject, is_done: bool) -> None:
        entry = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.now.held.remove(_number(entry))
        if is_done:
            self.queue.settle(entry)
        else:
            self.queue.release([entry])
            self.now.ready[_number(entry)] = True
        self._done()

    @rule()
    def page_out(self) -> None:
        self.queue.page_out()

    # -- the reader ---------------------------------------------------------------------------------------------

    @rule(timeout_ms=st.sampled_from([0, TIMEOUT_MS]))
    def open(self, timeout_ms: int) -> None:
        before = self.now.epoch
        self.lease = self.leases.open(self.queue, "reader", 0, timeout_ms)
        self.following_id = max(self.following_id, self.lease.record.id + 1)
        assert self.lease.epoch > before
        if self.lease.record.id != self.now.lease:
            self.now.lease = self.lease.record.id
            self.now.first = self.now.next = 0
        self.now.epoch = self.lease.epoch
        self.now.has_lapsed = False
        self._done()

    @rule(count=st.integers(0, 40), size=st.sampled_from([1, 1000, 0]))
    def extend(self, count: int, size: int) -> None:
        lease = self._lease()
        taken = lease.extend(self.now.epoch, count, size)
        assert taken <= count
        assert taken > 0 or count == 0 or not self.now.ready
        assert size or taken == min(count, len(self.now.ready))
        for number in sorted(self.now.ready)[:taken]:
            self.now.leased[self.now.next] = (number, self.now.ready.pop(number))
            self.now.next += 1
        self._done()
        assert _leased(lease) == self.now.leased

    @rule(data=st.data(), seed=st.none() | st.integers(0, 1 << 30))
    def settle(self, data: st.DataObject, seed: int | None) -> None:
        lease = self._lease()
        with pytest.raises(PreconditionFailed):
            lease.settle(self.now.epoch - 1, self.now.first)
        with pytest.raises(PreconditionFailed):
            lease.settle(self.now.epoch, self.now.next + 1)
        self.settle_up_to(self.now.next - data.draw(st.integers(0, self.now.next - self.now.first)), seed)

    def settle_up_to(self, up_to: int, seed: int | None) -> None:
        """With a seed, so much is published in the same batch that the journal cuts it; then comes a crash."""
        lease = self._lease()
        lease.settle(self.now.epoch, up_to)
        self.now.first = max(self.now.first, up_to)
        self.now.leased = {at: each for at, each in self.now.leased.items() if at >= up_to}
        self._happened()
        for _ in range(0 if seed is None else 20):
            self._put(False, 300)
        self._done()
        assert _leased(lease) == self.now.leased
        if seed is not None:
            self.restart(seed, False)

    @rule()
    def time_out(self) -> None:
        lease = self._lease()
        # A restart began to count anew.
        self.tick.timers.run(self.tick.now_ms)
        self.now_ms += TIMEOUT_MS + 1
        self.tick.now_ms = self.now_ms
        self.tick.timers.run(self.now_ms)
        if lease.record.timeout_ms and self.now.leased:
            self.now.put_back()
            self.now.has_lapsed = True
            with pytest.raises(PreconditionFailed):
                lease.extend(self.now.epoch, 1, 0)
            with pytest.raises(PreconditionFailed):
                lease.settle(self.now.epoch, self.now.next)
        self._done()

    @precondition(lambda self: self.lease is not None)
    @rule(by_force=st.booleans())
    def release(self, by_force: bool) -> None:
        lease, self.lease = self.lease, None
        assert lease is not None
        if self.now.has_lapsed and not by_force:
            with pytest.raises(PreconditionFailed):
                lease.release(self.now.epoch)
        assert lease.release(0 if by_force or self.now.has_lapsed else self.now.epoch) == len(self.now.leased)
        self.now.put_back()
        self.now.lease = self.now.first = self.now.next = 0
        self.now.has_lapsed = False
        self._done()

    def _lease(self) -> Lease:
        if self.lease is None or self.now.has_lapsed:
            self.open(TIMEOUT_MS)
        assert self.lease is not None
        return self.lease

    # -- the disk -----------------------------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        batches = [Batch(0, 0, [], self.encoder.take(), [], [])] if self.encoder.staged else []
        self.writer.write_through(batches)
        self.writer.tidy()
        self.since = [self.now.copy()]

    @rule(seed=st.integers(0, 1 << 30), clean=st.booleans())
    def restart(self, seed: int, clean: bool) -> None:
        if clean:
            self.sync()
            self.writer.seal()
            self.files.close()
        else:
            self.disk.lose_power(seed)
        self._open()
        self.now = self._found()
        self.sync()

    def _found(self) -> State:
        """Which of the states it is that was found."""
        lease = self.lease
        ready = {}
        entries = []
        while (entry := self.queue.get()) is not None:
            entries.append(entry)
            assert _number(entry) not in ready, "a message is there twice"
            ready[_number(entry)] = entry.redelivered
        self.queue.release(entries)
        expected = [each.after_crash(lease.record.id if lease else 0, self.transient) for each in self.since]
        for state in reversed(expected):
            if state.ready == ready and (lease is None or _is(lease, state)):
                return state
        found = (ready, lease and (lease.epoch, lease.first, lease.next, _leased(lease)))
        raise AssertionError(f"{found} is none of {[each.__dict__ for each in expected]}")


def _is(lease: Lease, state: State) -> bool:
    stands = (lease.epoch, lease.first, lease.next) == (state.epoch, state.first, state.next)
    is_same = stands and _leased(lease) == state.leased and lease.count == len(state.leased)
    return is_same and _has_lapsed(lease) == state.has_lapsed


def _has_lapsed(lease: Lease) -> bool:
    try:
        lease.extend(lease.epoch, 0, 0)
    except PreconditionFailed:
        return True
    return False


def _leased(lease: Lease) -> dict[int, tuple[int, bool]]:
    return {position: (_number(entry), entry.redelivered) for position, entry in _read(lease)}


def _read(lease: Lease) -> Iterator[tuple[int, Entry]]:
    position = lease.first
    while (leased := lease.read(position)) is not None:
        for index in range(leased.index(position), len(leased.entries)):
            position = leased.position(index)
            yield position, leased.entries[index]
            position += 1


def _number(entry: Entry) -> int:
    return int(entry.message.body.rstrip(b"."))


def test_settling_is_whole_or_not_at_all() -> None:
    """Wherever a crash cuts a batch: where the lease stands and what is settled say the same."""
    for seed in range(80):
        machine = LeaseMachine()
        machine.start()
        machine.sync()
        machine.settle_up_to(25, seed)


TestLease = LeaseMachine.TestCase
TestLease.settings = settings(max_examples=effort(40), stateful_step_count=50)
