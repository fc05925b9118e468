"""The status of each pipeline, which it publishes to a queue that keeps the last message of each."""

from contextlib import suppress
from typing import Any, Final

import msgspec

from flintmq.broker.broker import Broker
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import peek
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.conversion.converted import TO_091
from flintmq.management.slices import Slice

# The same as in flintmq/spark/pipelines/status_queue.py, which runs in another process and cannot be imported here.
QUEUE: Final = "flintmq.pipelines"
_SILENT_MS: Final = 30_000
_ENDED: Final = ("stopped", "finished", "failed")
_MAX: Final = 1_000


async def statuses_in(broker: Broker, vhost: VHost) -> list[dict[str, Any]]:
    """The last status of each pipeline in a virtual host, without a permission check. `pipeline` is text; other fields
    are not validated.
    """
    queue = vhost.queues.get(QUEUE)
    if not isinstance(queue, EntryQueue):
        return []
    found: dict[str, dict[str, Any]] = {}
    part, after = 0, -1
    now = Slice()
    while len(found) < _MAX and (peeked := peek(queue, part, after)) is not None:
        for entry in peeked.entries:
            message = entry.message
            body = message.body if message.codec is CODEC_091 else TO_091.in_091(message)[1]
            with suppress(msgspec.DecodeError):
                status = msgspec.json.decode(body)
                if isinstance(status, dict) and isinstance(status.get("pipeline"), str):
                    found[status["pipeline"]] = _status(status, vhost.name, broker.now_ms)
        part, after = int(peeked.part), int(peeked.entries[-1].position)
        if now.is_over:
            await now.pause()
    return [found[name] for name in sorted(found)]


def _status(status: dict[str, Any], vhost: str, now_ms: int) -> dict[str, Any]:
    updated_ms = status.get("updated_ms")
    is_old = isinstance(updated_ms, int) and now_ms - updated_ms > _SILENT_MS
    state = "silent" if is_old and status.get("state") not in _ENDED else status.get("state")
    return {"description": "", "error": "", "flows": [], **status, "state": state, "vhost": vhost}
