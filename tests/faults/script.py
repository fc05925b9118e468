"""A run that has the storage do everything it does, and a ledger of what it promised.

Whatever the disk refuses: after a restart on a healthy disk, nothing promised is missing.
"""

import errno
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from flintmq.base.errors import StorageError, StorageFenced
from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord, StreamLog
from flintmq.storage.group_commit import GroupCommit, Rounds, SyncThread
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.nodes import OpenNode, crashed_copy, message, records

# Messages of the first stay; those of the second are settled soon, and leave segments to be compacted; those of the
# third are settled by transactions, each of which publishes to the first.
KEPT: Final = 1
PASSING: Final = 2
TAKEN: Final = 3
QUEUES: Final = (KEPT, PASSING, TAKEN)
STREAM: Final = 9
ROUNDS: Final = 12
SEGMENT_BYTES: Final = 1_500
# How long (seconds) a round may take before it counts as hanging.
PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Fault:
    """`times` calls fail, 0 means all from there on. `is_freed`: there is room once the storage says it has none."""

    name: str
    error: int
    times: int = 0
    cuts: bool = False
    reads: bool = False
    is_freed: bool = False


FAULTS: Final = (
    Fault("EIO from then on", errno.EIO, reads=True),
    Fault("EIO once", errno.EIO, times=1, reads=True),
    Fault("EIO once, half of it written", errno.EIO, times=1, cuts=True),
    Fault("full, and freed", errno.ENOSPC, is_freed=True),
    Fault("full after half a write, and freed", errno.ENOSPC, cuts=True, is_freed=True),
    Fault("full to the end", errno.ENOSPC, cuts=True),
)


@dataclass
class Ledger:
    """What was asked for, in order, and how much of it was confirmed; bodies stand for messages."""

    asked: dict[int, list[bytes]] = field(default_factory=lambda: {queue: [] for queue in (*QUEUES, STREAM)})
    confirmed: set[bytes] = field(default_factory=set)
    # Settlements that were asked for; of these, the ones that are durable.
    settled: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    # Of each transaction: what it publishes, and what it takes.
    transactions: list[tuple[bytes, bytes]] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    durable: set[str] = field(default_factory=set)

    def promised(self) -> None:
        """All of it is durable."""
        self.confirmed = {body for bodies in self.asked.values() for body in bodies}
        self.gone = set(self.settled)
        self.durable = set(self.declared)

    def copy(self) -> "Ledger":
        return Ledger(
            {queue: list(bodies) for queue, bodies in self.asked.items()},
            set(self.confirmed),
            set(self.settled),
            set(self.gone),
            list(self.transactions),
            list(self.declared),
            set(self.durable),
        )

    def check(self, node: OpenNode) -> None:
        """Of a node that was started on what the run left."""
        found = {queue: node.bodies(queue) for queue in QUEUES}
        for queue in QUEUES:
            order = {body: place for place, body in enumerate(self.asked[queue])}
            there = found[queue]
            assert all(body in order for body in there), f"queue {queue} has what nobody published"
            assert [order[body] for body in there] == sorted({order[body] for body in there}), (
                f"queue {queue} is mixed up"
            )
            lost = [body for body in self.asked[queue] if body in self.confirmed - self.settled and body not in there]
            assert not lost, f"queue {queue} lost {lost}"
            back = self.gone.intersection(there)
            assert not back, f"queue {queue} has again {back}"
        for published, taken in self.transactions:
            if taken in self.confirmed:
                assert (published in found[KEPT]) == (taken not in found[TAKEN]), f"half of {published!r}"
        stream = [record.body for _, record in records(node.storage.open_stream(STREAM), 0)]
        assert stream == self.asked[STREAM][: len(stream)], "the stream has what nobody appended"
        assert self.confirmed.intersection(self.asked[STREAM]) <= set(stream), "the stream lost records"
        names = {queue.name for queue in node.storage.definitions.load().queues}
        assert self.durable <= names <= set(self.declared), "definitions were lost"
        assert node.storage.damage == [], node.storage.damage


