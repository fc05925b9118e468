"""Durable ends of links beside a model of them: whatever a crash takes, each message is taken once, and held by one.

What was synced is there after it: deliveries are held, or were settled; parts are there, or the message made of them.
"""

from itertools import accumulate
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.message import PERSISTENT, Address, Message
from flintmq.broker.ports import Journal, TerminusRecord
from flintmq.broker.queue.base import Recoverable
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.ids import QueueIds
from flintmq.broker.queue.publish import STORED, put
from flintmq.broker.queue.recovery import Recovery
from flintmq.broker.queue.settlement import ACCEPTED, FAILED, REJECTED, RELEASED, Outcome, modified
from flintmq.broker.terminus.registry import TerminusRegistry
from flintmq.broker.terminus.terminus import NEVER, SOURCE, TARGET, UNSETTLED_STATE, SourceTerminus, TargetTerminus
from flintmq.broker.tick import Tick
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.files import JournalFiles
from flintmq.storage.journal.recovery import Replay
from tests.effort import effort
from tests.property import in_memory
from tests.sim.disk import SimulatedDisk
from tests.unit.broker.memory import MemoryStorage, got
from tests.unit.storage.nodes import CODEC, CODECS

# Small, so that segments end, are moved and go within a run.
SEGMENT_BYTES = 1500
DIRECTORY = Path("/journal")
QUEUE_ID, SOURCE_ID, TARGET_ID = 1, 2, 3
# Those that take a message from the queue, and those that leave it there.
FINAL = (ACCEPTED, REJECTED)
BACK = (RELEASED, FAILED, modified(False, True), modified(True, False, {"seen": 1}))


class JournalStorage(MemoryStorage):
    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    @property
    def journal(self) -> Journal:
        return self._journal


class State:
    """What there is: bodies on the queue or held, and deliveries by their tags."""

    def __init__(self) -> None:
        self.bodies: set[bytes] = set()
        # Of the source: what is held.
        self.held: dict[bytes, bytes] = {}
        # Of the target: parts, and messages that were made of them; of which others the sender knows.
        self.parts: dict[bytes, list[bytes]] = {}
        self.taken: set[bytes] = set()
        self.known: set[bytes] = set()

    def copy(self) -> "State":
        made = State()
        made.bodies = set(self.bodies)
        made.held = dict(self.held)
        made.parts = {tag: list(parts) for tag, parts in self.parts.items()}
        made.taken = set(self.taken)
        made.known = set(self.known)
        return made


