"""Ways to break the broker, to see that the simulator finds each: `python -m tests.sim.sabotage` prints how soon.

Most replace functions of the broker while it runs, so it has to be interpreted (PYTHONPATH=src): compiled code calls
its own. Others replace what the simulator gives to the broker, which works in both builds.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from flintmq.broker.message import Entry
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.sequence_owners import SequenceOwners
from flintmq.broker.terminus.terminus import ReceivedDelivery, TargetTerminus
from flintmq.broker.transaction import StagedSettlement, Transaction
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.confirms import Confirms
from flintmq.gateway.amqp10.confirms import Confirms as Confirms10
from flintmq.gateway.amqp10.coordinator import Discharged
from flintmq.gateway.amqp10.outgoing_link import OutgoingLink
from flintmq.gateway.amqp10.transactions import Transactions
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.receiver import ReceiverLink
from flintmq.storage.block import Scan, scan_blocks
from flintmq.storage.files import DiskFile
from flintmq.storage.group_commit import Batch, RoundWriter
from flintmq.storage.journal.checkpoint import Checkpoint
from flintmq.storage.journal.compaction import LiveEntries
from flintmq.storage.journal.encoder import JournalEncoder
from flintmq.storage.journal.occupancy import Segment
from flintmq.storage.node import NodeStorage
from flintmq.storage.segment import SegmentFile
from flintmq.wire.amqp10.states import Error, Rejected
from tests.sim.disk import SimulatedDisk, SimulatedFile
from tests.sim.node import Node
from tests.sim.run import Run
from tests.sim.syncing import SimulatedCommit

Patch = pytest.MonkeyPatch


def drop_syncs(patch: Patch) -> None:
    """Files are written and never synced."""
    sync = SimulatedFile.sync

    def sync_others(self: SimulatedFile) -> None:
        if self.path.suffix not in (".journal", ".stream"):
            sync(self)

    patch.setattr(SimulatedFile, "sync", sync_others)
    patch.setattr(SimulatedFile, "write_through", SimulatedFile.write_at)


def drop_directory_syncs(patch: Patch) -> None:
    """Names of new files are not synced."""
    patch.setattr(SimulatedDisk, "sync_directory", lambda self, path: None)


def confirm_before_the_sync(patch: Patch) -> None:
    """A batch counts as durable when it is handed to the sync thread."""
    original = SimulatedCommit.submit

    def submit(self: SimulatedCommit, batch: Batch) -> None:
        original(self, batch)
        self.rounds.durable = batch.number

    patch.setattr(SimulatedCommit, "submit", submit)


def confirm_what_failed(patch: Patch) -> None:
    """When the storage fails, waiting publishes are confirmed instead of refused."""
    patch.setattr(Confirms, "refuse", lambda self: self._channel.send_ack(self.published, True))


def go_on_after_a_failed_write(patch: Patch) -> None:
    """A disk error is ignored, and the batch counts as durable."""
    original = RoundWriter.write_through

    def write_through(self: RoundWriter, batches: list[Batch]) -> None:
        with suppress(OSError):
            original(self, batches)

    patch.setattr(RoundWriter, "write_through", write_through)


def settle_before_the_message(patch: Patch) -> None:
    """The blocks of a batch are written in reverse order: settlements before messages."""
    original = JournalEncoder.take

    def take(self: JournalEncoder) -> Any:  # noqa: ANN401 - whatever a batch is
        batch = original(self)
        batch.blocks.reverse()
        return batch

    patch.setattr(JournalEncoder, "take", take)


def split_transactions(patch: Patch) -> None:
    """The records of a group are written one by one, not as one block."""
    patch.setattr(JournalEncoder, "begin_group", lambda self: None)
    patch.setattr(JournalEncoder, "end_group", lambda self: None)


def drop_segments_early(patch: Patch) -> None:
    """Segments are removed before the settlements that emptied them are synced."""
    original = RoundWriter.write

    def write(self: RoundWriter, batches: list[Batch]) -> None:
        original(self, batches)
        self.tidy()

    patch.setattr(RoundWriter, "write", write)


def forget_moved_messages(patch: Patch) -> None:
    """Compaction does not write all messages that it moves."""
    original = JournalEncoder._write_again
    moved = [0]

    def write_again(self: JournalEncoder, live_entries: LiveEntries, content: bytes) -> None:
        moved[0] += 1
        if moved[0] % 3:
            original(self, live_entries, content)

    patch.setattr(JournalEncoder, "_write_again", write_again)


def forget_moved_messages_in_checkpoints(patch: Patch) -> None:
    """Checkpoints leave out segments whose only live messages were moved there."""
    patch.setattr(Segment, "is_needed", property(lambda self: self.live > 0))


def forget_what_checkpoints_settled(patch: Patch) -> None:
    """A start takes all messages of a segment as live where a checkpoint says that some are."""
    patch.setattr(Checkpoint, "is_live", lambda self, home, slot: self.is_needed(home))


class _ForgetsRedelivered(NodeStorage):
    def recover(self, queue_ids: set[int], note_ids: set[int]) -> Iterator[tuple[int, list[Entry]]]:
        for queue_id, entries in super().recover(queue_ids, note_ids):
            for entry in entries:
                entry.redelivered = False
            yield queue_id, entries


def forget_redelivered_at_start(patch: Patch) -> None:
    """Messages that a start finds are not flagged as redelivered."""
    patch.setattr("tests.sim.node.NodeStorage", _ForgetsRedelivered)


def forget_redelivered_on_return(patch: Patch) -> None:
    """Messages that consumers return are not flagged as redelivered."""
    original = EntryQueue._make_ready_again

    def make_ready_again(self: EntryQueue, entries: list[Entry]) -> None:
        for entry in entries:
            entry.redelivered = False
        original(self, entries)

    patch.setattr(EntryQueue, "_make_ready_again", make_ready_again)


def keep_what_is_behind_the_tear(patch: Patch) -> None:
    """Intact blocks after the place where a crash tore the last file are read as well."""

    def scan(data: bytes, magic: bytes, file: str, synced_whole: bool) -> Scan:
        found = scan_blocks(data, magic, file, True)
        found.damage.clear()
        return found

    patch.setattr("flintmq.storage.journal.files.scan_blocks", scan)


def trust_the_cache_after_a_failed_sync(patch: Patch) -> None:
    """A start seals the last file without writing again what a failed sync may have left out."""

    def end_tail(file: DiskFile, magic: bytes, number: int, synced: int, end: int, *, sealed: bool) -> int:
        file.truncate(end)
        tail = SegmentFile(file, magic, number, end)
        if not sealed:
            tail.seal()
        return tail.position

    patch.setattr("flintmq.storage.journal.files.end_tail", end_tail)


class _ForgetsNumbers(NodeStorage):
    def recovered_next_seq(self, queue_id: int) -> int:
        return 1


def forget_numbers(patch: Patch) -> None:
    """Queues begin their sequence numbers anew at each start."""
    patch.setattr("tests.sim.node.NodeStorage", _ForgetsNumbers)


def define_last(patch: Patch) -> None:
    """Definitions are written after the messages of their batch."""
    original = RoundWriter.write_through

    def write_through(self: RoundWriter, batches: list[Batch]) -> None:
        statements = [statement for batch in batches for statement in batch.definitions]
        for batch in batches:
            batch.definitions.clear()
        original(self, batches)
        if statements:
            self._database.apply(statements)

    patch.setattr(RoundWriter, "write_through", write_through)


def define_after_answering(patch: Patch) -> None:
    """Declarations are answered before they are synced."""
    patch.setattr(NodeStorage, "definitions_durable", property(lambda self: True))


def lose_confirms(patch: Patch) -> None:
    """Every third sync is not reported."""
    original = Node._notify
    count = [0]

    def notify(self: Node) -> None:
        count[0] += 1
        if count[0] % 3:
            original(self)

    patch.setattr(Node, "_notify", notify)


def discharge_before_the_sync(patch: Patch) -> None:
    """AMQP 1.0: a discharge is accepted when the transaction is applied, before it is synced."""
    add = Confirms10.add

    def add_or_send(self: Confirms10, reply: PendingReply) -> None:
        if isinstance(reply, Discharged):
            reply.send()
        else:
            add(self, reply)

    patch.setattr(Confirms10, "add", add_or_send)


def discharge_by_halves(patch: Patch) -> None:
    """AMQP 1.0: settlements in a transaction take effect at once, its messages at the discharge."""

    def settle(self: Transaction, staged: StagedSettlement) -> None:
        staged.stage()
        staged.take()
        staged.apply()

    patch.setattr(Transaction, "settle", settle)


def discharge_all_at_once(patch: Patch) -> None:
    """AMQP 1.0: the open transactions of a session share their operations: the first discharge applies all."""
    original = Transactions.declare

    def declare(self: Transactions, link: ReceiverLink) -> bytes:
        txn_id = original(self, link)
        self._open[txn_id].work = next(iter(self._open.values())).work
        return txn_id

    patch.setattr(Transactions, "declare", declare)


def outlive_the_coordinator(patch: Patch) -> None:
    """AMQP 1.0: detaching the link to the coordinator commits its transactions."""

    def roll_back_of(self: Transactions, link: ReceiverLink | None) -> None:
        for found in list(self._open.values()):
            if found.link is link:
                self.discharge(found.id, False)

    patch.setattr(Transactions, "roll_back_of", roll_back_of)


def keep_what_was_acquired(patch: Patch) -> None:
    """AMQP 1.0: a rollback leaves messages that the transaction acquired with the client."""
    patch.setattr(Transactions, "acquired", lambda self, link, found, delivery, entry: None)


def refuse_in_doubt(patch: Patch) -> None:
    """AMQP 1.0: a discharge during which the disk fails is rejected, although a restart may find the transaction."""

    def fail(self: Discharged, reason: str) -> None:
        self._link.settle(self._delivery, Rejected(error=Error(condition="amqp:transaction:rollback")))

    patch.setattr(Discharged, "fail", fail)


def settle_before_the_sync(patch: Patch) -> None:
    """AMQP 1.0: a settlement on a durable link is answered before it is synced."""
    patch.setattr(OutgoingLink, "settle", lambda self, delivery, state, _: self.link.settle(delivery, state))


def forget_what_was_taken(patch: Patch) -> None:
    """AMQP 1.0: a durable link writes no note of a message that it has taken."""

    def received(self: TargetTerminus, tag: bytes, outcome: bytes) -> ReceivedDelivery:
        found = self._find(tag)
        self._drop(found)
        found.outcome = outcome
        return found

    patch.setattr(TargetTerminus, "received", received)


def give_out_what_is_held(patch: Patch) -> None:
    """After a start, messages held by a durable link or a lease go to other consumers."""
    patch.setattr(SequenceOwners, "claim", lambda self, first, count, holder: None)


def lease_before_the_sync(patch: Patch) -> None:
    """Leases: extend and settle are answered before they are synced."""
    patch.setattr(ServerChannel, "reply_when_stored", ServerChannel.reply)


WAYS: Final[Sequence[Callable[[Patch], None]]] = (
    drop_syncs,
    drop_directory_syncs,
    confirm_before_the_sync,
    confirm_what_failed,
    go_on_after_a_failed_write,
    settle_before_the_message,
    split_transactions,
    drop_segments_early,
    forget_moved_messages,
    forget_moved_messages_in_checkpoints,
    forget_what_checkpoints_settled,
    forget_redelivered_at_start,
    forget_redelivered_on_return,
    keep_what_is_behind_the_tear,
    trust_the_cache_after_a_failed_sync,
    forget_numbers,
    define_last,
    define_after_answering,
    lose_confirms,
    discharge_before_the_sync,
    discharge_by_halves,
    discharge_all_at_once,
    outlive_the_coordinator,
    keep_what_was_acquired,
    refuse_in_doubt,
    settle_before_the_sync,
    forget_what_was_taken,
    give_out_what_is_held,
    lease_before_the_sync,
)
SEEDS_MAX: Final = 200


def find(way: Callable[[Patch], None], seeds: int = SEEDS_MAX) -> tuple[int, Exception | None]:
    """Run seeds on a broker broken like this; returns after how many power losses it was found, and by what."""
    losses = 0
    for seed in range(seeds):
        run = Run(seed)
        with Patch.context() as patch:
            way(patch)
            try:
                run.complete()
            except Exception as found:  # noqa: BLE001 - a broker that breaks down is found, too
                return losses + run.figures.power_losses, found
        losses += run.figures.power_losses
    return losses, None


def tell(
    ways: Sequence[Callable[[Patch], None]],
    look_for: Callable[[Callable[[Patch], None]], tuple[int, Exception | None]],
    names: list[str],
) -> int:
    """Look for all sabotages, or those with these names, and print what finds each; returns how many are not found."""
    missed = 0
    for way in ways:
        if names and way.__name__ not in names:
            continue
        after, found = look_for(way)
        missed += found is None
        what = f"{type(found).__name__}: {found}" if found is not None else "not found"
        print(f"| {way.__doc__} | {after} | {what[:110]} |", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(tell(WAYS, find, sys.argv[1:]))