class Run:
    """The script on one node. `outcome` is what became of it: "completed", "fenced", or "not started"."""

    def __init__(self, path: Path, disk: FaultyDisk, ledger: Ledger, fault: Fault | None) -> None:
        self.outcome = "not started"
        self.reason = ""
        self.was_full = False
        self.is_ending = False
        self._path = path
        self._disk = disk
        self._ledger = ledger
        self._fault = fault

    def open(self) -> OpenNode:
        node = OpenNode(self._path, QUEUES, self._disk, SEGMENT_BYTES, group_commit=_impatient)
        try:
            self._stream: StreamLog = node.storage.open_stream(STREAM)
        except StorageError:
            node.close()
            raise
        self._node = node
        return node

    def run(self) -> None:
        """Returns; whatever else comes of it is a fault."""
        try:
            node = self.open()
        except StorageError as error:
            self.reason = str(error)
            return
        try:
            self.rounds()
        except StorageFenced as error:
            self.reason = str(error)
        self.is_ending = not self.reason
        node.close()
        self.reason = self.reason or node.storage.failure
        self.outcome = "fenced" if node.storage.failure else "completed"
        assert node.storage.failure or not self.reason

    def rounds(self) -> None:
        ledger = self._ledger
        start = len(ledger.asked[KEPT])
        passing: list[tuple[bytes, Entry]] = []
        for number in range(start, start + ROUNDS):
            for entry_of in passing:
                self._settle(PASSING, *entry_of)
            if number % 3 == 1:
                # On their own: such a batch is synced later, and nobody waits for that.
                self._node.storage.commit()
            passing = [self._publish(b"%d.%d:" % (number, part) + bytes(220), PASSING) for part in range(4)]
            self._publish(b"kept %d" % number, KEPT)
            ledger.asked[STREAM].append(b"record %d:" % number + bytes(200))
            self._stream.append(message(ledger.asked[STREAM][-1]))
            taken = self._publish(b"taken %d" % number, TAKEN)
            if number % 4 == 0:
                ledger.declared.append(f"queue {number}")
                self._node.storage.definitions.put_queue(QueueRecord(100 + number, "/", ledger.declared[-1]))
            self._sync()
            self._transaction(b"transaction %d" % number, taken)
            self._sync()

    def _publish(self, body: bytes, queue: int) -> tuple[bytes, Entry]:
        self._ledger.asked[queue].append(body)
        return body, self._node.publish(body, queue)[0]

    def _settle(self, queue: int, body: bytes, entry: Entry) -> None:
        self._ledger.settled.add(body)
        self._node.storage.journal.settle(queue, entry)

    def _transaction(self, body: bytes, taken: tuple[bytes, Entry]) -> None:
        journal = self._node.storage.journal
        journal.begin_group()
        self._publish(body, KEPT)
        self._settle(TAKEN, *taken)
        journal.end_group()
        self._ledger.transactions.append((body, taken[0]))

    def _sync(self) -> None:
        storage = self._node.storage
        number = storage.commit()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while storage.durable_batch < number:
            if storage.failure:
                raise StorageFenced(storage.failure)
            if storage.full:
                self.was_full = True
                if self._fault is None or not self._fault.is_freed:
                    return
                self._disk.fail_at = None
            assert time.monotonic() < deadline, "the storage hangs"
            time.sleep(0.0002)
        self._ledger.promised()


def _impatient(rounds: Rounds) -> GroupCommit:
    """A full disk is tried again at once."""
    rounds.full_retry_seconds = 0.001
    return SyncThread(rounds)


class Ground:
    """Where the runs begin: a directory that a crash left, with what it holds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ledger = Ledger()
        path = directory / "first"
        run = Run(path, FaultyDisk(), self._ledger, None)
        node = run.open()
        run.rounds()
        self._path = crashed_copy(node, directory / "ground")
        node.close()
        # The tail is torn.
        tail = max((self._path / "journal").glob("*.journal"), key=lambda file: (file.stat().st_size > 64, file.name))
        with tail.open("ab") as file:
            file.write(b"torn")

    def calls(self, fault: Fault) -> int:
        """How many calls a run makes that could fail like this."""
        disk = FaultyDisk(reads=fault.reads)
        self._run(disk, None)
        return len(disk.calls)

    def _run(self, disk: FaultyDisk, fault: Fault | None) -> Run:
        path = self._directory / "run"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self._path, path)
        ledger = self._ledger.copy()
        run = Run(path, disk, ledger, fault)
        run.run()
        node = OpenNode(path, QUEUES, segment=SEGMENT_BYTES)
        try:
            ledger.check(node)
        finally:
            node.close()
        return run

    def try_fault(self, fault: Fault, call: int) -> Run:
        """A run in which the call with this number (from 0) fails; raises AssertionError where a promise was broken."""
        times = fault.times or sys.maxsize
        disk = FaultyDisk(call, fault.error, times=times, cuts=fault.cuts, reads=fault.reads)
        try:
            run = self._run(disk, fault)
            _judge(run, disk, fault)
        except AssertionError as error:
            raise AssertionError(f"{fault.name}, call {call} ({disk.failed[:1]}): {error}") from error
        return run


def _judge(run: Run, disk: FaultyDisk, fault: Fault) -> None:
    """Whether a run ended as this fault should end it."""
    if not disk.failed:
        assert run.outcome == "completed"
        return
    call, name = disk.failed[0].split()
    # What holds nothing yet is made anew, and an index can be done without.
    is_sync = (call.startswith("sync") or call == "truncate") and name not in {"draft", "spare"} and "index" not in name
    if run.outcome == "completed":
        # What only read or removed was done again, or can be done without.
        assert fault.is_freed or call in {"read", "open", "unlink"} or "index" in name, "nobody was told"
        assert not is_sync, "a sync was tried again"
    elif run.outcome == "fenced":
        assert run.reason.startswith(("disk failed: cannot ", "disk full: cannot ")), run.reason
        # Nobody waits for room at the end.
        assert not fault.is_freed or is_sync or run.is_ending, f"fenced, where room was all that lacked: {run.reason}"
    else:
        assert run.reason, "it did not say why it does not start"
