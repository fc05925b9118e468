"""The HTTP application: Starlette serves the table of routes."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final, final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from flintmq.base.addresses import network
from flintmq.base.errors import FlintError
from flintmq.base.limits import HTTP_ANSWER_SECONDS
from flintmq.gateway.audit import AuditEvent
from flintmq.management.errors import HttpError, MethodNotAllowed, Missing, refusal_of
from flintmq.management.http.access import Right, check_access
from flintmq.management.http.auth import identify, register_login
from flintmq.management.http.call import Call
from flintmq.management.http.concurrency import LISTS, METRICS, AnswerLimit
from flintmq.management.http.guard import Guard
from flintmq.management.http.routes import NOT_AUDITED, Route
from flintmq.management.ports import Node
from flintmq.management.stats.history import KINDS, range_of
from flintmq.management.stats.sampler import Stats

# The name of the path variable that names the virtual host.
_VHOST: Final = "vhost"
# Paths that load balancers and monitoring call: they get an answer even if a user has all connections.
_CHECKS: Final = ("/api/health/checks/", "/api/aliveness-test/", "/metrics")
# The limit of the `given` field of an audit event; it applies to refused requests, too.
_GIVEN_MAX_CHARACTERS: Final = 1_024


def application(
    node: Node, stats: Stats, routes: Iterable[Route], body_max_bytes: int, beside: Iterable[BaseRoute] = ()
) -> ASGIApp:
    """The ASGI application for these routes. `beside` are Starlette routes, such as static files; the API's routes come
    first. `body_max_bytes` limits request bodies.
    """
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    limits = {LISTS: AnswerLimit(), METRICS: AnswerLimit()}
    paths: list[BaseRoute] = [
        Path(path, _Resource(node, stats, by_path[path], body_max_bytes, limits))
        for path in sorted(by_path, key=_generality)
    ]
    inner = Starlette(routes=[*paths, *beside], exception_handlers={404: _missing})
    inner.router.redirect_slashes = False
    return Guard(inner)


def _generality(path: str) -> list[tuple[bool, str]]:
    """A sort key that puts fixed parts of a path before variable ones: /users/bulk-delete is not a user."""
    return [(part.startswith("{"), part) for part in path.split("/")]


async def _missing(_request: Request, _error: Exception) -> Response:
    return Missing().response()


@final
class _Resource:
    """The routes of one path, by method."""

    def __init__(
        self, node: Node, stats: Stats, methods: dict[str, Route], body_max_bytes: int, limits: dict[str, AnswerLimit]
    ) -> None:
        self._node = node
        self._stats = stats
        self._methods = methods
        self._body_max_bytes = body_max_bytes
        self._limits = limits
        self._allowed = ", ".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as exit_stack:
            response = await self._respond(Request(scope, receive), exit_stack)
            # A client that reads its answer too slowly is disconnected.
            async with asyncio.timeout(HTTP_ANSWER_SECONDS):
                await response(scope, receive, send)

    async def _respond(self, request: Request, exit_stack: AsyncExitStack) -> Response:
        """Handle a request, and convert errors to answers. `exit_stack` holds the answer limit until the client has the
        answer.
        """
        try:
            return await self._handle(request, exit_stack)
        except HttpError as error:
            return error.response()
        except FlintError as error:
            return refusal_of(error).response()
        except Exception:
            # Log the route's path, not the request's, which may contain a password.
            self._node.log.exception(
                "internal error", method=request.method, path=next(iter(self._methods.values())).path
            )
            refusal = HttpError(500, "internal_server_error", "internal error: see the broker's log")
            return refusal.response()

    async def _handle(self, request: Request, exit_stack: AsyncExitStack) -> Response:
        if request.method == "OPTIONS":
            return Response(headers={"allow": self._allowed})
        route = self._methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise MethodNotAllowed(self._allowed)
        call = Call(request, self._node, self._stats, self._body_max_bytes)
        if route.right is not Right.ANYBODY:
            call.caller = await identify(request, self._node)
        if route.method == "GET" or route.action == NOT_AUDITED:
            return await self._answer(route, call, exit_stack)
        try:
            response = await self._answer(route, call, exit_stack)
        except Exception as error:
            self._audit(route, call, str(error) if isinstance(error, FlintError) else "internal error")
            raise
        self._audit(route, call, "")
        return response

    def _audit(self, route: Route, call: Call, refusal: str) -> None:
        """Write audit events: one for each change that was made, and one for the refusal of the rest."""
        for act, name in call.audited:
            self._node.audit(_audit_event(route, call, act, name, ""))
        if refusal or not call.audited:
            names = [_readable(name) for variable, name in call.request.path_params.items() if variable != _VHOST]
            self._node.audit(_audit_event(route, call, "", " ".join(names), refusal))

    async def _answer(self, route: Route, call: Call, exit_stack: AsyncExitStack) -> Response:
        """Check access and limits, and call the handler. Raises the error that refuses the request."""
        request = call.request
        if route.right is not Right.ANYBODY:
            vhost = call.broker.vhosts.get(call.path(_VHOST)) if _VHOST in request.path_params else None
            check_access(call.caller, route.right, vhost)
            register_login(request, call.caller, is_check=route.path.startswith(_CHECKS))
        if route.limit_group:
            await exit_stack.enter_async_context(self._limits[route.limit_group].acquire(_caller_key(call)))
        if route.method == "GET":
            for what in KINDS:
                range_of(request.query_params, what)
        self._node.now_ms()
        return await route.handler(call)


def _caller_key(call: Call) -> str:
    """The key by which answer limits distinguish callers: the user, or the address if the route needs no login."""
    client = call.request.client
    return f"user {call.caller.name}" if call.caller.name else f"at {network(client.host) if client else ''}"


def _audit_event(route: Route, call: Call, act: str, name: str, refusal: str) -> AuditEvent:
    return AuditEvent(
        call.caller.name,
        call.peer,
        "http",
        _readable(call.request.path_params.get(_VHOST, "")),
        act or route.action or f"{route.method} {route.path}",
        name,
        refusal,
        call.given[:_GIVEN_MAX_CHARACTERS],
    )


def _readable(name: str) -> str:
    """A path variable as text for the audit log, even if it is refused because it is not valid UTF-8."""
    return unquote(name)
