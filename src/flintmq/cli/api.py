"""A client of the HTTP API: JSON over one connection, with errors that say what to do."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.options import read_password

if TYPE_CHECKING:
    import ssl

# The import of thousands of queues takes the broker some seconds.
_TIMEOUT_SECONDS: Final = 60.0
_PORTS: Final = {"http": 15672, "https": 15671, "amqp": 15672, "amqps": 15671}
_FORM: Final = "http://user:password@host:15672"
# Number of entries per request of a long list.
PAGE_SIZE: Final = 500

# The first part of a path to an object, and the noun for it.
_GLOBAL_OBJECTS: Final = {"connections": "connection", "users": "user", "vhosts": "virtual host"}
_VHOST_OBJECTS: Final = {
    "operator-policies": "operator policy",
    "permissions": "permission of user",
    "policies": "policy",
    "queues": "queue",
    "resumable-links": "resumable link",
}


class Unreachable(FlintError):
    """No connection to the broker, or the answer is not one of a broker."""


class Refused(FlintError):
    """Wrong user name or password, or a missing permission."""


class Missing(FlintError):
    """An object that does not exist."""


@dataclass(frozen=True)
class Endpoint:
    """The address of the API, and the login."""

    host: str = "127.0.0.1"
    port: int = _PORTS["http"]
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    is_tls: bool = False
    # CA certificates in PEM; None means those of the machine.
    ca: Path | None = None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


def endpoint(api: str, amqp: str, password_file: Path | None, ca: Path | None) -> Endpoint:
    """Read the URL of the API or, if it is empty, the URL for AMQP: the API then has the same host and user.

    Raises ConfigurationError for a wrong URL or an unreadable password file.
    """
    found = replace(_endpoint(api or amqp), ca=ca)
    if not api and amqp:
        parts = urlsplit(amqp)
        trusted = parse_qs(parts.query).get("cacertfile", [])
        found = replace(found, port=_PORTS[parts.scheme], ca=ca or (Path(trusted[0]) if trusted else None))
    if password_file is None:
        return found
    return replace(found, password=read_password(password_file))


def _endpoint(url: str) -> Endpoint:
    if not url:
        return Endpoint()
    try:
        parts = urlsplit(url)
        port = parts.port
        scheme, host = parts.scheme, parts.hostname
    except ValueError:
        # The error of the parser may quote a part of the password.
        raise ConfigurationError(f"wrong URL of the HTTP API: write it as {_FORM}") from None
    if scheme not in _PORTS or not host:
        raise ConfigurationError(f"wrong URL of the HTTP API: write it as {_FORM}, or with https://")
    user, password = parts.username, parts.password
    return Endpoint(
        host,
        port or _PORTS[scheme],
        "guest" if user is None else unquote(user),
        "guest" if password is None else unquote(password),
        scheme in ("https", "amqps"),
    )


def path_of(*names: str) -> str:
    """Join names to a path below /api. A "/" within a name becomes %2F."""
    return "/".join(quote(name, safe="") for name in names)


def _object_of(path: str) -> str:
    """The object that a path names, such as "queue 'q' in virtual host '/'", for the error that it does not exist."""
    kind, *names = map(unquote, path.partition("?")[0].split("/"))
    if kind in _GLOBAL_OBJECTS and names:
        return f"{_GLOBAL_OBJECTS[kind]} '{names[0]}'"
    if kind in _VHOST_OBJECTS and len(names) > 1:
        return f"{_VHOST_OBJECTS[kind]} '{names[1]}' in virtual host '{names[0]}'"
    if len(names) == 1:
        return f"virtual host '{names[0]}'"
    return f"/api/{path.partition('?')[0]}"


class Api:
    """A connection to the HTTP API, opened by the first request; use it in `with`.

    All methods raise Unreachable, Refused and Missing, and FlintError for any other error that the API returns.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint: Final = endpoint
        # Commands that do not use the API start faster without this import.
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        self._no_http: Final = HTTPException
        host, port = endpoint.host, endpoint.port
        self._connection: Final = (
            HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=_context(endpoint))
            if endpoint.is_tls
            else HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        )
        login = b64encode(f"{endpoint.user}:{endpoint.password}".encode()).decode()
        self._headers: Final = {"Authorization": f"Basic {login}", "Accept": "application/json"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str, **query: object) -> Any:  # noqa: ANN401 - it is JSON
        given = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", f"{path}?{urlencode(given)}" if given else path)

    def put(self, path: str, body: Mapping[str, object]) -> None:
        self._ask("PUT", path, body)

    def post(self, path: str, body: Mapping[str, object]) -> Any:  # noqa: ANN401 - it is JSON
        return self._ask("POST", path, body)

    def delete(self, path: str, headers: Mapping[str, str] | None = None, **query: object) -> None:
        self._ask("DELETE", f"{path}?{urlencode(query)}" if query else path, headers=headers)

    def pages(self, path: str, **query: object) -> Iterator[tuple[list[dict[str, Any]], int]]:
        """Read a list page by page. Each page comes with the number of entries in the whole list."""
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=PAGE_SIZE, **query)
            if isinstance(answer, list):
                # This list has no pages.
                yield answer, len(answer)
                return
            yield answer["items"], answer["filtered_count"]
            if page >= answer["page_count"]:
                return
            page += 1

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # noqa: ANN401 - it is JSON
        data = None if body is None else json.dumps(body)
        sent = self._headers | ({} if data is None else {"Content-Type": "application/json"}) | dict(headers or {})
        try:
            self._connection.request(method, f"/api/{path}", data, sent)
            response = self._connection.getresponse()
            text = response.read()
        except ConnectionRefusedError as error:
            raise Unreachable(
                f"{self.endpoint.address} refuses connections: is the broker running, with management.enabled and "
                f"this port? Set the address with --api, such as {_FORM}"
            ) from error
        except (OSError, self._no_http) as error:
            raise Unreachable(
                f"{self.endpoint.address} does not answer as the HTTP API of a broker: {error}"
            ) from error
        if response.status >= 400:
            raise self._error(method, path, response.status, text)
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise Unreachable(
                f"{self.endpoint.address} is not the HTTP API of a broker: its answer is not JSON"
            ) from error

    def _error(self, method: str, path: str, status: int, text: bytes) -> FlintError:
        try:
            reason = json.loads(text).get("reason", "")
        except (ValueError, AttributeError):
            reason = ""
        what = f"{method} /api/{path.partition('?')[0]}"
        if status == 401 and reason in ("", "Not_Authorized", "Login failed"):
            return Refused(
                f"wrong user name or password: {self.endpoint.address} refused the login of '{self.endpoint.user}'. "
                "Set the user with --api, FLINTMQ_API or FLINTMQ_URL, and the password with --password-file"
            )
        if status in (401, 403):
            return Refused(f"user '{self.endpoint.user}' may not {what}: {reason}")
        if status == 404:
            # Only some answers name the object; the others say "Not Found".
            return Missing(reason if reason.startswith("no ") else f"{_object_of(path)} does not exist")
        return FlintError(f"{what} failed with status {status}: {reason or 'no reason given'}")


def _context(endpoint: Endpoint) -> "ssl.SSLContext":
    import ssl

    try:
        return ssl.create_default_context(cafile=endpoint.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"cannot use the CA certificates in {endpoint.ca}: {error}") from error
