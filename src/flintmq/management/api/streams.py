"""Streams with their offsets, and their readers with their lag."""

from typing import Any, Final

from starlette.responses import Response

from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.vhost import VHost
from flintmq.management.api.details import Details
from flintmq.management.api.queues import add_history, facts, queue_of
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route


def stream_facts(call: Call, stream: StreamQueue, details: Details) -> dict[str, object]:
    """A stream as JSON fields: those of any queue, its offsets, and its readers.

    `last_offset` is None if the stream is empty. `fetched_offset` is the offset behind the furthest message that was
    read by ranges since the broker started, as Spark reads; `fetched_at` is the time of the last such read (Unix time
    in ms).
    """
    log = stream.log
    first, following = int(log.first_offset), int(log.next_offset)
    return {
        **facts(call, stream, details),
        "first_offset": first,
        "last_offset": following - 1 if following > first else None,
        "next_offset": following,
        "durable_offset": int(log.durable_offset),
        "segments": int(log.segment_count),
        "fetched_offset": int(stream.fetched_offset) or None,
        "fetched_at": int(stream.fetched_ms) or None,
        "lag": int(stream.lag),
        "readers": [
            {
                "name": reader.name,
                "consumer_tag": reader.consumer.tag,
                "active": reader.is_active,
                "offset": int(reader.place),
                "lag": following - int(reader.place),
            }
            for reader in stream.readers
        ],
        "places": [
            {"name": name, "offset": offset, "lag": following - offset}
            for name, offset in sorted(stream.reader_offsets.by_name.items())
        ],
    }


async def _list(call: Call, vhosts: list[VHost]) -> Response:
    details = Details(call)
    streams = [queue for vhost in vhosts for queue in vhost.queues.values() if isinstance(queue, StreamQueue)]
    return await listed(
        call,
        streams,
        lambda stream: stream_facts(call, stream, details),
        lambda stream: stream.name,
        lambda stream: (stream.vhost, stream.name),
    )


async def _all(call: Call) -> Response:
    return await _list(call, call.visible_vhosts())


async def _of_vhost(call: Call) -> Response:
    return await _list(call, [call.vhost()])


async def _one(call: Call) -> Response:
    stream = queue_of(call)
    if not isinstance(stream, StreamQueue):
        raise Missing
    shown = stream_facts(call, stream, Details(call))
    await add_history(call, stream, shown)
    return answer(picked(call, shown))


_MANY: Final = list[dict[str, Any]]
ROUTES: Final = (
    Route("GET", "/api/streams", _all, Right.USER, "Streams, with their offsets and readers.", _MANY),
    Route("GET", "/api/streams/{vhost}", _of_vhost, Right.VHOST_VISIBLE, "The streams of a virtual host.", _MANY),
    Route("GET", "/api/streams/{vhost}/{name}", _one, Right.VHOST_VISIBLE, "A stream.", dict[str, Any]),
)
