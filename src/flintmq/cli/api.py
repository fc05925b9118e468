"""The management API of a broker, as the commands speak to it: JSON by HTTP, one connection, and errors in words."""

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

# A definition of thousands of queues takes the broker some seconds.
_TIMEOUT_SECONDS: Final = 60.0
_PORTS: Final = {"http": 15672, "https": 15671, "amqp": 15672, "amqps": 15671}
_FORM: Final = "http://user:password@host:15672"
# What is asked for at once of a long list.
PAGE_SIZE: Final = 500


class Unreachable(FlintError):
    """Nobody answers, or who answers does not speak HTTP."""


class Refused(FlintError):
    """A wrong password, or a right that the user does not have."""


class Missing(FlintError):
    """There is no such thing."""


@dataclass(frozen=True)
class Endpoint:
    """Where the API is, and who asks."""

    host: str = "127.0.0.1"
    port: int = _PORTS["http"]
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    is_tls: bool = False
    # Who signed the broker's certificate, where that is nobody whom the machine knows.
    ca: Path | None = None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


def endpoint(api: str, amqp: str, password_file: Path | None, ca: Path | None) -> Endpoint:
    """By the API's URL or, without one, the URL for AMQP: the same host and user. Raises ConfigurationError."""
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
        # What could not be read may be a part of the password.
        raise ConfigurationError(f"the URL of the API cannot be read: write it as {_FORM}") from None
    if scheme not in _PORTS or not host:
        raise ConfigurationError(f"the URL of the API has to be like {_FORM}, or https://")
    user, password = parts.username, parts.password
    return Endpoint(
        host,
        port or _PORTS[scheme],
        "guest" if user is None else unquote(user),
        "guest" if password is None else unquote(password),
        scheme in ("https", "amqps"),
    )


def path_of(*names: str) -> str:
    """A path below /api, with each name as one part of it: "/" is %2F."""
    return "/".join(quote(name, safe="") for name in names)


class Api:
    """Use in `with`. All methods raise Unreachable, Refused, Missing, and FlintError for whatever else is refused."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint: Final = endpoint
        # Not before it is asked for something: other commands start faster without it.
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
        """All of a list, some at a time, each time with how many there are altogether."""
        page = 1
        while True:
            answer = self.get(path, page=page, page_size=PAGE_SIZE, **query)
            if isinstance(answer, list):
                # A list that knows no pages.
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
                f"nobody listens at {self.endpoint.address}: is the broker running, with management.enabled and that "
                f"port? Say where with --api, such as {_FORM}"
            ) from error
        except (OSError, self._no_http) as error:
            raise Unreachable(f"{self.endpoint.address} does not answer as a broker's API does: {error}") from error
        if response.status >= 400:
            raise self._error(method, path, response.status, text)
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise Unreachable(f"{self.endpoint.address} answers, but not as a broker's API does") from error

    def _error(self, method: str, path: str, status: int, text: bytes) -> FlintError:
        try:
            reason = json.loads(text).get("reason", "")
        except (ValueError, AttributeError):
            reason = ""
        what = f"{method} /api/{path.partition('?')[0]}"
        if status == 401 and reason in ("", "Not_Authorized", "Login failed"):
            return Refused(
                f"{self.endpoint.address} refused the login of '{self.endpoint.user}': say who you are with --api, "
                "FLINTMQ_API or FLINTMQ_URL, and the password with --password-file"
            )
        if status in (401, 403):
            return Refused(f"'{self.endpoint.user}' may not {what}: {reason}")
        if status == 404:
            return Missing(f"{what}: there is no such thing" + (f" ({reason})" if reason else ""))
        return FlintError(f"{what} was refused with {status}: {reason or 'no reason was given'}")


def _context(endpoint: Endpoint) -> "ssl.SSLContext":
    import ssl

    try:
        return ssl.create_default_context(cafile=endpoint.ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the certificates in {endpoint.ca} cannot be used: {error}") from error
