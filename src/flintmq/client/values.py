"""The values that requests of AMQP 0-9-1 return."""

from dataclasses import dataclass
from functools import cached_property

from flintmq.wire.amqp091.chunk import ChunkRecord, decode_chunk


@dataclass(frozen=True)
class QueueInfo:
    """The answer to `declare_queue`.

    Attributes:
        name: The name of the queue.
        message_count: The number of ready messages.
        consumer_count: The number of consumers.
    """

    name: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True)
class StreamInfo:
    """The answer to `stream_query`.

    Attributes:
        first_offset: The offset of the first record that the stream still has.
        next_offset: The offset that the next message will get.
        offset_at: The offset for the time of the query.
        number: A number that no other stream has, not even a later one of the same name.
    """

    first_offset: int
    next_offset: int
    offset_at: int
    number: int = 0


@dataclass(frozen=True)
class LeaseInfo:
    """The state of a lease.

    Attributes:
        epoch: The epoch of the present owner.
        first: The first position that is not settled.
        next: The position that the next leased message will get.
        ready: The number of ready messages on the queue; only `lease_extend` and `lease_query` return it.
        size: The bytes of the bodies that this call leased; only `lease_extend` returns it.
        fetched: The position after the last one that was fetched; only `lease_query` returns it.
    """

    epoch: int
    first: int
    next: int
    ready: int = 0
    size: int = 0
    fetched: int = 0


@dataclass(frozen=True)
class StageInfo:
    """The answer to `stage_open`.

    Attributes:
        epoch: The owner's epoch, which the other calls need.
        last_batch: The number of the batch that was committed last; -1 if there is none.
    """

    epoch: int
    last_batch: int


@dataclass(frozen=True)
class StageCommitted:
    """The answer to `stage_commit`.

    Attributes:
        published: The number of published messages.
        already: Whether the batch was committed before, so that nothing was published now.
    """

    published: int
    already: bool


@dataclass(frozen=True)
class StreamChunk:
    """Records of a stream, or messages of a lease.

    Attributes:
        first_offset: The offset (or position) of the first record.
        next_offset: The offset at which to continue. It equals `first_offset` if the chunk is empty.
        record_count: The number of records.
        data: The encoded records, in the layout of `flintmq.wire.amqp091.chunk`.
    """

    first_offset: int
    next_offset: int
    record_count: int
    data: bytes

    @cached_property
    def records(self) -> list[ChunkRecord]:
        """The decoded records. Raises SyntaxFault if they are malformed."""
        return decode_chunk(self.data)
