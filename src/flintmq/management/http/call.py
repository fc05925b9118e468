"""A request as handlers see it, and the answers that they may give."""

import asyncio
from typing import Annotated, Any, TypeVar, final, get_args
from urllib.parse import unquote

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from flintmq.base.limits import HTTP_BODY_SECONDS, HTTP_LOGIN_BODY_SECONDS
from flintmq.broker.access.user import User
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.broker.vhost import VHost
from flintmq.management.errors import JSON_TYPE, BadRequest, BodyTooLarge, HttpError, Missing, ServiceUnavailable
from flintmq.management.http.access import Caller
from flintmq.management.http.guard import AUTHENTICATED
from flintmq.management.ports import Node
from flintmq.management.stats.sampler import Stats

# A table; some clients, such as PHP and RabbitMQ's own, write an empty one as [].
TableGiven = dict[str, Any] | Annotated[list[Any], Meta(max_length=0)]
T = TypeVar("T")


@final
class Call:
    """A request. `caller` is the user that sent it; on routes without a login it has no name."""

    def __init__(self, request: Request, node: Node, stats: Stats, body_max_bytes: int) -> None:
        self.request = request
        self.node = node
        self.stats = stats
        nobody = User(UserRecord("", ""))
        self.caller = Caller(nobody, nobody.rights)
        # Audit events besides the one for the path: pairs of an action (empty for the route's) and a name.
        self.audited: list[tuple[str, str]] = []
        # Granted rights, for the audit event.
        self.given = ""
        self._body_max_bytes = body_max_bytes

    @property
    def broker(self) -> Broker:
        return self.node.broker

    def audit(self, name: str, act: str = "") -> None:
        """Add an audit event, for one of several changes, or for an action that the body names."""
        self.audited.append((act, name))

    def check_alarms(self) -> None:
        """Raise ServiceUnavailable while an alarm is on, because there is no room for more messages or definitions, or
        while too few nodes of the cluster are there to keep them.
        """
        if self.node.alarms:
            resources = " and ".join(sorted({alarm.resource for alarm in self.node.alarms}))
            raise ServiceUnavailable(
                f"the {resources} alarm is on: messages and declarations are taken again once there is room, so "
                "consume or purge some messages"
            )
        if self.node.shortage:
            raise ServiceUnavailable(f"{self.node.shortage}: messages and declarations are taken again afterwards")

    # -- what was asked -----------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """A path variable, decoded; empty if the path does not have it. Raises BadRequest if it is not valid UTF-8."""
        try:
            return unquote(self.request.path_params.get(name, ""), errors="strict")
        except UnicodeDecodeError as error:
            raise BadRequest(f"{name} in the path is not UTF-8") from error

    @property
    def peer(self) -> str:
        """The other side of the connection, as host:port; empty if it is not known."""
        client = self.request.client
        return f"{client.host}:{client.port}" if client else ""

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def vhost(self) -> VHost:
        """The virtual host in the path. Raises Missing."""
        found = self.broker.vhosts.get(self.path("vhost"))
        if found is None:
            raise Missing
        return found

    def exchange(self, variable: str = "exchange") -> str:
        """The exchange name in the path; amq.default stands for the default exchange, whose name is empty."""
        name = self.path(variable)
        return "" if name == "amq.default" else name

    def enterable_vhosts(self) -> list[VHost]:
        """The virtual hosts in which the caller has permissions; administrators need none."""
        vhosts = self.broker.vhosts.values()
        return [vhost for vhost in vhosts if self.caller.is_administrator or self.caller.may_enter(vhost.name)]

    def visible_vhosts(self) -> list[VHost]:
        """The virtual hosts whose objects the caller may see."""
        return [vhost for vhost in self.broker.vhosts.values() if self.caller.may_see(vhost.name)]

    async def data(self, most: int = 0) -> bytes:
        """Read the body, of at most `most` bytes (default: the server's limit).

        Raises BodyTooLarge before reading more, and HttpError 408 if the body comes too slowly.
        """
        most = most or self._body_max_bytes
        scope = self.request.scope
        announced = self.request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > most:
            raise BodyTooLarge(most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(HTTP_BODY_SECONDS if AUTHENTICATED in scope else HTTP_LOGIN_BODY_SECONDS):
                async for part in self.request.stream():
                    size += len(part)
                    if size > most:
                        raise BodyTooLarge(most)
                    parts.append(part)
        except TimeoutError as error:
            raise HttpError(408, "request_timeout", "the body of the request came too slowly") from error
        except ClientDisconnect as error:
            raise BadRequest("the request ended before its body was complete") from error
        # Time has passed, so the broker's clock is set again.
        self.node.now_ms()
        return b"".join(parts)

    async def body(self, kind: type[T]) -> T:
        """Read the body, a JSON object of type `kind`. A missing body is an empty object, and a field that is null
        counts as missing (as in RabbitMQ). Raises BadRequest.
        """
        data = await self.data()
        if data.strip() in (b"", b"null", b"undefined"):
            data = b"{}"
        try:
            return _read(data, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest("not_json") from error


def _read(data: bytes, kind: type[T]) -> T:
    try:
        # Numbers and booleans may be strings, because many scripts write them so.
        return msgspec.json.decode(data, type=kind, strict=False)
    except msgspec.ValidationError as error:
        if b"null" not in data:
            raise BadRequest(str(error)) from error
        return _without_nulls(data, kind)


def _without_nulls(data: bytes, kind: type[T]) -> T:
    """Decode again without null fields, except those whose type allows null."""
    given = msgspec.json.decode(data)
    if isinstance(given, dict) and issubclass(kind, msgspec.Struct):
        may_be_null = {each.name for each in msgspec.structs.fields(kind) if type(None) in get_args(each.type)}
        given = {name: value for name, value in given.items() if value is not None or name in may_be_null}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error)) from error


# -- answers ------------------------------------------------------------------------------------------------------


def answer(value: Any, status: int = 200) -> Response:  # noqa: ANN401 - whatever JSON can say
    """Answer with a value in JSON, made of builtins and structs. Use `listing` for long lists: it works in slices."""
    return Response(msgspec.json.encode(value), status, media_type=JSON_TYPE)


def created(location: str | None = None) -> Response:
    return Response(status_code=201, headers={"location": location} if location else None)


def no_content() -> Response:
    """Answer 204: done, also if an existing object was changed."""
    return Response(status_code=204)


def put(was_there: bool) -> Response:
    """Answer a PUT: 201 if the object is new, otherwise 204."""
    return no_content() if was_there else created()
