"""Virtual hosts: list, create, change and delete."""

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from flintmq.broker.ports import PermissionRecord, VHostRecord
from flintmq.broker.vhost import VHost
from flintmq.management.definitions.document import parse_tags
from flintmq.management.errors import BadRequest, NotAuthorised
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import NOT_AUDITED, Route
from flintmq.management.stats.totals import message_stats, queue_totals

# RabbitMQ's word for no default queue type, and the type that then applies.
_NO_TYPE: Final = "undefined"
_OWN_TYPE: Final = "classic"


class VHostMetadata(Struct):
    description: str
    tags: tuple[str, ...]
    default_queue_type: str


class VHostShown(Struct):
    """A virtual host in RabbitMQ's format; `dialect` is FlintMQ's own."""

    name: str
    description: str
    tags: tuple[str, ...]
    default_queue_type: str
    metadata: VHostMetadata
    cluster_state: dict[str, str]
    dialect: str
    tracing: bool
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    messages_details: dict[str, Any]
    messages_ready_details: dict[str, Any]
    messages_unacknowledged_details: dict[str, Any]
    message_stats: dict[str, Any]
    protected_from_deletion: bool = False


class VHostWanted(Struct):
    """Changes of a virtual host; missing fields stay as they are. `tags` may be one text with commas."""

    description: str | None = None
    tags: str | list[str] | None = None
    default_queue_type: str | UnsetType | None = UNSET
    defaultqueuetype: str | None = None
    tracing: bool | None = None
    dialect: str | None = None


def describe_vhost(call: Call, vhost: VHost) -> VHostShown:
    record = vhost.record
    series = call.stats.vhosts.get(vhost.name)
    sampled = [] if series is None else [series]
    held: dict[str, Any] = queue_totals(sampled, call.request.query_params)
    queue_type = record.default_queue_type or _OWN_TYPE
    return VHostShown(
        name=vhost.name,
        description=record.description,
        tags=record.tags,
        default_queue_type=queue_type,
        metadata=VHostMetadata(record.description, record.tags, queue_type),
        cluster_state={call.node.name: "stopped" if call.node.failure else "running"},
        dialect=record.dialect,
        tracing=vhost.traced,
        message_stats=message_stats(sampled, call.request.query_params),
        **held,
    )


async def _list(call: Call) -> Response:
    return await listed(
        call, call.visible_vhosts(), lambda vhost: describe_vhost(call, vhost), lambda vhost: vhost.name
    )


async def _get(call: Call) -> Response:
    return answer(picked(call, describe_vhost(call, call.vhost())))


async def _put(call: Call) -> Response:
    name = call.path("vhost")
    wanted = await call.body(VHostWanted)
    known = call.broker.vhosts.get(name)
    before = VHostRecord(name) if known is None else known.record
    if call.caller.is_internal and call.caller.name not in call.broker.users:
        # The user was deleted while the body was received, so the permissions below would belong to nobody.
        raise NotAuthorised("the user was deleted")
    queue_type = wanted.defaultqueuetype if wanted.default_queue_type is UNSET else wanted.default_queue_type
    if queue_type is None:
        queue_type = before.default_queue_type
    call.broker.put_vhost(
        VHostRecord(
            name,
            before.dialect if wanted.dialect is None else wanted.dialect,
            "" if queue_type == _NO_TYPE else queue_type,
            before.description if wanted.description is None else wanted.description,
            before.tags if wanted.tags is None else parse_tags(wanted.tags),
        )
    )
    if known is None and call.caller.is_internal:
        # As in RabbitMQ, the creator gets permissions: tools create a virtual host and continue in it.
        call.broker.put_rule(PermissionRecord(name, call.caller.name, ".*", ".*", ".*"))
        call.given = "configure: .* write: .* read: .*"
    if wanted.tracing is not None:
        call.node.trace(call.vhost(), wanted.tracing)
    await call.node.durable()
    return put(known is not None)


async def _delete(call: Call) -> Response:
    vhost = call.vhost()
    call.broker.delete_vhost(vhost.name)
    # Other virtual hosts must not pay for this one's firehose.
    call.node.trace(vhost, False)
    await call.node.durable()
    return no_content()


async def _start(call: Call) -> Response:
    """Do nothing: all virtual hosts run as long as the node runs."""
    call.vhost()
    if call.path("node") != call.node.name:
        raise BadRequest(f"Unknown node: {call.path('node')}")
    return no_content()


_ONE: Final = "/api/vhosts/{vhost}"
_LIST: Any = list[VHostShown]

ROUTES: Final = (
    Route("GET", "/api/vhosts", _list, Right.USER, "The virtual hosts that the caller may see.", _LIST),
    Route("GET", _ONE, _get, Right.VHOST_VISIBLE, "One virtual host.", VHostShown),
    Route(
        "PUT",
        _ONE,
        _put,
        Right.ADMINISTRATOR,
        "Create a virtual host, with permissions for its creator, or change one.",
        None,
        VHostWanted,
        "vhost.put",
    ),
    Route(
        "DELETE",
        _ONE,
        _delete,
        Right.ADMINISTRATOR,
        "Delete a virtual host with all that is in it.",
        action="vhost.delete",
    ),
    Route(
        "POST",
        f"{_ONE}/start/{{node}}",
        _start,
        Right.ADMINISTRATOR,
        "Start a virtual host on a node: it runs.",
        action=NOT_AUDITED,
    ),
)
