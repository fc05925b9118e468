"""The journal beside a model of it: messages published, moved, replaced, returned and settled, alone and in groups;
syncs, restarts and crashes at any time.
"""

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.message import PERSISTENT, Address, Entry, Message
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from tests.effort import effort
from tests.property import in_memory
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.nodes import PlainCodec

# Small, so that a run of some dozen steps fills, removes, moves and reuses segments.
SEGMENT_BYTES = 1500
STEP_BYTES = 300
QUEUES = (1, 2, 3)
DIRECTORY = Path("/journal")


CODEC = PlainCodec()
CODEC.format = 1
NOTHING = Message(Address("", ""), CODEC, b"", b"", PERSISTENT, 0)
# A place on a queue.
Key = tuple[int, int]


class Group:
    """What is in the journal as one: places that were filled, and places that were emptied."""

    def __init__(self) -> None:
        self.published: list[Key] = []
        self.settled: list[Key] = []
        self.is_sure = False


class Packed:
    """All that a queue keeps of an entry that left memory: what the journal is told by it must still be right."""

    def __init__(self, entry: Entry) -> None:
        self._seq = int(entry.seq)
        self.segment = int(entry.segment)
        self.slot = int(entry.slot)
        self.returns = int(entry.returns)

    def entry(self) -> Entry:
        entry = Entry(NOTHING, self._seq)
        entry.segment = self.segment
        entry.slot = self.slot
        entry.returns = self.returns
        return entry


