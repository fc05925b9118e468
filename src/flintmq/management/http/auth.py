"""Who sends a request: its Authorization header, checked as the broker checks logins."""

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable
from typing import Any, Final, Protocol, TypeVar

from starlette.requests import HTTPConnection

from flintmq.base.addresses import is_loopback
from flintmq.gateway.login import is_token
from flintmq.management.errors import NotAuthenticated, NotAuthorised, ServiceUnavailable
from flintmq.management.http.access import Caller
from flintmq.management.http.guard import AUTHENTICATED
from flintmq.management.ports import Node

# In the state of a connection: the tasks that are to be cancelled when it is gone, for nobody waits any more.
LOGINS: Final = "logins"
# In the same place, who sends what comes by it.
CONNECTION: Final = "sender"

T = TypeVar("T")


class ClientConnection(Protocol):
    """Whoever is at the other end of a connection: a stranger, until somebody has logged in there."""

    def on_login(self, who: str, is_preferred: bool) -> str:
        """Somebody has logged in; returns why the connection cannot be kept all the same, or ""."""


async def identify(connection: HTTPConnection, node: Node) -> Caller:
    """Raises NotAuthenticated and NotAuthorised; the reasons that are logged are not for strangers."""
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    # A page that asks for itself shows its own form; browsers would put theirs in front of it.
    challenged = "x-requested-with" not in connection.headers
    if scheme.lower() == "bearer":
        return await _bearer(connection, node, credentials.strip())
    if scheme.lower() != "basic":
        raise NotAuthenticated(challenged=challenged)
    user, password = _basic(credentials)
    return await authenticated(connection, node, user, password)


def register_login(connection: HTTPConnection, caller: Caller, *, is_check: bool = False) -> None:
    """Whoever sends this has logged in, and is no stranger any more.

    Raises ServiceUnavailable where the user has its share of sockets already; a health check is answered all the same.
    """
    state: dict[str, Any] = connection.scope.get("state", {})
    sender: ClientConnection | None = state.get(CONNECTION)
    if sender is not None:
        who = caller.name if caller.is_internal else f"{caller.name} by token"
        refusal = sender.on_login(who, caller.is_monitoring)
        if refusal and not is_check:
            raise ServiceUnavailable(refusal)
        if refusal:
            return
    connection.scope[AUTHENTICATED] = True


async def authenticated(connection: HTTPConnection, node: Node, user: str, password: str) -> Caller:
    """The user whose password it is. Raises as `identify` does."""
    if node.takes_tokens and is_token(password):
        # As over AMQP, for clients that know of no tokens.
        return await _bearer(connection, node, password)
    challenged = "x-requested-with" not in connection.headers
    address = _address(connection, node)
    why = await _while_there(connection, node.authenticate(user, password, address))
    # The user may be gone by now.
    known = node.broker.users.get(user)
    if why or known is None:
        node.log.warning("login refused", peer=address, protocol="http", reason=why)
        if why.endswith("may only log in from this machine"):
            raise NotAuthorised("User can only log in via localhost")
        raise NotAuthenticated(challenged=challenged)
    return Caller(known, known.rights)


async def _bearer(connection: HTTPConnection, node: Node, token: str) -> Caller:
    """Raises as `identify` does."""
    address = _address(connection, node)
    why, bearer = await _while_there(connection, node.authenticate_token(token, address))
    if bearer is None:
        node.log.warning("login refused", peer=address, protocol="http", reason=why)
        raise NotAuthenticated(challenged="x-requested-with" not in connection.headers)
    return Caller(bearer.user, bearer.rights, is_internal=False)


async def _while_there(connection: HTTPConnection, verdict: Awaitable[T]) -> T:
    """The verdict, unless the connection goes first: then what it takes to find it is not spent."""
    state: dict[str, Any] = connection.scope.get("state", {})
    waiting: set[asyncio.Task[Any] | None] = state.get(LOGINS, set())
    task = asyncio.current_task()
    waiting.add(task)
    try:
        return await verdict
    except asyncio.CancelledError as error:
        raise NotAuthenticated from error
    finally:
        waiting.discard(task)


def _address(connection: HTTPConnection, node: Node) -> str:
    """Where it comes from. Raises NotAuthorised where somebody between there and here may have read the secret."""
    address = connection.client.host if connection.client else ""
    if connection.url.scheme == "http" and not (is_loopback(address) or node.allows_clear_text):
        node.log.warning("login refused", peer=address, protocol="http", reason="in clear text from another machine")
        raise NotAuthorised("Credentials are taken by HTTPS only, or where auth.allow_clear_text is set")
    return address


def _basic(credentials: str) -> tuple[str, str]:
    """rfc 7617 §2: user and password, in base64. Raises NotAuthenticated."""
    try:
        user, colon, password = b64decode(credentials, validate=True).decode().partition(":")
    except (Base64Error, ValueError) as error:
        raise NotAuthenticated from error
    if not colon:
        raise NotAuthenticated
    return user, password
