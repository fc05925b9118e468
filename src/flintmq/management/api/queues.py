"""Queues of all types: declaration, deletion, statistics, and reading of messages."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field
from starlette.responses import Response

from flintmq.base.errors import AmqpError, FlintError
from flintmq.broker.access.permission import CONFIGURE, READ
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue, entry_queue
from flintmq.broker.queue.purge import Purge
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.vhost import VHost
from flintmq.gateway.permissions import permit_queue
from flintmq.management.api.details import Details
from flintmq.management.errors import BadRequest, HttpError, Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, TableGiven, answer, no_content, put
from flintmq.management.http.listing import encoded_list, listed, picked
from flintmq.management.http.routes import NOT_AUDITED, Route
from flintmq.management.messages.representation import (
    ENCODINGS,
    checked_table,
    in_091,
    payload_in_slices,
    properties_shown,
)
from flintmq.management.slices import Slice
from flintmq.management.stats import counts
from flintmq.management.stats.counts import message_stats
from flintmq.management.stats.history import add_histories
from flintmq.management.values import arguments_shown, table

# The maximum content of one answer of `get`.
GET_MAX_MESSAGES: Final = 1_000
GET_MAX_BYTES: Final = 16 * 1024 * 1024
_ACK_MODES: Final = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")


class QueueDeclaration(Struct):
    """Missing fields have the defaults of AMQP 0-9-1's queue.declare (RabbitMQ): a queue is transient unless `durable`
    is set.
    """

    durable: bool = False
    auto_delete: bool = False
    arguments: TableGiven = field(default_factory=dict)
    argument_types: dict[str, Any] = field(default_factory=dict)


class GetRequest(Struct):
    """A request to read messages. `ackmode` says whether they stay on the queue."""

    count: Annotated[int, Meta(ge=1, le=GET_MAX_MESSAGES)]
    ackmode: str = "ack_requeue_true"
    encoding: str = "auto"
    truncate: int | None = None


class Action(Struct):
    """An action on a queue: `pause` or `resume`; `sync` and `cancel_sync` do nothing on a single node."""

    action: str


def queue_of(call: Call) -> Queue:
    """The queue in the path. Raises Missing."""
    found = call.vhost().queues.get(call.path("name"))
    if found is None:
        raise Missing
    return found


def readable_queue(call: Call) -> Queue:
    """The queue in the path, which the caller may read. Raises Missing, AccessRefused or ResourceLocked."""
    queue = queue_of(call)
    call.caller.rights_in(queue.vhost).check(READ, "queue", queue.name)
    queue.check_access(None)
    return queue


def facts(call: Call, queue: Queue, details: Details) -> dict[str, object]:
    """A queue as JSON fields, with the names of RabbitMQ's API."""
    messages, ready, unacked = counts.held_by(queue)
    rates = call.stats.queues.rates(queue)
    passing, holding = rates[: len(counts.QUEUE)], rates[len(counts.QUEUE) :]
    policies = call.broker.vhosts[queue.vhost].policies
    ours, operators = policies.find(queue.kind, queue.name, False), policies.find(queue.kind, queue.name, True)
    together = {**(ours.definition if ours else {}), **(operators.definition if operators else {})}
    shown: dict[str, object] = {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.kind,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        **arguments_shown(queue.arguments),
        "node": details.node,
        "state": "running",
        "consumers": len(queue.consumers),
        "messages": messages,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_delayed": queue.held_count,
        "message_bytes": queue.ready_bytes + int(queue.unacked_bytes),
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": int(queue.unacked_bytes),
        "messages_persistent": queue.kept_count,
        "message_bytes_persistent": queue.kept_bytes,
        "head_message_timestamp": _timestamp(queue.head()),
        "messages_details": {"rate": holding[0]},
        "messages_ready_details": {"rate": holding[1]},
        "messages_unacknowledged_details": {"rate": holding[2]},
        "message_stats": message_stats(counts.QUEUE, counts.of_queue(queue), passing),
        "policy": ours.name if ours else None,
        "operator_policy": operators.name if operators else None,
        "effective_policy_definition": table(together),
        "exclusive_consumer_tag": _tag(queue, exclusive=True),
        "single_active_consumer_tag": _tag(queue, exclusive=False),
        "consumer_capacity": float(bool(queue.consumers)),
        "consumer_utilisation": float(bool(queue.consumers)),
        "paused": queue.settings.paused,
        "leases": int(queue.lease_count),
        "reductions": 0,
        "memory": 0,
    }
    # RabbitMQ sets this once a queue has been idle for some seconds; here the samples of rates decide.
    still_ms = call.stats.queues.unchanged_since_ms(queue, (*counts.of_queue(queue), *counts.held_by(queue)))
    if still_ms and not queue.is_due:
        shown["idle_since"] = datetime.fromtimestamp(still_ms / 1000, UTC).isoformat(timespec="milliseconds")
    if queue.owner is not None:
        shown["owner_pid_details"] = details.connection_details(queue.owner)
    if queue.kind != "classic":
        shown |= {"leader": details.node, "members": details.members, "online": details.in_sync}
    if isinstance(queue, StreamQueue):
        shown |= {"first_offset": int(queue.log.first_offset), "next_offset": int(queue.log.next_offset)}
    return shown


