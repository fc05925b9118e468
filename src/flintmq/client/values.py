"""What the server answers, as values."""

from dataclasses import dataclass
from functools import cached_property

from flintmq.wire.amqp091.chunk import ChunkRecord, decode_chunk


@dataclass(frozen=True)
class QueueInfo:
    """`message_count` is how many messages could be delivered at once."""

    name: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True)
class StreamInfo:
    """Offsets of a stream: the first one kept, the one the next message will get, and the one that was asked for.

    `number` tells it from a stream that had its name before, or gets it later.
    """

    first_offset: int
    next_offset: int
    offset_at: int
    number: int = 0


@dataclass(frozen=True)
class LeaseInfo:
    """A lease: who has it now (`epoch`), the first position that is not settled, and the one the next message gets.

    `ready` is how many messages wait on the queue, and `size` how many bytes the bodies of those have that were leased
    by this call, as far as that was asked for. `fetched` is what `lease_query` tells: behind the highest position that
    somebody has fetched.
    """

    epoch: int
    first: int
    next: int
    ready: int = 0
    size: int = 0
    fetched: int = 0


@dataclass(frozen=True)
class StageInfo:
    """`epoch` is what everybody who stages for this writer has to show; `last_batch` was committed last, -1: none."""

    epoch: int
    last_batch: int


@dataclass(frozen=True)
class StageCommitted:
    """How many messages were published. `already`: the batch was committed before, and nothing was published now."""

    published: int
    already: bool


@dataclass(frozen=True)
class StreamChunk:
    """Records of a stream, or of a lease, from `first_offset` on.

    `next_offset` is where to go on; equal when there was nothing.

    `data` is what came over the wire, in the layout of `flintmq.wire.amqp091.chunk`.
    """

    first_offset: int
    next_offset: int
    record_count: int
    data: bytes

    @cached_property
    def records(self) -> list[ChunkRecord]:
        """Decoded when they are first asked for. Raises SyntaxFault when they are malformed."""
        return decode_chunk(self.data)
