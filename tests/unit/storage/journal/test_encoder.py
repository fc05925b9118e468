"""The journal's records: a hex snapshot per record, ranges of settlements, blocks, and which segment they go to."""

from collections import deque

import pytest

from flintmq.base.errors import StorageError
from flintmq.broker.message import Address, Entry
from flintmq.storage.content import BLOCK_BYTES
from flintmq.storage.journal.encoder import JournalBatch, JournalEncoder
from tests.unit.storage.nodes import message


def _encoder(limit: int = 1 << 20) -> JournalEncoder:
    encoder = JournalEncoder(limit, deque())
    encoder.start(1)
    return encoder


def _append(encoder: JournalEncoder, seq: int, body: bytes = b"b") -> Entry:
    entry = Entry(message(body), seq)
    encoder.append(entry.message, [1], [entry])
    return entry


def _payload(batch: JournalBatch) -> bytes:
    return b"".join(b"".join(block) for block in batch.blocks)


def test_message_snapshot() -> None:
    """A message is written once with all its queues."""
    encoder = _encoder()
    sent = message(b"body", 0x0102030405)
    encoder.append(sent, [0x11, 0x22], [Entry(sent, 3), Entry(sent, 4)])
    assert _payload(encoder.take()).hex(" ") == (
        "01 00 00 00 02 "
        "00 00 00 00 00 00 00 11 00 00 00 00 00 00 00 03 "
        "00 00 00 00 00 00 00 22 00 00 00 00 00 00 00 04 "
        "07 01 00 00 00 01 02 03 04 05 "
        "00 02 65 78 00 03 6b 65 79 "
        "00 00 00 02 70 70 "
        "00 00 00 04 62 6f 64 79"
    )


def test_settlement_snapshot() -> None:
    """Consecutive settlements of a queue become one range; gaps begin another."""
    encoder = _encoder()
    entries = [_append(encoder, seq) for seq in (1, 2, 3, 5, 6)]
    encoder.take()
    for entry in entries:
        encoder.settle(0x11, entry)
    assert _payload(encoder.take()).hex(" ") == (
        "02 00 00 00 00 00 00 00 11 00 00 00 02 00 00 00 00 00 00 00 01 00 00 00 03 00 00 00 00 00 00 00 05 00 00 00 02"
    )


def test_interleaved_queues_still_make_ranges() -> None:
    """Two queues settled in turn cost one range each."""
    encoder = _encoder()
    ours, theirs = [_append(encoder, seq) for seq in (1, 2, 3)], [_append(encoder, seq) for seq in (1, 2, 3)]
    encoder.take()
    for entry, other in zip(ours, theirs, strict=True):
        encoder.settle(1, entry)
        encoder.settle(2, other)
    assert len(_payload(encoder.take())) == 2 * (13 + 12)


def test_runs_are_settled_without_entries() -> None:
    """Runs of numbers and of slots say the same as the entries would, and empty their segments."""
    encoder = _encoder(limit=100)
    entries = []
    for seq in range(1, 5):
        entries.append(_append(encoder, seq, b"x" * 100))
        encoder.take()
    assert [(entry.segment, entry.slot) for entry in entries] == [(1, 0), (2, 0), (3, 0), (4, 0)]
    encoder.settle(1, entries[0])
    encoder.settle_runs(1, [2, 1, 4, 1], [2, 0, 1, 4, 0, 1])
    batch = encoder.take()
    assert batch.drop_through == 2
    assert _payload(batch).hex(" ") == (
        "02 00 00 00 00 00 00 00 01 00 00 00 02 00 00 00 00 00 00 00 01 00 00 00 02 00 00 00 00 00 00 00 04 00 00 00 01"
    )
    encoder.settle_runs(1, [3, 1], [3, 0, 1])
    assert encoder.take().drop_through == 4


def test_settlement_follows_the_messages_of_its_batch() -> None:
    """A settlement must not reach the disk before a copy of the message that replaces it."""
    encoder = _encoder()
    old = _append(encoder, 1)
    encoder.take()
    encoder.settle(1, old)
    _append(encoder, 2, b"moved")
    payload = _payload(encoder.take())
    assert payload[0] == 1
    assert payload[-25] == 2


def test_settling_twice_or_in_memory_only_writes_nothing() -> None:
    """Only an entry with a segment can be settled, and once."""
    encoder = _encoder()
    entry = _append(encoder, 1)
    encoder.settle(1, entry)
    encoder.take()
    encoder.settle(1, entry)
    encoder.settle(1, Entry(message(b"transient"), 9))
    assert not encoder.staged