class TerminusMachine(RuleBasedStateMachine):
    """`now` is the state in memory, `sure` what is durable of it. `gone` are bodies that had a final outcome."""

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.counter = 0
        self.now = State()
        self.sure = State()
        self.gone: set[bytes] = set()
        # All parts that came since the last look, and those that were there.
        self.written: dict[bytes, list[bytes]] = {}
        self.surely_gone: set[bytes] = set()
        self._open()

    def _open(self) -> None:
        self.files = JournalFiles(self.disk, DIRECTORY, SEGMENT_BYTES)
        self.encoder = JournalEncoder(SEGMENT_BYTES, self.files.chunks)
        replay = Replay(CODECS, {QUEUE_ID}, {SOURCE_ID, TARGET_ID})
        number = self.files.recover(replay, self.encoder.occupancy)
        next_seqs = replay.next_seqs()
        self.encoder.start(number, max(next_seqs.values()) - 1)
        self.files.drop(self.encoder.occupancy.drop_dead())
        self.writer = RoundWriter(in_memory.definitions(), self.files)
        tick = Tick()
        self.queue = ClassicQueue(QUEUE_ID, "/", "q", "classic", True, False, None, {}, tick, self.encoder)
        termini = TerminusRegistry("/", JournalStorage(self.encoder), tick, QueueIds(4))
        queues = {QUEUE_ID: self.queue}
        source = termini.restore(self._record(SOURCE_ID, SOURCE), queues)
        target = termini.restore(self._record(TARGET_ID, TARGET), queues)
        assert isinstance(source, SourceTerminus)
        assert isinstance(target, TargetTerminus)
        self.source, self.target = source, target
        stored: dict[int, Recoverable] = {QUEUE_ID: Recovery(self.queue), SOURCE_ID: source, TARGET_ID: target}
        for queue_id, entries in replay.entries(self.files, self.encoder.occupancy):
            stored[queue_id].restore_all(entries)
        for queue_id, next_seq in next_seqs.items():
            stored[queue_id].start_at(next_seq)
        # Before somebody is connected, parts may be out of memory.
        target.attach(object(), "session", "connection")

    def _record(self, queue_id: int, role: str) -> TerminusRecord:
        return TerminusRecord(queue_id, "/", "user", "container", "link", role, UNSETTLED_STATE, NEVER, 0, b"")

    def _put(self, body: bytes) -> None:
        assert put([self.queue], Message(Address("", "q"), CODEC, b"", body, PERSISTENT, 1), self.encoder) == STORED
        self.now.bodies.add(body)

    def _number(self) -> bytes:
        self.counter += 1
        return b"%d" % self.counter

    @rule(count=st.integers(1, 20))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self._put(self._number())

    @rule(count=st.integers(1, 20))
    def send(self, count: int) -> None:
        for _ in range(count):
            entry = got(self.queue, self.source)
            if entry is not None:
                tag = self._number()
                self.source.hold(tag, self.queue, entry)
                self.now.held[tag] = entry.message.body

    @precondition(lambda self: self.now.held)
    @rule(data=st.data(), count=st.integers(1, 10), outcome=st.sampled_from([*FINAL, *BACK]))
    def settle(self, data: st.DataObject, count: int, outcome: Outcome) -> None:
        for _ in range(min(count, len(self.now.held))):
            tag = data.draw(st.sampled_from(sorted(self.now.held)))
            assert self.source.settle(tag, outcome)
            body = self.now.held.pop(tag)
            if outcome in FINAL:
                self.now.bodies.remove(body)
                self.gone.add(body)

    @rule(data=st.data(), size=st.sampled_from([1, 100, 1000]))
    def receive_part(self, data: st.DataObject, size: int) -> None:
        """Of a message that has begun, or of a new one."""
        tag = data.draw(st.sampled_from([*sorted(self.now.parts), b"t" + self._number()]))
        part = self._number() + b"." * size
        self.target.part(tag, part)
        self.now.parts.setdefault(tag, []).append(part)
        self.written.setdefault(tag, []).append(part)

    @precondition(lambda self: self.now.parts)
    @rule(data=st.data())
    def receive_end(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.now.parts)))
        self.target.begin()
        self._put(tag)
        self.target.received(tag, b"accepted")
        self.target.end()
        del self.now.parts[tag]
        self.now.taken.add(tag)
        # A crash may have taken all that became of it before.
        self.gone.discard(tag)
        self.surely_gone.discard(tag)

    @precondition(lambda self: self.now.parts)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.now.parts)))
        assert self.target.forget(tag)
        del self.now.parts[tag]

    @precondition(lambda self: self.now.taken)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """The sender has heard of it, which it does when it is durable."""
        self.sync()
        tag = data.draw(st.sampled_from(sorted(self.now.taken)))
        assert self.target.forget(tag)
        self.now.taken.remove(tag)
        self.now.known.add(tag)

    def _hand_over(self) -> list[Batch]:
        return [Batch(0, 0, [], self.encoder.take(), [], [])] if self.encoder.staged else []

    @rule()
    def write(self) -> None:
        self.writer.write(self._hand_over())

    @rule()
    def sync(self) -> None:
        self.writer.write_through(self._hand_over())
        self.sure = self.now.copy()
        self.surely_gone = set(self.gone)
        self.writer.tidy()

    @rule(seed=st.integers(0, 1 << 30), clean=st.booleans())
    def restart(self, seed: int, clean: bool) -> None:
        if clean:
            self.sync()
            self.writer.seal()
            self.files.close()
        else:
            self.disk.lose_power(seed)
        self._open()
        found = self._found()
        self._compare(found)
        found.known = self.sure.known | self.now.known
        self.now = found
        self.written = {tag: list(parts) for tag, parts in found.parts.items()}
        self.gone -= found.bodies
        self.sync()

    def _found(self) -> State:
        found = State()
        ready = []
        while (entry := got(self.queue)) is not None:
            ready.append(entry)
        bodies = [entry.message.body for entry in ready]
        self.queue.release(ready)
        for tag, held in self.source.unsettled.items():
            assert held.entry.segment != 0
            found.held[tag] = held.entry.message.body
        bodies += found.held.values()
        assert len(bodies) == len(set(bodies)), "a message is there twice"
        found.bodies = set(bodies)
        for tag, received in self.target.unsettled.items():
            if received.outcome is None:
                found.parts[tag] = list(received.parts)
                assert received.size == sum(len(part) for part in received.parts)
            else:
                assert (received.outcome, received.parts) == (b"accepted", [])
                found.taken.add(tag)
        return found

    def _compare(self, found: State) -> None:
        assert not found.bodies & self.surely_gone, "a settled message is back"
        assert self.sure.bodies - self.gone <= found.bodies, "a message is lost"
        assert found.bodies <= self.sure.bodies | self.now.bodies | self.gone
        for tag, body in found.held.items():
            assert self.sure.held.get(tag, body) == body
            assert self.now.held.get(tag, body) == body
        assert self.sure.held.keys() & self.now.held.keys() <= found.held.keys(), "a delivery is forgotten"
        # Each message that came in by the target: it was taken once, and the target says so until the sender knows.
        arrived = {body for body in found.bodies if body.startswith(b"t")}
        assert arrived <= found.taken | self.now.known, "a message would be taken once more"
        assert found.taken <= arrived | self.gone, "a message was not taken that is said to be"
        for tag, parts in found.parts.items():
            assert b"".join(parts) in _beginnings(self.written[tag]), "parts are not as they came"
        for tag in self.sure.parts.keys() & self.now.parts.keys():
            sure = b"".join(self.sure.parts[tag])
            assert b"".join(found.parts.get(tag, [])).startswith(sure), "parts are lost"
        assert self.sure.taken - self.now.known <= found.taken, "an outcome is forgotten"


def _beginnings(parts: list[bytes]) -> list[bytes]:
    """The first parts of a message, joined, for each number of them: what was out of memory comes back as one part."""
    return list(accumulate(parts, initial=b""))


TestTermini = TerminusMachine.TestCase
TestTermini.settings = settings(max_examples=effort(60), stateful_step_count=50)
