"""The journal beside a model of it: messages published, moved and settled; syncs, restarts and crashes at any time."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.message import PERSISTENT, Address, Entry, Message
from flintmq.storage.definitions.sqlite import DefinitionDatabase
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from tests.property.lossy_disk import LossyDisk
from tests.unit.storage.nodes import PlainCodec

# Small, so that a run of some dozen steps fills, removes, moves and reuses segments.
SEGMENT_BYTES = 1500
QUEUES = (1, 2, 3)
DIRECTORY = Path("/journal")


CODEC = PlainCodec()
CODEC.format = 1
# A place on a queue.
Key = tuple[int, int]


class JournalMachine(RuleBasedStateMachine):
    """`live` is what the broker holds. A key is in `promised` once its message is durable; in `settling` from its
    settlement on, and in `settled` once that is durable.
    """

    @initialize()
    def start(self) -> None:
        self.disk = LossyDisk()
        self.counter = 0
        self.live: dict[Key, Entry] = {}
        self.body: dict[Key, bytes] = {}
        self.promised: set[Key] = set()
        self.settling: set[Key] = set()
        self.settled: set[Key] = set()
        # Where a message was moved to in the batch that settled it: it must be in one of the places.
        self.moved: dict[Key, Key] = {}
        self._open()

    def _open(self) -> None:
        self.files = JournalFiles(self.disk, DIRECTORY, SEGMENT_BYTES)
        self.encoder = JournalEncoder(SEGMENT_BYTES)
        replay = Replay({1: CODEC}, set(QUEUES))
        self.encoder.start(self.files.recover(replay, self.encoder.occupancy))
        self.files.drop(self.encoder.occupancy.drop_dead())
        self.next_seq = replay.next_seqs()
        self.writer = RoundWriter(DefinitionDatabase(Path(":memory:")), self.files)
        self.found = list(replay.entries())
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
            self.live[key] = entry
            self.body[key] = body
        return keys

    def _settle(self, key: Key) -> None:
        self.encoder.settle(key[0], self.live.pop(key))
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

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.sampled_from([1, 5, 100]))
    def settle(self, data: st.DataObject, count: int) -> None:
        keys = sorted(self.live)
        first = data.draw(st.integers(0, len(keys) - 1))
        for key in keys[first : first + count]:
            self._settle(key)

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
        self.writer.tidy()
        if not self.live:
            assert len(self.files.numbers) == 1, "a dead segment was kept"
        uses = {entry.segment: self.encoder.occupancy.use(entry.segment) for entry in self.live.values()}
        assert all(uses[entry.segment].entries[entry.slot] is entry for entry in self.live.values())
        assert sum(use.live for use in uses.values()) == len(self.live)

    @rule(ending=st.sampled_from(["clean", "crash", "crash, and again while recovering"]), seed=st.integers(0, 1 << 30))
    def restart(self, ending: str, seed: int) -> None:
        if ending == "clean":
            self.sync()
            self.writer.seal()
            self.files.close()
        else:
            self.disk.crash(seed)
        if ending == "crash, and again while recovering":
            self._open()
            self.disk.crash(seed + 1)
        self._open()
        self._compare()

    def _compare(self) -> None:
        found = {(queue, entry.seq): entry for queue, entry in self.found}
        assert len(found) == len(self.found)
        assert [(queue, entry.seq) for queue, entry in self.found] == sorted(found)
        assert self.files.damage == []
        assert self.promised - self.settling <= set(found)
        assert set(found) <= set(self.body) - self.settled
        for key, entry in found.items():
            assert entry.message.body == self.body[key]
        for key in self.promised - self.settled - set(found):
            place = key
            while place in self.moved and place not in found:
                place = self.moved[place]
            assert key not in self.moved or place in found or place in self.settling, "a moved message was lost"
        # What was not found is gone for good; what was is durable.
        self.live = found
        self.body = {key: self.body[key] for key in found}
        self.promised = set(found)
        self.settling = set()
        self.settled = set()
        self.moved = {}


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