def _timestamp(head: Message | None) -> int | None:
    """The timestamp property of a message in Unix seconds; None if it has none."""
    if head is None:
        return None
    try:
        text = head.codec.property_text(head.properties, "timestamp")
    except FlintError:
        # An older release stored messages with invalid properties.
        return None
    return int(text) if text.isdigit() else None


async def add_history(call: Call, queue: Queue, shown: dict[str, object]) -> None:
    """Add the requested history of the last minutes to the fields of one queue; lists do not have it."""
    points = partial(call.stats.queues.points, queue)
    await add_histories(shown, counts.QUEUE_HISTORY, points, call.request.query_params)


def _tag(queue: Queue, *, exclusive: bool) -> str | None:
    first = queue.consumers[0] if queue.consumers else None
    if first is None or not (first.exclusive if exclusive else queue.settings.single_active):
        return None
    return first.tag


def _name(queue: Queue) -> str:
    return queue.name


def _sort_key(queue: Queue) -> tuple[str, str]:
    return queue.vhost, queue.name


async def _list(call: Call, vhosts: list[VHost]) -> Response:
    details = Details(call)
    queues: list[Queue] = []
    for vhost in vhosts:
        # The list is copied at once; work on its items is done in slices.
        queues += vhost.queues.values()
    return await listed(call, queues, lambda queue: facts(call, queue, details), _name, _sort_key)


async def _all(call: Call) -> Response:
    return await _list(call, call.visible_vhosts())


async def _of_vhost(call: Call) -> Response:
    return await _list(call, [call.vhost()])


async def _of_first_vhost(call: Call) -> Response:
    """The queues of the virtual host /, for Flower, which does not encode / in the path."""
    return await _list(call, [vhost for vhost in call.visible_vhosts() if vhost.name == "/"])


async def _one(call: Call) -> Response:
    queue = queue_of(call)
    details = Details(call)
    shown = facts(call, queue, details)
    shown["consumer_details"] = [details.consumer(queue, consumer) for consumer in queue.consumers]
    shown["incoming"] = []
    shown["deliveries"] = []
    shown["garbage_collection"] = {}
    await add_history(call, queue, shown)
    return answer(picked(call, shown))


async def _put(call: Call) -> Response:
    given = await call.body(QueueDeclaration)
    vhost, name = call.vhost(), call.path("name")
    arguments = checked_table(given.arguments, "arguments", given.argument_types)
    permit_queue(call.caller.rights_in(vhost.name), vhost, name, arguments)
    was_there = name in vhost.queues
    if not was_there:
        call.check_alarms()
    vhost.declare_queue(name, given.durable, False, given.auto_delete, arguments, None)
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call) -> Response:
    queue = queue_of(call)
    vhost = call.vhost()
    call.caller.rights_in(vhost.name).check(CONFIGURE, "queue", queue.name)
    if_unused, if_empty = call.query("if-unused") == "true", call.query("if-empty") == "true"
    vhost.delete_queue(queue.name, if_unused, if_empty, None)
    await call.node.durable()
    return no_content()


async def _purge(call: Call) -> Response:
    queue = entry_queue(readable_queue(call), "queue.purge")
    purge = Purge(queue)
    queue.tick.begin(purge)
    await call.node.durable()
    while not purge.has_ended:
        # Each tick goes on with the purge.
        await call.node.durable()
    purge.result()
    return no_content()


