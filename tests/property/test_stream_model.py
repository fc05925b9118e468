"""A stream's files beside a list: records appended, read from anywhere, retired; syncs, restarts and crashes."""

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.ports import StreamCursor, StreamLimits
from flintmq.storage.content import ContentReader
from flintmq.storage.stream.files import StreamFiles
from flintmq.storage.stream.log import SegmentedStream
from flintmq.storage.stream.open_files import OpenFiles
from tests.effort import effort
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.nodes import CODECS, message

DIRECTORY = Path("/streams/1")
SEGMENT = 6_000
# An empty body, small ones, one that ends a block, and one larger than what is read at once.
SIZES = st.sampled_from([0, 10, 300, 300, 1_500, 5_000, 20_000])
AHEAD = st.sampled_from([1, 700, 8_000, 100_000])


class StreamMachine(RuleBasedStateMachine):
    """`records` has every record by its offset, with its receive time; those up to `durable` must never be lost."""

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.records: list[tuple[bytes, int]] = []
        self.durable = 0
        # Before it, everything was let go of.
        self.first = 0
        self.now_ms = 1_000
        self._open()

    def _open(self) -> None:
        content = ContentReader(CODECS)
        self.files = StreamFiles(self.disk, DIRECTORY, SEGMENT, content)
        self.files.recover()
        self.open_files = OpenFiles(self.disk)
        self.log = SegmentedStream(self.files, self.open_files, content, {})
        self.readers: list[tuple[StreamCursor, int]] = []

    # -- what happens -------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6), size=SIZES, step=st.sampled_from([0, 1, 500, -300]))
    def append(self, count: int, size: int, step: int) -> None:
        """The clock may go back."""
        for _ in range(count):
            self.now_ms += step
            body = b"%d." % len(self.records) * (size // 3)
            assert self.log.append(message(body, self.now_ms)) == len(self.records)
            self.records.append((body, self.now_ms))

    def _write(self) -> None:
        blocks = self.log.take()
        self.files.write(blocks)

    @rule()
    def write(self) -> None:
        self._write()

    @rule()
    def sync(self) -> None:
        self._write()
        self.files.durable_offset = self.files.sync()
        self.durable = len(self.records)
        assert self.log.durable_offset == self.durable

    @precondition(lambda self: self.durable == len(self.records))
    @rule()
    def tidy(self) -> None:
        self.retired_ms = self.files.retire_at_ms
        self.files.tidy()
        if self.log.first_offset != self.first:
            self._check_retired(self.first, self.log.first_offset)
            self.first = self.log.first_offset

    @rule(
        max_bytes=st.sampled_from([-1, 0, 12_000, 40_000]),
        max_age_ms=st.sampled_from([-1, 0, 2_000, 10_000]),
    )
    def limit(self, max_bytes: int, max_age_ms: int) -> None:
        self.log.limit(StreamLimits(max_bytes, max_age_ms, SEGMENT))
        self.log.retire(self.now_ms)

    def _check_retired(self, before: int, first: int) -> None:
        """Only what a limit asked for is gone."""
        files = self.files
        assert before < first <= len(self.records)
        if files.max_bytes < 0:
            assert max(time for _, time in self.records[before:first]) < self.retired_ms - files.max_age_ms
        starts = [segment.first_offset for segment in files.segments]
        assert first == starts[0]
        assert not files.retires_more

    @rule(offset=st.integers(-2, 200), ahead=AHEAD, count=st.integers(0, 50))
    def read(self, offset: int, ahead: int, count: int) -> None:
        cursor = self.log.cursor(offset, ahead)
        self.readers.append((cursor, max(offset, 0)))
        self._read_on(len(self.readers) - 1, count)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), count=st.integers(0, 50))
    def read_on(self, data: st.DataObject, count: int) -> None:
        self._read_on(data.draw(st.integers(0, len(self.readers) - 1)), count)

    def _read_on(self, number: int, count: int) -> None:
        cursor, expected = self.readers[number]
        durable = self.log.durable_offset
        for _ in range(count):
            found = cursor.next(durable)
            if found is None:
                assert max(expected, self.first) >= durable
                break
            offset = cursor.offset - 1
            # What is gone is passed over, but for what was read ahead.
            assert offset in (expected, max(expected, self.first)), "records were left out"
            assert (found.body, found.timestamp_ms) == self.records[offset]
            expected = offset + 1
        self.readers[number] = (cursor, expected)

    @rule(back_ms=st.integers(-2_000, 12_000))
    def search(self, back_ms: int) -> None:
        wanted = self.now_ms - back_ms
        kept = range(self.first, self.durable)
        assert self.log.offset_at(wanted) == next((at for at in kept if self.records[at][1] >= wanted), self.durable)

    @rule(ending=st.sampled_from(["clean", "crash", "crash, and again while recovering"]), seed=st.integers(0, 1 << 30))
    def restart(self, ending: str, seed: int) -> None:
        if ending == "clean":
            self.sync()
            self.files.seal()
        else:
            self.disk.lose_power(seed)
        if ending == "crash, and again while recovering":
            self._open()
            self.disk.lose_power(seed + 1)
        self.open_files.close()
        self._open()
        self._compare()

    def _compare(self) -> None:
        assert self.files.damage == []
        assert self.durable <= self.log.next_offset <= len(self.records), "a durable record is gone"
        if self.durable > self.first:
            assert self.log.first_offset == self.first
        del self.records[self.log.next_offset :]
        self.durable = len(self.records)
        self.first = self.log.first_offset
        assert self.log.durable_offset == self.durable
        self.readers.append((self.log.cursor(0, 4_096), 0))
        self._read_on(0, len(self.records) + 1)


TestStream = StreamMachine.TestCase
TestStream.settings = settings(max_examples=effort(200), stateful_step_count=50)
