"""stream.*: FlintMQ's own class of methods, for readers that want ranges of a stream rather than a subscription.

Such readers remember offsets in a place of their own, so they are told of durable records only: after a crash, the
offset of one that was lost belongs to another message, and a reader that is past it would never see that.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.queue.stream import StreamQueue
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.conversion.converted import TO_091
from flintmq.wire.amqp091.chunk import push_record, push_run
from flintmq.wire.amqp091.methods import Method, StreamFetch, StreamFetchOk, StreamQuery, StreamQueryOk
from flintmq.wire.amqp091.tables import encode_address

# What one answer may carry, beyond a single message that is larger: some ten milliseconds of the event loop's time.
_FETCH_MAX_BYTES: Final = 4 * 1024 * 1024
_FETCH_MAX_RECORDS: Final = 16_384
# What is read from the disk at once: who asks for a range takes all of it.
_FETCH_AHEAD_BYTES: Final = 256 * 1024


def query(channel: ServerChannel, method: Method) -> None:
    """Which offsets there are, and which is the first at or after a timestamp."""
    assert isinstance(method, StreamQuery)
    log = _stream(channel, method.queue).log
    first, end = log.first_offset, log.durable_offset
    at = log.offset_at(method.timestamp) if method.timestamp else first
    channel.reply(StreamQueryOk(first_offset=first, next_offset=end, offset_at=min(at, end)))


def fetch(channel: ServerChannel, method: Method) -> None:
    """Records from an offset on, as one content; none when the range is empty."""
    assert isinstance(method, StreamFetch)
    log = _stream(channel, method.queue).log
    start = method.offset
    stop = min(method.end_offset, log.durable_offset)
    if start < log.first_offset:
        raise PreconditionFailed(
            f"offset {start} of stream '{method.queue}' in vhost '{channel.vhost.name}' is gone: the first one "
            f"kept is {log.first_offset}"
        )
    w = BytesWriter()
    count: i64 = 0
    following = start
    if start < stop:
        room: i64 = min(method.max_bytes or _FETCH_MAX_BYTES, _FETCH_MAX_BYTES)
        cursor = log.cursor(start, min(_FETCH_AHEAD_BYTES, room))
        while room > 0 and count < _FETCH_MAX_RECORDS:
            run = cursor.run(stop, room, count == 0, CODEC_091.format)
            if cursor.run_count > 0:
                following = cursor.offset
                push_run(w, following - cursor.run_count, cursor.run_count, run)
                room -= len(run)
                count += cursor.run_count
                continue
            message = cursor.next(stop)
            if message is None:
                # Behind what was damaged, and set aside.
                following = min(cursor.offset, stop)
                break
            properties, body = message.properties, message.body
            if message.codec is not CODEC_091:
                properties, body = TO_091.in_091(message)
            room -= len(properties) + len(body)
            if room < 0 and count > 0:
                break
            address = message.address
            if not address.encoded:
                address.encoded = encode_address(address.exchange, address.routing_key)
            following = cursor.offset
            push_record(w, following - 1, message.timestamp_ms, 0, address.encoded, properties, body)
            count += 1
    answer = StreamFetchOk(first_offset=start, next_offset=following, record_count=count)
    channel.reply_with(answer, b"\x00\x00", w.getvalue())


def _stream(channel: ServerChannel, name: str) -> StreamQueue:
    queue = channel.queue(name)
    if not isinstance(queue, StreamQueue):
        raise PreconditionFailed(f"queue '{queue.name}' in vhost '{queue.vhost}' is not a stream: it has no offsets")
    return queue
