"""Limits of virtual hosts and users."""

from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.access.limits import LIMITS
from flintmq.broker.ports import LimitRecord
from flintmq.management.api.users import user_of
from flintmq.management.errors import Missing, NotAuthorised
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.routes import Route


class VHostLimits(Struct):
    vhost: str
    value: dict[str, int]


class UserLimits(Struct):
    user: str
    value: dict[str, int]


class LimitWanted(Struct):
    """A limit to set; a negative value stands for no limit."""

    value: int


async def _of_vhosts(call: Call) -> Response:
    vhosts = [call.vhost()] if "vhost" in call.request.path_params else call.visible_vhosts()
    return answer([VHostLimits(vhost.name, vhost.limits.values) for vhost in vhosts if vhost.limits.values])


async def _of_users(call: Call) -> Response:
    users = list(call.broker.users.values())
    return answer([UserLimits(user.name, user.limits.values) for user in users if user.limits.values])


async def _of_user(call: Call) -> Response:
    # This check comes first, so that the answer does not reveal whether the user exists.
    if not (call.caller.is_monitoring or call.caller.is_user(call.broker.users.get(call.path("user")))):
        raise NotAuthorised("User not authorised to access object")
    user = user_of(call)
    return answer([UserLimits(user.name, user.limits.values)] if user.limits.values else [])


async def _put_vhost(call: Call) -> Response:
    return await _put(call, "vhost", call.vhost().name)


async def _put_user(call: Call) -> Response:
    return await _put(call, "user", user_of(call).name)


async def _put(call: Call, scope: str, owner: str) -> Response:
    wanted = await call.body(LimitWanted)
    call.broker.put_rule(LimitRecord(scope, owner, call.path("name"), wanted.value))
    await call.node.durable()
    # RabbitMQ answers 204 for a new limit, too.
    return no_content()


async def _delete_vhost(call: Call) -> Response:
    return await _delete(call, "vhost", call.vhost().name)


async def _delete_user(call: Call) -> Response:
    return await _delete(call, "user", user_of(call).name)


async def _delete(call: Call, scope: str, owner: str) -> Response:
    """Delete a limit, which need not be set: Terraform deletes all limits before it sets those that it wants."""
    name = call.path("name")
    if name not in LIMITS[scope]:
        raise Missing
    call.broker.delete_rule(LimitRecord(scope, owner, name, 0))
    await call.node.durable()
    return no_content()


_VHOSTS: Any = list[VHostLimits]
_USERS: Any = list[UserLimits]
_ADMIN: Final = Right.ADMINISTRATOR
_VHOST: Final = "/api/vhost-limits/{vhost}/{name}"
_USER: Final = "/api/user-limits/{user}/{name}"

ROUTES: Final = (
    Route(
        "GET", "/api/vhost-limits", _of_vhosts, Right.USER, "The limits of all virtual hosts that have some.", _VHOSTS
    ),
    Route(
        "GET", "/api/vhost-limits/{vhost}", _of_vhosts, Right.VHOST_VISIBLE, "The limits of a virtual host.", _VHOSTS
    ),
    Route("PUT", _VHOST, _put_vhost, _ADMIN, "Limit a virtual host.", None, LimitWanted, "limit.put"),
    Route("DELETE", _VHOST, _delete_vhost, _ADMIN, "Lift a limit of a virtual host.", action="limit.delete"),
    Route("GET", "/api/user-limits", _of_users, _ADMIN, "The limits of all users that have some.", _USERS),
    Route("GET", "/api/user-limits/{user}", _of_user, Right.USER, "The limits of a user, also for that user.", _USERS),
    Route("PUT", _USER, _put_user, _ADMIN, "Limit a user.", None, LimitWanted, "limit.put"),
    Route("DELETE", _USER, _delete_user, _ADMIN, "Lift a limit of a user.", action="limit.delete"),
)
