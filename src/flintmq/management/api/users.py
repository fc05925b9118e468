"""Users: tags and passwords. Administrators see password hashes, as in exported definitions."""

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from flintmq.broker.access.user import User
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.broker.rules import check_rule
from flintmq.management.definitions.document import parse_tags
from flintmq.management.definitions.importer import checked_algorithm
from flintmq.management.errors import BadRequest, Missing
from flintmq.management.http.access import PROTECTED, Right
from flintmq.management.http.call import Call, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route


class UserShown(Struct):
    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...]
    limits: dict[str, int]


class PermissionOfUser(Struct):
    configure: str
    write: str
    read: str


class UserWanted(Struct):
    """A user to create or change: with a password, or a password hash; with neither, or an empty one, password login is
    disabled.

    `permissions`, by virtual host, apply only to a new user.
    """

    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] | UnsetType = UNSET
    permissions: dict[str, PermissionOfUser] = {}


class UsersToDelete(Struct):
    users: list[str]


def user_of(call: Call) -> User:
    """The user in the path. Raises Missing."""
    found = call.broker.users.get(call.path("user"))
    if found is None:
        raise Missing
    return found


def _describe(user: User) -> UserShown:
    record = user.record
    return UserShown(user.name, record.password_hash, record.hashing_algorithm, record.tags, user.limits.values)


async def _list(call: Call) -> Response:
    return await listed(call, list(call.broker.users.values()), _describe, lambda user: user.name)


async def _without_permissions(call: Call) -> Response:
    users = [
        user for user in call.broker.users.values() if all(rights.permission is None for rights in user.all_rights)
    ]
    return await listed(call, users, _describe, lambda user: user.name)


async def _get(call: Call) -> Response:
    return answer(picked(call, _describe(user_of(call))))


def _check_unprotected(call: Call, name: str) -> None:
    """Raise BadRequest for a user with the tag protected (RabbitMQ)."""
    user = call.broker.users.get(name)
    if user is not None and PROTECTED in user.record.tags:
        raise BadRequest("Protected users cannot be modified via the HTTP API")


async def _put(call: Call) -> Response:
    name = call.path("user")
    _check_unprotected(call, name)
    wanted = await call.body(UserWanted)
    if wanted.tags is UNSET:
        raise BadRequest("Object missing required field `tags`")
    tags = parse_tags(wanted.tags)
    call.given = f"tags: {' '.join(tags)}"
    record = await _record(call, name, wanted, tags)
    # Time has passed while the password was hashed, so the broker's clock is set again.
    call.node.now_ms()
    _check_unprotected(call, name)
    known = name in call.broker.users
    given = [] if known else _permissions(call, name, wanted)
    for each in given:
        call.given += f" vhost: {each.vhost} configure: {each.configure} write: {each.write} read: {each.read}"
    call.broker.put_user(record)
    for permission in given:
        call.broker.put_rule(permission)
    await call.node.durable()
    return put(known)


def _permissions(call: Call, user: str, wanted: UserWanted) -> list[PermissionRecord]:
    """The permissions for a new user. Raises BadRequest, and ConfigurationError for an invalid pattern."""
    for vhost in wanted.permissions:
        if vhost not in call.broker.vhosts:
            raise BadRequest(f"no virtual host '{vhost}': create it before its permissions are given")
    records = [
        PermissionRecord(vhost, user, each.configure, each.write, each.read)
        for vhost, each in wanted.permissions.items()
    ]
    for record in records:
        check_rule(record)
    return records


async def _record(call: Call, name: str, wanted: UserWanted, tags: tuple[str, ...]) -> UserRecord:
    if wanted.password is not None and wanted.password_hash is not None:
        raise BadRequest("Cannot set both a password and a password_hash")
    user = call.broker.users.get(name)
    known = user.record if user else None
    if wanted.password:
        (secret,) = await call.node.hash_passwords([(known, wanted.password)])
        return UserRecord(name, secret.hash, tags, secret.algorithm, secret.scram)
    password_hash = wanted.password_hash or ""
    return UserRecord(name, password_hash, tags, checked_algorithm(known, password_hash, wanted.hashing_algorithm))


async def _delete(call: Call) -> Response:
    name = user_of(call).name
    _check_unprotected(call, name)
    call.broker.delete_user(name)
    await call.node.durable()
    return no_content()


async def _bulk_delete(call: Call) -> Response:
    wanted = await call.body(UsersToDelete)
    for name in wanted.users:
        user = call.broker.users.get(name)
        # As in RabbitMQ, protected users stay, and the others are deleted.
        if user is not None and PROTECTED not in user.record.tags:
            call.broker.delete_user(name)
            call.audit(name)
    await call.node.durable()
    return no_content()


_ONE: Final = "/api/users/{user}"
_LIST: Any = list[UserShown]
_ADMIN: Final = Right.ADMINISTRATOR

ROUTES: Final = (
    Route("GET", "/api/users", _list, _ADMIN, "All users.", _LIST),
    Route("GET", "/api/users/without-permissions", _without_permissions, _ADMIN, "Users without permissions.", _LIST),
    Route(
        "POST",
        "/api/users/bulk-delete",
        _bulk_delete,
        _ADMIN,
        "Delete several users.",
        None,
        UsersToDelete,
        "user.delete",
    ),
    Route("GET", _ONE, _get, _ADMIN, "One user.", UserShown),
    Route("PUT", _ONE, _put, _ADMIN, "Create a user, or change tags and password.", None, UserWanted, "user.put"),
    Route("DELETE", _ONE, _delete, _ADMIN, "Delete a user, and close its connections.", action="user.delete"),
)