class JournalMachine(RuleBasedStateMachine):
    """`live` is what the broker holds. A key is in `promised` once its message is durable; in `settling` from its
    settlement on, and in `settled` once that is durable.
    """

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.counter = 0
        self.live: dict[Key, Packed] = {}
        self.body: dict[Key, bytes] = {}
        self.promised: set[Key] = set()
        self.settling: set[Key] = set()
        self.settled: set[Key] = set()
        # Where a message was moved to in the batch that settled it: it must be in one of the places.
        self.moved: dict[Key, Key] = {}
        # What each group since the last look published and settled, and whether it has to be there.
        self.groups: list[Group] = []
        # How often each place has come back, every time it did since the last look; and how much of that is durable.
        self.returns: dict[Key, list[int]] = {}
        self.sure_returns: dict[Key, int] = {}
        # What each place held since the last look, where that changed; and how many of those are behind a durable one.
        self.versions: dict[Key, list[bytes]] = {}
        self.sure_versions: dict[Key, int] = {}
        self._open()

    def _open(self) -> None:
        self.files = JournalFiles(self.disk, DIRECTORY, SEGMENT_BYTES)
        self.encoder = JournalEncoder(SEGMENT_BYTES, self.files.chunks, STEP_BYTES)
        replay = Replay({1: CODEC}, set(QUEUES))
        number = self.files.recover(replay, self.encoder.occupancy)
        self.next_seq = replay.next_seqs()
        self.encoder.start(number, max(self.next_seq.values()) - 1)
        self.files.drop(self.encoder.occupancy.drop_dead())
        self.writer = RoundWriter(in_memory.definitions(), self.files)
        found = replay.entries(self.files, self.encoder.occupancy)
        self.found = [(queue, entry) for queue, entries in found for entry in entries]
        self.handed_over: list[Batch] = []

    def _publish(self, queues: list[int], size: int) -> list[Key]:
        self.counter += 1
        body = b"%d." % self.counter * size
        message = Message(Address("ex", "k"), CODEC, b"p", body, PERSISTENT, self.counter)
        keys = []
        for queue in queues:
            keys.append((queue, self.next_seq[queue]))
            self.next_seq[queue] += 1
        entries = [Entry(message, seq) for _, seq in keys]
        self.encoder.append(message, queues, entries)
        for key, entry in zip(keys, entries, strict=True):
            assert key not in self.body, "a sequence number was used twice"
            self.live[key] = Packed(entry)
            self.body[key] = body
        return keys

    def _settle(self, key: Key) -> None:
        self.encoder.settle(key[0], self.live.pop(key).entry())
        self.settling.add(key)

    @rule(
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, unique=True),
        size=st.sampled_from([1, 100, 1000]),
        batches=st.integers(0, 5),
    )
    def publish(self, queues: list[int], size: int, batches: int) -> None:
        self._publish(queues, size)
        for _ in range(batches):
            self.write()
            self._publish(queues, size)

    @rule(
        queues=st.lists(st.sampled_from(QUEUES), min_size=1, unique=True),
        batches=st.integers(1, 20),
        kept=st.sampled_from([5, 11, 30]),
        old=st.integers(0, 2),
        synced=st.booleans(),
    )
    def churn(self, queues: list[int], batches: int, kept: int, old: int, synced: bool) -> None:
        """Much comes and goes, and some of it stays for long: what remains has to move."""
        for _ in range(batches):
            for key in sorted(self.live)[: old * 3 : 3]:
                self._settle(key)
            for number in range(5):
                for key in self._publish(queues, 20):
                    if (key[1] + number) % kept != 0:
                        self._settle(key)
            if synced:
                self.sync()
            else:
                self.write()

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.sampled_from([1, 5, 100]))
    def settle(self, data: st.DataObject, count: int) -> None:
        keys = sorted(self.live)
        first = data.draw(st.integers(0, len(keys) - 1))
        for key in keys[first : first + count]:
            self._settle(key)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES), count=st.sampled_from([1, 5, 100]))
    def settle_runs(self, data: st.DataObject, queue: int, count: int) -> None:
        """Purge part of a queue."""
        keys = sorted(key for key in self.live if key[0] == queue)
        first = data.draw(st.integers(0, len(keys)))
        keys = keys[first : first + count]
        seq_runs: list[int] = []
        slot_runs: list[int] = []
        for key in keys:
            packed = self.live.pop(key)
            self.settling.add(key)
            if seq_runs and key[1] == seq_runs[-2] + seq_runs[-1]:
                seq_runs[-1] += 1
            else:
                seq_runs += [key[1], 1]
            if slot_runs and slot_runs[-3:-1] == [packed.segment, packed.slot - slot_runs[-1]]:
                slot_runs[-1] += 1
            else:
                slot_runs += [packed.segment, packed.slot, 1]
        self.encoder.settle_runs(queue, seq_runs, slot_runs)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.sampled_from([1, 5, 30]))
    def give_back(self, data: st.DataObject, count: int) -> None:
        """Some messages come back to their queues once more than before."""
        keys = sorted(self.live)
        first = data.draw(st.integers(0, len(keys) - 1))
        for key in keys[first : first + count]:
            self._give_back(key)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.sampled_from([1, 5, 30]), size=st.sampled_from([0, 1000]))
    def replace(self, data: st.DataObject, count: int, size: int) -> None:
        """Some places get another message."""
        keys = sorted(self.live)
        first = data.draw(st.integers(0, len(keys) - 1))
        for key in keys[first : first + count]:
            self._replace(key, size)

    def _replace(self, key: Key, size: int) -> None:
        versions = self.versions.setdefault(key, [self.body[key]])
        body = self.body[key].partition(b"/")[0] + b"/%d" % len(versions) + b"." * size
        versions.append(body)
        self.body[key] = body
        entry = self.live[key].entry()
        self.encoder.replace(key[0], entry, Message(Address("ex", "k"), CODEC, b"p", body, PERSISTENT, 0))
        self.live[key] = Packed(entry)

    def _give_back(self, key: Key) -> None:
        packed = self.live[key]
        packed.returns += 1
        self.encoder.returned(key[0], packed.entry())
        self.returns.setdefault(key, []).append(packed.returns)

    @rule(
        data=st.data(),
        publishes=st.lists(
            st.tuples(st.lists(st.sampled_from(QUEUES), min_size=1, unique=True), st.sampled_from([1, 100, 1500])),
            max_size=4,
        ),
        settled=st.integers(0, 4),
        returned=st.integers(0, 3),
        before=st.booleans(),
    )
    def transact(
        self, data: st.DataObject, publishes: list[tuple[list[int], int]], settled: int, returned: int, before: bool
    ) -> None:
        """A group over several queues, one within it, among what is staged by itself."""
        if before:
            self._publish([1], 10)
        keys = data.draw(st.permutations(sorted(self.live)))[: settled + returned]
        group = Group()
        self.encoder.begin_group()
        for key in keys[:settled]:
            self._settle(key)
            group.settled.append(key)
        self.encoder.begin_group()
        for queues, size in publishes:
            group.published += self._publish(queues, size)
        self.encoder.end_group()
        for key in keys[settled:]:
            self._give_back(key)
        self.encoder.end_group()
        if len(group.published) + len(group.settled) > 1:
            self.groups.append(group)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES), count=st.integers(1, 20))
    def move(self, data: st.DataObject, queue: int, count: int) -> None:
        """Dead-letter some messages: publish them elsewhere and settle them here."""
        keys = sorted(self.live)
        first = data.draw(st.integers(0, len(keys) - 1))
        for key in keys[first : first + count]:
            self.moved[key] = self._publish([queue], 1)[0]
            self._settle(key)

    @rule()
    def commit(self) -> None:
        if self.encoder.staged:
            batch = self.encoder.take()
            self.handed_over.append(Batch(0, 0, [], batch, [], []))

    @rule()
    def write(self) -> None:
        self.commit()
        self.writer.write(self.handed_over)
        self.handed_over = []

    @rule()
    def sync(self) -> None:
        self.commit()
        self.writer.write_through(self.handed_over)
        self.handed_over = []
        self.promised = set(self.body)
        self.settled = set(self.settling)
        self.sure_returns = {key: counts[-1] for key, counts in self.returns.items()}
        self.sure_versions = {key: len(versions) - 1 for key, versions in self.versions.items()}
        for group in self.groups:
            group.is_sure = True
        self.writer.tidy()
        if not self.live:
            assert len(self.files.numbers) == 1, "a dead segment was kept"
        occupancy = self.encoder.occupancy
        for packed in self.live.values():
            home = occupancy.home(packed.segment)
            assert home is not None
            assert home.is_live(packed.slot)
        assert sum(segment.held for segment in occupancy.segments()) == len(self.live)

    @rule(ending=st.sampled_from(["clean", "crash", "crash, and again while recovering"]), seed=st.integers(0, 1 << 30))
    def restart(self, ending: str, seed: int) -> None:
        if ending == "clean":
            self.sync()
            self.writer.seal()
            self.files.close()
        else:
            self.disk.lose_power(seed)
        if ending == "crash, and again while recovering":
            self._open()
            self.disk.lose_power(seed + 1)
        self._open()
        self._compare()

    def _compare(self) -> None:
        found = {(queue, entry.seq): entry for queue, entry in self.found}
        assert len(found) == len(self.found)
        for queue in QUEUES:
            seqs = [entry.seq for of, entry in self.found if of == queue]
            assert seqs == sorted(seqs), "a queue is not in order"
        assert self.files.damage == []
        assert self.promised - self.settling <= set(found)
        assert set(found) <= set(self.body) - self.settled
        for key, entry in found.items():
            versions = self.versions.get(key, [self.body[key]])
            assert entry.message.body in versions[self.sure_versions.get(key, 0) :]
        for key in self.promised - self.settled - set(found):
            place = key
            while place in self.moved and place not in found:
                place = self.moved[place]
            assert key not in self.moved or place in found or place in self.settling, "a moved message was lost"
        for key, entry in found.items():
            counts = [0, *self.returns.get(key, [])]
            assert entry.returns in counts, "a message came back as often as it never did"
            assert entry.returns >= self.sure_returns.get(key, 0), "a return is forgotten"
        for group in self.groups:
            self._compare_group(group, set(found))
        # What was not found is gone for good; what was is durable.
        self.live = {key: Packed(entry) for key, entry in found.items()}
        self.body = {key: entry.message.body for key, entry in found.items()}
        self.versions = {}
        self.sure_versions = {}
        self.promised = set(found)
        self.settling = set()
        self.settled = set()
        self.moved = {}
        self.groups = []
        self.returns = {key: [int(entry.returns)] for key, entry in found.items()}
        self.sure_returns = {key: counts[0] for key, counts in self.returns.items()}

    def _compare_group(self, group: Group, found: set[Key]) -> None:
        """All of a group, or nothing of it."""
        # What it published and something settled since tells nothing of the group.
        parts = {f"{key} is published": key in found for key in group.published if key not in self.settling}
        # What was published since the last look, and is not there, may never have been there.
        parts |= {
            f"{key} is settled": key not in found for key in group.settled if key in found or key in self.promised
        }
        assert len(set(parts.values())) <= 1, f"half a group: {parts}"
        assert not group.is_sure or False not in parts.values(), "a durable group is lost"


# On a busy machine it may take more than the minutes that any other test has.
pytestmark = pytest.mark.timeout(480)
TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=effort(120), stateful_step_count=50)
