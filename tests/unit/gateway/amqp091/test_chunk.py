"""Answers to fetches: what they hold, in which order, and how few pieces it goes out in."""

from flintmq.broker.message import PERSISTENT, Address, Message
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES, Chunk
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.chunk import RUN_BYTES, decode_chunk


def message(body: bytes) -> Message:
    return Message(Address("x", "k"), CODEC_091, NO_PROPERTIES, body, PERSISTENT, 1)


def stored(*bodies: bytes) -> bytes:
    """The contents of messages, as the storage holds them."""
    contents = []
    for body in bodies:
        chunk = Chunk(0)
        chunk.push(0, message(body), False)
        contents.append(b"".join(chunk.take())[RUN_BYTES:])
    return b"".join(contents)


def test_runs_that_follow_each_other_are_one() -> None:
    """What the storage holds in several blocks goes out behind one head; a gap, and a message by itself, end a run."""
    chunk = Chunk(0)
    chunk.push_run(5, 2, stored(b"5", b"6"))
    chunk.push_run(7, 1, stored(b"7"))
    chunk.push_run(9, 1, stored(b"9"))
    chunk.push(10, message(b"10"), True)
    chunk.push_run(11, 1, stored(b"11"))
    chunk.push_run(12, 1, stored(b"12"))
    pieces = chunk.take()
    records = decode_chunk(b"".join(pieces))
    assert [(record.offset, record.body) for record in records] == [
        (number, str(number).encode()) for number in (5, 6, 7, 9, 10, 11, 12)
    ]
    assert [record.redelivered for record in records] == [False] * 4 + [True] + [False] * 2
    assert chunk.count == 7
    # Three heads, five contents and the message.
    assert len(pieces) == 3 + 5 + 1


def test_messages_that_are_copied_fill_pieces_of_a_frame() -> None:
    """Many small ones are few pieces, none of which is much more than a frame holds."""
    chunk = Chunk(0)
    for number in range(500):
        chunk.push(number, message(bytes(1000)), False)
    pieces = chunk.take()
    assert len(pieces) == 6
    assert max(map(len, pieces)) < 100 * 1024
    assert [record.offset for record in decode_chunk(b"".join(pieces))] == list(range(500))