async def _act(call: Call) -> Response:
    given = await call.body(Action)
    queue = queue_of(call)
    if given.action in ("pause", "resume"):
        call.caller.rights_in(queue.vhost).check(CONFIGURE, "queue", queue.name)
        if not isinstance(queue, EntryQueue):
            raise BadRequest("a stream cannot be paused, because its readers are independent")
        queue.pause(given.action == "pause")
        call.audit(queue.name, f"queue.{given.action}")
        await call.node.durable()
    elif given.action not in ("sync", "cancel_sync"):
        raise BadRequest(f"Unknown action {given.action}")
    return no_content()


async def _get(call: Call) -> Response:
    given = await call.body(GetRequest)
    queue = readable_queue(call)
    if given.ackmode not in _ACK_MODES:
        raise BadRequest(f"ackmode '{given.ackmode}' is unknown: there are {', '.join(_ACK_MODES)}")
    if given.encoding not in ENCODINGS:
        raise BadRequest(f"encoding '{given.encoding}' is unknown: there are {', '.join(ENCODINGS)}")
    taken: list[Entry] = []
    try:
        response = await encoded_list(_taken(call, queue, given, taken))
    except BaseException:
        # Nobody has seen the messages, so they go back, whatever the ackmode.
        call.node.now_ms()
        queue.release(taken)
        raise
    call.node.now_ms()
    if given.ackmode == "ack_requeue_true":
        # Reading is not a failed delivery, so it does not count towards a delivery limit.
        queue.release(taken)
    elif given.ackmode == "reject_requeue_true":
        queue.requeue(taken)
    else:
        for entry in taken:
            (queue.settle if given.ackmode == "ack_requeue_false" else queue.reject)(entry)
    await call.node.durable()
    return response


async def _taken(call: Call, queue: Queue, given: GetRequest, taken: list[Entry]) -> AsyncIterator[dict[str, object]]:
    """Take messages from the queue, and yield them as JSON fields. Raises HttpError if not even one can be taken."""
    size = 0
    now = Slice()
    while len(taken) < given.count and size < GET_MAX_BYTES and not queue.gone:
        # Time has passed since the last message, so the broker's clock is set again.
        call.node.now_ms()
        try:
            entries = entry_queue(queue, "basic.get")
            entry = entries.get()
        except AmqpError as error:
            if taken:
                return
            raise HttpError(error.code if error.code < 600 else 400, "bad_request", error.text) from error
        if entry is None:
            if not entries.is_behind:
                return
            await now.pause()
            continue
        taken.append(entry)
        left = queue.message_count
        properties, body = in_091(entry.message)
        size += len(body)
        yield {
            **await payload_in_slices(body, given.encoding, given.truncate),
            "redelivered": entry.redelivered,
            "exchange": entry.message.address.exchange,
            "routing_key": entry.message.address.routing_key,
            "message_count": left,
            "properties": properties_shown(properties),
        }


_WHERE: Final = "/api/queues/{vhost}/{name}"
_READS: Final = Right.VHOST_VISIBLE
ROUTES: Final = (
    Route("GET", "/api/queues", _all, Right.USER, "All queues that the caller may see.", list[dict[str, Any]]),
    Route("GET", "/api/queues/detailed", _all, Right.USER, "All queues with all fields.", list[dict[str, Any]]),
    Route("GET", "/api/queues//", _of_first_vhost, Right.USER, "The queues of /.", list[dict[str, Any]]),
    Route("GET", "/api/queues/{vhost}", _of_vhost, _READS, "The queues of a virtual host.", list[dict[str, Any]]),
    Route("GET", _WHERE, _one, _READS, "A queue, with its consumers.", dict[str, Any]),
    Route("PUT", _WHERE, _put, Right.VHOST, "Declare a queue.", takes=QueueDeclaration, action="queue.declare"),
    Route("DELETE", _WHERE, _delete, Right.VHOST, "Delete a queue (if-empty, if-unused).", action="queue.delete"),
    Route("DELETE", f"{_WHERE}/contents", _purge, Right.VHOST, "Delete all ready messages.", action="queue.purge"),
    Route("POST", f"{_WHERE}/actions", _act, Right.VHOST, "Pause or resume a queue.", None, Action, "queue.action"),
    Route("POST", f"{_WHERE}/get", _get, Right.VHOST, "Take messages, and put them back depending on ackmode.",
          list[dict[str, Any]], GetRequest, NOT_AUDITED),
)  # fmt: skip
