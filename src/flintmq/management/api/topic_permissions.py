"""Topic permissions: which routing keys users may use at topic exchanges."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.access.permission import Rights
from flintmq.broker.ports import TopicPermissionRecord
from flintmq.management.api.permissions import everywhere, existing, of_vhost, target
from flintmq.management.api.users import user_of
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, no_content, put
from flintmq.management.http.listing import listed
from flintmq.management.http.routes import Route


class TopicPermissionShown(Struct):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class TopicPermissionWanted(Struct):
    exchange: str
    write: str
    read: str


def _describe(record: TopicPermissionRecord) -> TopicPermissionShown:
    return TopicPermissionShown(record.user, record.vhost, record.exchange, record.write, record.read)


async def _listed(call: Call, rights: Iterable[Rights]) -> Response:
    return await listed(
        call,
        [record for each in rights for record in each.topics.values()],
        _describe,
        lambda record: record.user,
        lambda record: (record.vhost, record.user, record.exchange),
    )


async def _list(call: Call) -> Response:
    return await _listed(call, everywhere(call))


async def _of_user(call: Call) -> Response:
    return await _listed(call, user_of(call).all_rights)


async def _of_vhost(call: Call) -> Response:
    return await _listed(call, of_vhost(call))


async def _get(call: Call) -> Response:
    rights = existing(call)
    if not rights.topics:
        raise Missing
    return await _listed(call, [rights])


async def _put(call: Call) -> Response:
    wanted = await call.body(TopicPermissionWanted)
    call.given = f"exchange: {wanted.exchange} write: {wanted.write} read: {wanted.read}"
    rights = target(call)
    was_there = bool(rights.topics)
    call.broker.put_rule(TopicPermissionRecord(rights.vhost, rights.user, wanted.exchange, wanted.write, wanted.read))
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call) -> Response:
    return await _deleted(call, list(existing(call).topics.values()))


async def _delete_one(call: Call) -> Response:
    exchange = call.exchange()
    return await _deleted(call, [record for record in existing(call).topics.values() if record.exchange == exchange])


async def _deleted(call: Call, records: list[TopicPermissionRecord]) -> Response:
    if not records:
        raise Missing
    for record in records:
        call.broker.delete_rule(record)
        call.audit(f"{record.user} {record.exchange or 'amq.default'}")
    await call.node.durable()
    return no_content()


_ONE: Final = "/api/topic-permissions/{vhost}/{user}"
_LIST: Any = list[TopicPermissionShown]
_ADMIN: Final = Right.ADMINISTRATOR

ROUTES: Final = (
    Route("GET", "/api/topic-permissions", _list, _ADMIN, "All topic permissions of all users.", _LIST),
    Route("GET", "/api/users/{user}/topic-permissions", _of_user, _ADMIN, "All topic permissions of a user.", _LIST),
    Route(
        "GET", "/api/vhosts/{vhost}/topic-permissions", _of_vhost, _ADMIN, "Topic permissions in a virtual host.", _LIST
    ),
    Route("GET", _ONE, _get, _ADMIN, "The topic permissions of a user in a virtual host.", _LIST),
    Route(
        "PUT",
        _ONE,
        _put,
        _ADMIN,
        "Restrict a user's routing keys at an exchange.",
        None,
        TopicPermissionWanted,
        "topic_permission.put",
    ),
    Route("DELETE", _ONE, _delete, _ADMIN, "Delete all of them.", action="topic_permission.delete"),
    Route(
        "DELETE",
        f"{_ONE}/{{exchange}}",
        _delete_one,
        _ADMIN,
        "Delete the topic permissions of a user at one exchange.",
        action="topic_permission.delete",
    ),
)
