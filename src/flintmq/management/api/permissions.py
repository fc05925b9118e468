"""Permissions: what users may configure, write and read in virtual hosts."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.access.permission import Rights
from flintmq.broker.ports import PermissionRecord
from flintmq.management.api.users import user_of
from flintmq.management.errors import BadRequest, Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route


class PermissionShown(Struct):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class PermissionWanted(Struct):
    configure: str
    write: str
    read: str


def _describe(record: PermissionRecord) -> PermissionShown:
    return PermissionShown(record.user, record.vhost, record.configure, record.write, record.read)


async def _listed(call: Call, rights: Iterable[Rights]) -> Response:
    found = [each.permission for each in rights if each.permission is not None]
    return await listed(call, found, _describe, lambda record: record.user, lambda record: (record.vhost, record.user))


def everywhere(call: Call) -> Iterable[Rights]:
    """The rights of all users in all virtual hosts."""
    return (rights for user in call.broker.users.values() for rights in user.all_rights)


def of_vhost(call: Call) -> Iterable[Rights]:
    """The rights of all users in the virtual host of the path."""
    vhost = call.vhost().name
    return (user.rights(vhost) for user in call.broker.users.values())


async def _list(call: Call) -> Response:
    return await _listed(call, everywhere(call))


async def _of_user(call: Call) -> Response:
    return await _listed(call, user_of(call).all_rights)


async def _of_vhost(call: Call) -> Response:
    return await _listed(call, of_vhost(call))


def existing(call: Call) -> Rights:
    """The rights of the user in the virtual host of the path. Raises Missing if one of them does not exist."""
    vhost = call.vhost().name
    return user_of(call).rights(vhost)


def target(call: Call) -> Rights:
    """The rights to be changed, of the user in the virtual host of the path. Raises BadRequest if one of them does not
    exist (as RabbitMQ).
    """
    try:
        return existing(call)
    except Missing as error:
        raise BadRequest("vhost_or_user_not_found") from error


async def _get(call: Call) -> Response:
    permission = existing(call).permission
    if permission is None:
        raise Missing
    return answer(picked(call, _describe(permission)))


async def _put(call: Call) -> Response:
    wanted = await call.body(PermissionWanted)
    call.given = f"configure: {wanted.configure} write: {wanted.write} read: {wanted.read}"
    rights = target(call)
    was_there = rights.permission is not None
    call.broker.put_rule(PermissionRecord(rights.vhost, rights.user, wanted.configure, wanted.write, wanted.read))
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call) -> Response:
    permission = existing(call).permission
    if permission is None:
        raise Missing
    call.broker.delete_rule(permission)
    await call.node.durable()
    return no_content()


_ONE: Final = "/api/permissions/{vhost}/{user}"
_LIST: Any = list[PermissionShown]
_ADMIN: Final = Right.ADMINISTRATOR

ROUTES: Final = (
    Route("GET", "/api/permissions", _list, _ADMIN, "All permissions of all users.", _LIST),
    Route("GET", "/api/users/{user}/permissions", _of_user, _ADMIN, "All permissions of a user.", _LIST),
    Route("GET", "/api/vhosts/{vhost}/permissions", _of_vhost, _ADMIN, "All permissions in a virtual host.", _LIST),
    Route("GET", _ONE, _get, _ADMIN, "The permissions of a user in a virtual host.", PermissionShown),
    Route("PUT", _ONE, _put, _ADMIN, "Give a user permissions.", None, PermissionWanted, "permission.put"),
    Route("DELETE", _ONE, _delete, _ADMIN, "Take a user's permissions.", action="permission.delete"),
)