def test_blocks_stay_near_their_size() -> None:
    """Small records share blocks of about a sector."""
    encoder = _encoder()
    for seq in range(1, 1001):
        _append(encoder, seq, b"x" * 100)
    batch = encoder.take()
    sizes = [sum(map(len, block)) for block in batch.blocks]
    assert all(BLOCK_BYTES <= size < BLOCK_BYTES + 200 for size in sizes[:-1])
    assert sum(sizes) == batch.size


def test_large_body_is_not_copied() -> None:
    """A body of a block's size goes to the disk from where it is."""
    body = b"x" * BLOCK_BYTES
    encoder = _encoder()
    _append(encoder, 1, body)
    assert encoder.take().blocks[0][1] is body


def test_segment_is_followed_by_the_next_at_its_limit() -> None:
    """A batch stays in one segment; the batch after the limit begins the next, and entries know theirs."""
    encoder = _encoder(limit=1000)
    first = _append(encoder, 1, b"x" * 999)
    assert encoder.take().segment == 1
    second = _append(encoder, 2)
    assert encoder.take().segment == 2
    assert (first.segment, second.segment) == (1, 2)


def test_segments_are_dropped_from_the_oldest_on() -> None:
    """A dead segment goes with the batch that killed it, and only when no older one lives."""
    encoder = _encoder(limit=100)
    entries = []
    for seq in range(1, 5):
        entries.append(_append(encoder, seq, b"x" * 100))
        assert encoder.take().drop_through == 0
    encoder.settle(1, entries[1])
    assert encoder.take().drop_through == 0
    encoder.settle(1, entries[0])
    assert encoder.take().drop_through == 2
    encoder.settle(1, entries[2])
    assert encoder.take().drop_through == 3


def test_too_long_an_address_leaves_no_trace() -> None:
    """A message that cannot be written is refused before any of it is staged."""
    encoder = _encoder()
    sent = message(b"b", address=Address("", "k" * 40_000))
    with pytest.raises(StorageError, match="longer than 32,767 bytes"):
        encoder.append(sent, [1], [Entry(sent, 1)])
    assert not encoder.staged


def test_groups_within_a_group_are_part_of_it() -> None:
    """Everything between the outermost begin and end is one block, including settlements."""
    encoder = _encoder()
    first = _append(encoder, 1, b"-one-")
    encoder.begin_group()
    _append(encoder, 2, b"-two-")
    encoder.begin_group()
    encoder.settle(1, first)
    encoder.end_group()
    _append(encoder, 3, b"-three-")
    encoder.end_group()
    _append(encoder, 4, b"-four-")
    blocks = [b"".join(block) for block in encoder.take().blocks]
    assert len(blocks) == 3
    assert b"-two-" in blocks[1]
    assert b"-three-" in blocks[1]
    assert b"\x02" + bytes(7) + b"\x01" in blocks[1]


def test_notes_are_no_messages() -> None:
    """Notes of queue 1 are written as queue -1: nobody waits for them, and their settlements are written."""
    encoder = _encoder()
    note = message(b"n")
    entry = Entry(note, 1)
    encoder.append(note, [-1], [entry])
    batch = encoder.take()
    assert batch.messages == 0
    assert _payload(batch).hex(" ").startswith("01 00 00 00 01 ff ff ff ff ff ff ff ff 00 00 00 00 00 00 00 01 ")
    encoder.settle(-1, entry)
    assert _payload(encoder.take()).hex(" ") == (
        "02 ff ff ff ff ff ff ff ff 00 00 00 01 00 00 00 00 00 00 00 01 00 00 00 01"
    )


@pytest.mark.parametrize("size", [10, BLOCK_BYTES])
def test_a_message_that_is_replaced_keeps_its_returns_in_one_block(size: int) -> None:
    """A crash may tear between two blocks, and would leave the message as if it had never come back."""
    encoder = _encoder()
    entry = _append(encoder, 1, bytes(size))
    entry.returns = 3
    encoder.returned(1, entry)
    encoder.take()
    encoder.replace(1, entry, message(bytes(size)))
    (block,) = encoder.take().blocks
    record = b"\x03" + (1).to_bytes(8) + (1).to_bytes(8) + (3).to_bytes(4)
    assert b"".join(block).startswith(b"\x01")
    assert b"".join(block).endswith(record)
