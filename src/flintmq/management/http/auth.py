"""Authentication: checks the Authorization header of a request in the same way as the broker checks logins."""

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

# Key in the state of a connection: tasks to cancel when the connection is closed, because nobody waits for their
# result.
LOGINS: Final = "logins"
# Key in the state of a connection: the connection itself, which is informed about logins.
CONNECTION: Final = "sender"

T = TypeVar("T")


class ClientConnection(Protocol):
    """A client's connection, which is unauthenticated until a request on it has logged in."""

    def on_login(self, who: str, is_preferred: bool) -> str:
        """Report a login; return why the connection cannot be kept nevertheless, or ""."""


async def identify(connection: HTTPConnection, node: Node) -> Caller:
    """Authenticate a request. Raises NotAuthenticated or NotAuthorised without the reason, which is only logged."""
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    # Scripts of a page set this header and show their own form; a challenge would make the browser show its own dialog
    # first.
    challenged = "x-requested-with" not in connection.headers
    if scheme.lower() == "bearer":
        return await _bearer(connection, node, credentials.strip())
    if scheme.lower() != "basic":
        raise NotAuthenticated(challenged=challenged)
    user, password = _basic(credentials)
    return await authenticated(connection, node, user, password)


def register_login(connection: HTTPConnection, caller: Caller, *, is_check: bool = False) -> None:
    """Record that the sender of a request has logged in.

    Raises ServiceUnavailable if the user has too many connections; a health check (`is_check`) is answered
    nevertheless.
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
    """Check a name and a password, or a token as the password. Raises NotAuthenticated or NotAuthorised."""
    if node.takes_tokens and is_token(password):
        # A token may be sent as the password, as over AMQP, by clients without support for tokens.
        return await _bearer(connection, node, password)
    challenged = "x-requested-with" not in connection.headers
    address = _address(connection, node)
    why = await _unless_closed(connection, node.authenticate(user, password, address))
    # The user may have been deleted meanwhile.
    known = node.broker.users.get(user)
    if why or known is None:
        node.log.warning("login refused", peer=address, protocol="http", reason=why)
        if why.endswith("may only log in from this machine"):
            raise NotAuthorised("User can only log in via localhost")
        raise NotAuthenticated(challenged=challenged)
    return Caller(known, known.rights)


async def _bearer(connection: HTTPConnection, node: Node, token: str) -> Caller:
    """Check a token. Raises NotAuthenticated or NotAuthorised."""
    address = _address(connection, node)
    why, bearer = await _unless_closed(connection, node.authenticate_token(token, address))
    if bearer is None:
        node.log.warning("login refused", peer=address, protocol="http", reason=why)
        raise NotAuthenticated(challenged="x-requested-with" not in connection.headers)
    return Caller(bearer.user, bearer.rights, is_internal=False)


async def _unless_closed(connection: HTTPConnection, verdict: Awaitable[T]) -> T:
    """Wait for a check of credentials; cancel it if the connection is closed first, to save its cost."""
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
    """The address of the client. Raises NotAuthorised if credentials came over the network without TLS."""
    address = connection.client.host if connection.client else ""
    if connection.url.scheme == "http" and not (is_loopback(address) or node.allows_clear_text):
        node.log.warning("login refused", peer=address, protocol="http", reason="in clear text from another machine")
        raise NotAuthorised("Credentials are accepted over HTTPS only, unless auth.allow_clear_text is set")
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
