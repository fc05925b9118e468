"""The caller's identity, ways to log in, and small endpoints that RabbitMQ's tools expect."""

from typing import Any, Final
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.responses import Response

from flintmq.management.http.access import Right, check_access
from flintmq.management.http.auth import authenticated
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import NOT_AUDITED, Route

# The form has a name and a password only, and comes from an unauthenticated client.
_FORM_MAX_BYTES: Final = 4_096


class WhoAmI(Struct):
    name: str
    tags: tuple[str, ...]
    is_internal_user: bool


class LoginOptions(Struct):
    """How to log in. `oauth_enabled` says that tokens of an OAuth 2 issuer are accepted."""

    oauth_enabled: bool


async def _whoami(call: Call) -> Response:
    return answer(WhoAmI(call.caller.name, call.caller.tags, call.caller.is_internal))


async def _auth(call: Call) -> Response:
    return answer(LoginOptions(call.node.takes_tokens))


class Hashed(Struct):
    ok: str


async def _login(call: Call) -> Response:
    """Check the credentials of a login form; the answer is the user, never the credentials."""
    form = parse_qs((await call.data(_FORM_MAX_BYTES)).decode(errors="replace"), max_num_fields=8)
    user, password = (form.get(name, [""])[-1] for name in ("username", "password"))
    caller = await authenticated(call.request, call.node, user, password)
    check_access(caller, Right.USER, None)
    return answer(WhoAmI(caller.name, caller.tags, caller.is_internal))


async def _hash_password(call: Call) -> Response:
    return answer(Hashed(call.node.salted_hash(call.path("password"))))


async def _extensions(_call: Call) -> Response:
    return answer([{"javascript": "dispatcher.js"}])


async def _none(_call: Call) -> Response:
    return answer([])


async def _version(call: Call) -> Response:
    return answer(call.node.rabbitmq_version)


_LIST: Any = list[dict[str, str]]

ROUTES: Final = (
    Route("GET", "/api/whoami", _whoami, Right.USER, "The caller's name and tags.", WhoAmI),
    Route("GET", "/api/auth", _auth, Right.ANYBODY, "How to log in.", LoginOptions),
    Route(
        "POST",
        "/api/login",
        _login,
        Right.ANYBODY,
        "Check a name and a password, sent as a form.",
        WhoAmI,
        action=NOT_AUDITED,
    ),
    Route(
        "GET",
        "/api/auth/hash_password/{password}",
        _hash_password,
        Right.ADMINISTRATOR,
        "A password_hash for a user, as RabbitMQ hashes passwords by default.",
        Hashed,
    ),
    Route("GET", "/api/extensions", _extensions, Right.USER, "Extensions of the web interface.", _LIST),
    Route("GET", "/api/feature-flags", _none, Right.USER, "Feature flags: there are none.", _LIST),
    Route("GET", "/api/deprecated-features", _none, Right.USER, "Deprecated features: there are none.", _LIST),
    Route(
        "GET", "/api/deprecated-features/used", _none, Right.USER, "Deprecated features in use: there are none.", _LIST
    ),
    Route("GET", "/api/version", _version, Right.USER, "The version of RabbitMQ whose API this is.", str),
)
