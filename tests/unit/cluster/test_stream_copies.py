"""What a follower answers to fetches out of its files, beside what the leader reads in the same files."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from flintmq.app.runtime_environment import CODECS
from flintmq.broker.message import PERSISTENT, Address, Message
from flintmq.broker.ports import StreamLog
from flintmq.cluster.machine import RealDirectory
from flintmq.cluster.stream_copies import StreamCopies
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.delegated_fetch import DelegatedFetch
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.server.relay.client import Fetched
from flintmq.storage.node import NodeStorage
from flintmq.wire.amqp091.chunk import ChunkRecord, decode_chunk
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_END
from flintmq.wire.amqp091.method_codec import decode_method
from flintmq.wire.amqp091.methods import StreamFetchOk
from tests.waiting import wait_until

COUNT = 300
HEAD_BYTES = 7


class Stream:
    """A stream of 300 messages in several segments: every third was published by AMQP 1.0."""

    def __init__(self, root: Path) -> None:
        self._storage = NodeStorage(root, CODECS, lambda: None, segment_bytes=4096)
        list(self._storage.recover(set(), set()))
        self.log: StreamLog = self._storage.open_stream(1)
        self.copies = StreamCopies(RealDirectory(root), CODECS)
        for first in range(0, COUNT, 20):
            for number in range(first, first + 20):
                self.log.append(message(number))
            self._sync()

    def _sync(self) -> None:
        batch = self._storage.commit()
        wait_until(lambda: self._storage.durable_batch >= batch)

    def fetch(self, start: int, stop: int, max_bytes: int = 0) -> Fetched:
        """What a follower answers that has the same files."""
        place = self.log.place(start)
        assert place is not None
        return self.copies.fetch(DelegatedFetch(7, 4096, start, stop, max_bytes, place).encode())

    def file_of(self, offset: int) -> Path:
        place = self.log.place(offset)
        assert place is not None
        return self.copies._directory.root / place.path

    def close(self) -> None:
        self._storage.close()


def message(number: int) -> Message:
    body = b"message %d " % number * (1 + number % 9)
    if number % 3 == 0:
        # A section with binary data (amqp-1.0 part 3 §3.2.6).
        section = b"\x00\x53\x75\xa0" + bytes([len(body)]) + body
        return Message(Address("", "s"), CODEC_10, b"", section, PERSISTENT, 1000 + number)
    return Message(Address("", "s"), CODEC_091, NO_PROPERTIES, body, PERSISTENT, 1000 + number)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    made = Stream(tmp_path)
    yield made
    made.close()


def answer(fetched: Fetched) -> tuple[StreamFetchOk, list[ChunkRecord]]:
    """The method and the messages in the frames for channel 7."""
    data = b"".join(fetched.pieces)
    method: StreamFetchOk | None = None
    body = b""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 3 : at + HEAD_BYTES], "big")
        payload = data[at + HEAD_BYTES : at + HEAD_BYTES + size]
        assert int.from_bytes(data[at + 1 : at + 3], "big") == 7
        assert data[at + HEAD_BYTES + size] == FRAME_END
        assert HEAD_BYTES + size + 1 <= 4096
        if method is None:
            decoded = decode_method(payload)
            assert isinstance(decoded, StreamFetchOk)
            method = decoded
        elif data[at] == FRAME_BODY:
            body += payload
        at += HEAD_BYTES + size + 1
    assert method is not None
    return method, decode_chunk(body)


def test_every_message_can_be_fetched(stream: Stream) -> None:
    """In pieces of any size and from any offset on, across segments, with messages of both protocols."""
    random = Random(7)  # noqa: S311 - repeatable
    offset = 0
    assert len(list(stream.file_of(0).parent.glob("*.stream"))) == 5
    while offset < COUNT:
        fetched = stream.fetch(offset, COUNT, random.choice((1, 500, 0)))
        method, records = answer(fetched)
        assert (method.first_offset, method.next_offset, method.record_count) == (
            offset,
            fetched.following,
            fetched.count,
        )
        assert fetched.following == offset + fetched.count > offset
        assert [record.offset for record in records] == list(range(offset, fetched.following))
        for record in records:
            assert record.body == b"message %d " % record.offset * (1 + record.offset % 9)
            assert record.timestamp_ms == 1000 + record.offset
        offset = fetched.following


def test_messages_behind_the_range_are_not_read(stream: Stream) -> None:
    """They may be in the same block, and might be lost with the leader."""
    _, records = answer(stream.fetch(3, 5))
    assert [record.offset for record in records] == [3, 4]


@pytest.mark.parametrize("harm", ["removed", "cut off", "changed"])
def test_a_copy_that_cannot_be_read(stream: Stream, harm: str) -> None:
    """There is no answer, also if a part could be read, so that the leader gives all messages. Others are readable."""
    place = stream.log.place(0)
    assert place is not None
    path = stream.file_of(0)
    if harm == "removed":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        if harm == "cut off":
            del data[len(data) // 2 :]
        else:
            data[-20] ^= 1
        path.write_bytes(data)
    fetched = stream.copies.fetch(DelegatedFetch(7, 4096, 0, COUNT, 0, place).encode())
    assert (fetched.count, list(fetched.pieces)) == (0, [])
    assert stream.fetch(COUNT - 5, COUNT).count == 5


def test_the_event_loop_does_not_wait_for_the_disk(stream: Stream) -> None:
    """The answer comes in a later turn. What cannot be understood has none, and the next fetch has one again."""
    place = stream.log.place(0)
    assert place is not None
    asked = DelegatedFetch(7, 4096, 0, 3, 0, place).encode()

    async def ask() -> list[int]:
        got: asyncio.Queue[Fetched] = asyncio.Queue()
        counts = []
        for each in (asked, b"nonsense", asked):
            stream.copies.answer(each, got.put_nowait)
            assert got.empty()
            counts.append((await got.get()).count)
        return counts

    assert asyncio.run(ask()) == [3, 0, 3]
    stream.copies.close()
