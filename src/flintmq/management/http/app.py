"""The HTTP application: the table of routes, served by Starlette."""

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
from flintmq.gateway.acts import Act
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

# What lets a look at a virtual host, or at something in it, be told from one at nothing.
_VHOST: Final = "vhost"
# What load balancers ask, who have to be told also where others take all there is.
_CHECKS: Final = ("/api/health/checks/", "/api/aliveness-test/", "/metrics")
# Of rights that are given, in the audit log: also of those that are refused for their length.
_GIVEN_MAX_CHARACTERS: Final = 1_024


def application(
    node: Node, stats: Stats, routes: Iterable[Route], body_max_bytes: int, beside: Iterable[BaseRoute] = ()
) -> ASGIApp:
    """`beside` are routes of Starlette's own kind, such as those of static files; the API's go first."""
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
    """Fixed parts of a path go before variable ones: /users/bulk-delete is no user."""
    return [(part.startswith("{"), part) for part in path.split("/")]


async def _missing(_request: Request, _error: Exception) -> Response:
    return Missing().response()


@final
class _Resource:
    """All that may be done with one path."""

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
            # Who takes it by the drop is hung up on.
            async with asyncio.timeout(HTTP_ANSWER_SECONDS):
                await response(scope, receive, send)

    async def _respond(self, request: Request, exit_stack: AsyncExitStack) -> Response:
        """A `exit_stack` that has to be waited for lasts until the client has the answer."""
        try:
            return await self._handle(request, exit_stack)
        except HttpError as error:
            return error.response()
        except FlintError as error:
            return refusal_of(error).response()
        except Exception:
            # Not the path itself, which may have a password in it.
            self._node.log.exception(
                "internal error", method=request.method, path=next(iter(self._methods.values())).path
            )
            refusal = HttpError(500, "internal_server_error", "the broker could not do that; its log says why")
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
        """The audit log gets what was done, and that the rest of it was refused."""
        for act, name in call.audited:
            self._node.audit(_audit_event(route, call, act, name, ""))
        if refusal or not call.audited:
            names = [_readable(name) for variable, name in call.request.path_params.items() if variable != _VHOST]
            self._node.audit(_audit_event(route, call, "", " ".join(names), refusal))

    async def _answer(self, route: Route, call: Call, exit_stack: AsyncExitStack) -> Response:
        """Raises what refuses it."""
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
    """Who is one and the same: the user, or whoever asks from there where nobody was asked for a login."""
    client = call.request.client
    return f"user {call.caller.name}" if call.caller.name else f"at {network(client.host) if client else ''}"


def _audit_event(route: Route, call: Call, act: str, name: str, refusal: str) -> Act:
    client = call.request.client
    return Act(
        call.caller.name,
        f"{client.host}:{client.port}" if client else "",
        "http",
        _readable(call.request.path_params.get(_VHOST, "")),
        act or route.action or f"{route.method} {route.path}",
        name,
        refusal,
        call.given[:_GIVEN_MAX_CHARACTERS],
    )


def _readable(name: str) -> str:
    """A variable of the path, whatever it is: also what is refused for being no text is told."""
    return unquote(name)
