"""Fetches of streams that the node of the client answers, out of its copy of the files.

A node of a cluster that does not lead passes on the bytes of its clients. For a fetch, the leader need not read and
send messages that this node has, too. It checks the fetch, and tells the node what to answer, and where that is on the
disk.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from flintmq.broker.ports import StreamCursor, StreamPlace
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES, Chunk, read_range
from flintmq.protocol.amqp091.content import write_pieces
from flintmq.protocol.output import Outbox, Output
from flintmq.wire.amqp091.frames import write_method
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import StreamFetchOk

# Bytes that are read from the disk at once, because a reader of a range needs all of it.
FETCH_AHEAD_BYTES: Final = 256 * 1024

_NUMBERS: Final = 9
_NUMBER_BYTES: Final = 8


@final
class DelegatedFetch:
    """A fetch on channel `channel` of messages from `start` to before `stop`, which are durable, in about `max_bytes`.

    `place` is where the first one is. Frames of the answer have at most `frame_max` bytes.
    """

    def __init__(self, channel: i64, frame_max: i64, start: i64, stop: i64, max_bytes: i64, place: StreamPlace) -> None:
        self.channel: i64 = channel
        self.frame_max: i64 = frame_max
        self.start: i64 = start
        self.stop: i64 = stop
        self.max_bytes: i64 = max_bytes
        self.place = place

    def encode(self) -> bytes:
        w = BytesWriter()
        place = self.place
        write_i64_be(w, self.channel)
        write_i64_be(w, self.frame_max)
        write_i64_be(w, self.start)
        write_i64_be(w, self.stop)
        write_i64_be(w, self.max_bytes)
        write_i64_be(w, place.first_offset)
        write_i64_be(w, place.position)
        write_i64_be(w, place.end)
        write_i64_be(w, len(place.magic))
        w.write(place.magic)
        w.write(place.path.encode())
        return w.getvalue()

    def answer(self, cursor: StreamCursor) -> tuple[list[bytes | memoryview], int, int]:
        """Read the messages with a cursor at the first one, and encode the answer.

        Returns its bytes, the offset behind the last message, and the number of messages.
        """
        chunk = Chunk(self.max_bytes)
        following = read_range(cursor, self.start, self.stop, chunk)
        output = Output(Outbox())
        output.frame_max = self.frame_max
        method = StreamFetchOk(first_offset=self.start, next_offset=following, record_count=chunk.count)
        write_method(output.writer, self.channel, encode_method(method))
        write_pieces(output, self.channel, NO_PROPERTIES, chunk.take())
        return output.take(), int(following), int(chunk.count)


def decode(data: bytes) -> DelegatedFetch:
    """Decode what `encode` has returned at the other node."""
    numbers: list[i64] = [read_i64_be(data, at * _NUMBER_BYTES) for at in range(_NUMBERS)]
    start: i64 = _NUMBERS * _NUMBER_BYTES
    end: i64 = start + numbers[8]
    place = StreamPlace(data[end:].decode(), numbers[5], data[start:end], numbers[6], numbers[7])
    return DelegatedFetch(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], place)
