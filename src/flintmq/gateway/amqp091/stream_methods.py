"""Handlers of stream.*: FlintMQ's own class of methods, for readers that fetch ranges of a stream.

Such readers remember offsets themselves, so they get only durable records: after a crash, the offset of a lost message
belongs to another one, which a reader that is past it would never see.
"""

from typing import Final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES, Chunk, read_range
from flintmq.gateway.amqp091.delegated_fetch import FETCH_AHEAD_BYTES, DelegatedFetch
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.wire.amqp091.methods import (
    StreamFetch,
    StreamFetchOk,
    StreamQuery,
    StreamQueryOk,
    StreamSpan,
    StreamSpanOk,
)

METHODS: Final[Handlers] = Handlers()


@METHODS.handles(StreamQuery)
def query(channel: ServerChannel, method: StreamQuery) -> None:
    """Answer the range of offsets, the first offset at or after a timestamp, and the id of the stream.

    The id differs if the stream is deleted and another one gets its name.
    """
    channel.check_read(method.queue)
    stream = _stream(channel, method.queue)
    log = stream.log
    first, end = log.first_offset, log.durable_offset
    at = log.offset_at(method.timestamp) if method.timestamp else first
    channel.reply(StreamQueryOk(first_offset=first, next_offset=end, offset_at=min(at, end), stream=stream.id))


@METHODS.handles(StreamFetch)
def fetch(channel: ServerChannel, method: StreamFetch) -> None:
    """Answer messages from an offset on as one content, which is empty if the range is empty.

    Raises PreconditionFailed if the offset is before the first one that is kept.
    """
    stream, stop = _range(channel, method)
    if method.offset >= stop or not _delegate(channel, method, stream, stop):
        _answer(channel, method, stream, stop)


def _range(channel: ServerChannel, method: StreamFetch) -> tuple[StreamQueue, int]:
    """Return the stream, and the end of what can be fetched. Raises AmqpError."""
    channel.check_read(method.queue)
    stream = _stream(channel, method.queue)
    log = stream.log
    start = method.offset
    if start < log.first_offset:
        raise PreconditionFailed(
            f"offset {start} of stream '{method.queue}' in vhost '{channel.vhost.name}' is gone: the first one "
            f"kept is {log.first_offset}"
        )
    return stream, min(method.end_offset, log.durable_offset)


def _answer(channel: ServerChannel, method: StreamFetch, stream: StreamQueue, stop: int) -> None:
    start = method.offset
    chunk = Chunk(method.max_bytes)
    following = start
    if start < stop:
        cursor = stream.log.cursor(start, min(FETCH_AHEAD_BYTES, chunk.room))
        following = read_range(cursor, start, stop, chunk)
    _count(channel, stream, following, chunk.count)
    answer = StreamFetchOk(first_offset=start, next_offset=following, record_count=chunk.count)
    channel.reply_with(answer, NO_PROPERTIES, chunk.take())


def _count(channel: ServerChannel, stream: StreamQueue, following: int, count: int) -> None:
    if count > 0:
        stream.fetched(following, count)
        channel.deliveries.delivered_no_ack += count


def _delegate(channel: ServerChannel, method: StreamFetch, stream: StreamQueue, stop: int) -> bool:
    """Have the client's node answer a fetch, if it has the messages; the client's next method waits meanwhile."""
    delegate = channel.connection.delegate
    if delegate is None or channel.confirms.is_behind:
        return False
    place = stream.log.place(method.offset)
    if place is None:
        return False

    def answered(following: int, count: int) -> None:
        def finish() -> None:
            if count > 0:
                _count(channel, stream, following, count)
            else:
                # That node cannot read them, and nor might it the next ones.
                channel.connection.delegate = None
                _answer(channel, method, *_range(channel, method))

        channel.go_on(method, finish)

    size = Chunk(method.max_bytes).room
    asked = DelegatedFetch(channel.number, channel.connection.engine.tuning.frame_max, method.offset, stop, size, place)
    if not delegate(asked.encode(), int(size), answered):
        return False
    channel.hold_methods()
    return True


@METHODS.handles(StreamSpan)
def span(channel: ServerChannel, method: StreamSpan) -> None:
    """Answer the end of a range of about `max_bytes` in the files from an offset on; it has at least one message."""
    channel.check_read(method.queue)
    log = _stream(channel, method.queue).log
    start = max(method.offset, log.first_offset)
    stop = min(method.end_offset, log.durable_offset)
    if start < stop:
        stop = min(max(log.offset_behind(start, method.max_bytes), start + 1), stop)
    channel.reply(StreamSpanOk(end_offset=stop))


def _stream(channel: ServerChannel, name: str) -> StreamQueue:
    queue = channel.queue(name)
    if not isinstance(queue, StreamQueue):
        raise PreconditionFailed(f"queue '{queue.name}' in vhost '{queue.vhost}' is not a stream: it has no offsets")
    return queue
