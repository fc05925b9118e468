"""Deduplication beside a model of it: whatever a crash takes, nothing that was confirmed is taken or forgotten.

And nothing is a duplicate that is neither on the queue nor was consumed from it.
"""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.message import Address, Entry, Message
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.publish import STORED, put
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.tick import Tick
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.effort import effort
from tests.property import in_memory
from tests.sim.disk import SimulatedDisk

# Small, so that segments end, are moved and go within a run.
SEGMENT_BYTES = 1500
DIRECTORY = Path("/journal")
IDS = st.sampled_from("abcdefgh")
PRODUCERS = st.sampled_from(["one", "two"])


def named(name: str) -> Message:
    """A message by its id, or by producer and number as "one 5"."""
    producer, _, number = name.partition(" ")
    if number:
        properties = Properties(delivery_mode=2, headers={"x-producer-id": producer, "x-producer-seq": int(number)})
    else:
        properties = Properties(delivery_mode=2, message_id=name)
    encoded = encode_properties(properties)
    return Message(Address("", "q"), CODEC_091, encoded, name.encode(), CODEC_091.options(encoded), 1)


class DedupMachine(RuleBasedStateMachine):
    """`stored` was accepted, `confirmed` are those of it that are durable, `consumed` what was settled."""

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.stored: set[str] = set()
        self.confirmed: set[str] = set()
        self.consumed: set[str] = set()
        self.numbers = {"one": 0, "two": 0}
        self.held: list[Entry] = []
        self._open()

    def _open(self) -> None:
        self.files = JournalFiles(self.disk, DIRECTORY, SEGMENT_BYTES)
        self.encoder = JournalEncoder(SEGMENT_BYTES, self.files.chunks)
        replay = Replay({1: CODEC_091}, {1, -1})
        number = self.files.recover(replay, self.encoder.occupancy)
        next_seqs = replay.next_seqs()
        self.encoder.start(number, max(next_seqs.values()) - 1)
        self.files.drop(self.encoder.occupancy.drop_dead())
        self.writer = RoundWriter(in_memory.definitions(), self.files)
        arguments: dict[str, object] = {"x-dedup-size": 1000}
        self.queue = ClassicQueue(1, "/", "q", "classic", True, False, None, arguments, Tick(), self.encoder)
        dedup = self.queue.dedup
        assert dedup is not None
        self.dedup = dedup
        for queue_id, entries in replay.entries(self.files, self.encoder.occupancy):
            (Recovery(self.queue) if queue_id == 1 else self.dedup).restore_all(entries)
        Recovery(self.queue).start_at(next_seqs[1])
        self.dedup.start_at(next_seqs[-1])

    def _publish(self, name: str) -> None:
        before = self.queue.message_count
        assert put([self.queue], named(name), self.encoder) == STORED
        assert (self.queue.message_count > before) == (name not in self.stored)
        self.stored.add(name)

    @rule(name=IDS)
    def publish(self, name: str) -> None:
        self._publish(name)

    @rule(producer=PRODUCERS, count=st.integers(1, 20))
    def produce(self, producer: str, count: int) -> None:
        for _ in range(count):
            self.numbers[producer] += 1
            self._publish(f"{producer} {self.numbers[producer]}")

    @rule(producer=PRODUCERS, back=st.integers(0, 20))
    def produce_again(self, producer: str, back: int) -> None:
        """From some number on, in order."""
        last = self.numbers[producer]
        for number in range(max(last - back, 1), last + 1):
            self._publish(f"{producer} {number}")

    @rule(count=st.integers(1, 20))
    def take(self, count: int) -> None:
        for _ in range(count):
            entry = self.queue.get()
            if entry is not None:
                self.held.append(entry)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), count=st.integers(1, 20))
    def settle(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.held))):
            entry = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
            self.consumed.add(entry.message.body.decode())
            self.queue.settle(entry)

    @precondition(lambda self: self.held)
    @rule()
    def give_back(self) -> None:
        self.queue.requeue(self.held)
        self.held = []

    @rule()
    def group(self) -> None:
        """Publishes and a settlement as a transaction."""
        self.encoder.begin_group()
        self.produce("one", 2)
        entry = self.queue.get()
        if entry is not None:
            self.consumed.add(entry.message.body.decode())
            self.queue.settle(entry)
        self.encoder.end_group()

    def _hand_over(self) -> list[Batch]:
        return [Batch(0, 0, [], self.encoder.take(), [], [])] if self.encoder.staged else []

    @rule()
    def write(self) -> None:
        self.writer.write(self._hand_over())

    @rule()
    def sync(self) -> None:
        self.writer.write_through(self._hand_over())
        self.confirmed = set(self.stored)
        self.writer.tidy()

    @rule(seed=st.integers(0, 1 << 30), clean=st.booleans())
    def restart(self, seed: int, clean: bool) -> None:
        if clean:
            self.sync()
            self.writer.seal()
            self.files.close()
        else:
            self.disk.lose_power(seed)
        self.held = []
        self._open()
        self.take(10_000)
        there = [entry.message.body.decode() for entry in self.held]
        assert len(there) == len(set(there))
        known = {name for name in self.stored if self.dedup.is_duplicate(named(name))}
        assert set(there) <= known
        assert self.confirmed <= known
        assert self.confirmed - self.consumed <= set(there)
        assert known <= set(there) | self.consumed
        self.give_back()
        self.stored = known
        self.confirmed = set(known)
        # Producers go on behind what was confirmed, as they do after a crash.
        for producer in self.numbers:
            self.numbers[producer] = max([int(name[4:]) for name in known if name.startswith(producer)], default=0)


TestDedup = DedupMachine.TestCase
TestDedup.settings = settings(max_examples=effort(100), stateful_step_count=50)
