"""Handlers of stream.*: FlintMQ's own class of methods, for readers that fetch ranges of a stream.

Such readers remember offsets themselves, so they get only durable records: after a crash, the offset of a lost message
belongs to another one, which a reader that is past it would never see.
"""

from typing import Final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES, Chunk
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.wire.amqp091.methods import (
    StreamFetch,
    StreamFetchOk,
    StreamQuery,
    StreamQueryOk,
    StreamSpan,
    StreamSpanOk,
)

# Bytes that are read from the disk at once, because a reader of a range needs all of it.
_FETCH_AHEAD_BYTES: Final = 256 * 1024

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
    channel.check_read(method.queue)
    stream = _stream(channel, method.queue)
    log = stream.log
    start = method.offset
    stop = min(method.end_offset, log.durable_offset)
    if start < log.first_offset:
        raise PreconditionFailed(
            f"offset {start} of stream '{method.queue}' in vhost '{channel.vhost.name}' is gone: the first one "
            f"kept is {log.first_offset}"
        )
    chunk = Chunk(method.max_bytes)
    following = start
    if start < stop:
        cursor = log.cursor(start, min(_FETCH_AHEAD_BYTES, chunk.room))
        while not chunk.is_full:
            run = cursor.run(stop, chunk.room, chunk.count == 0, CODEC_091.format)
            if cursor.run_count > 0:
                following = cursor.offset
                chunk.push_run(following - cursor.run_count, cursor.run_count, run)
                continue
            message = cursor.next(stop)
            if message is None:
                # The rest of the range was damaged, and is skipped.
                following = min(cursor.offset, stop)
                break
            if not chunk.push(cursor.offset - 1, message, False):
                break
            following = cursor.offset
    if chunk.count > 0:
        stream.fetched(following, chunk.count)
        channel.deliveries.delivered_no_ack += chunk.count
    answer = StreamFetchOk(first_offset=start, next_offset=following, record_count=chunk.count)
    channel.reply_with(answer, NO_PROPERTIES, chunk.take())


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
