"""AMQP URLs: ``amqp://user:password@host:port/vhost?heartbeat=seconds&connection_timeout=milliseconds``, and
``amqps://``.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from flintmq.base.limits import HEARTBEAT_SECONDS, SHORTSTR_MAX_BYTES
from flintmq.client.errors import InvalidUrl
from flintmq.client.tls import Tls

_PORT: Final = 5672
_TLS_PORT: Final = 5671
_SHORT_MAX: Final = 65_535
_CONNECT_SECONDS: Final = 10.0
_OPTIONS: Final = ("heartbeat", "connection_timeout")
# Options of amqps only. The names are RabbitMQ's.
_TLS_OPTIONS: Final = ("cacertfile", "certfile", "keyfile", "server_name_indication", "verify")


@dataclass(frozen=True)
class Target:
    """The server to connect to, the login, and the settings of the connection.

    Attributes:
        host: A name or an address.
        port: The TCP port.
        user: The user name.
        password: The user's password.
        virtual_host: The virtual host.
        heartbeat: Seconds between heartbeats; 0 for none.
        connect_seconds: The time limit for connecting and the login.
        tls: TLS settings; None for a connection without TLS.
        token: An OAuth 2 token. If there is one, it is the login, and the user and password are not used.
    """

    host: str = "localhost"
    port: int = _PORT
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    virtual_host: str = "/"
    heartbeat: int = HEARTBEAT_SECONDS
    connect_seconds: float = _CONNECT_SECONDS
    tls: Tls | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """The host and port as one text, for error messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(url: str, token: str | None = None) -> Target:
    """Parse a URL. The defaults are the user guest, the password guest, port 5672 (TLS: 5671) and the virtual host "/".

    Raises InvalidUrl if the URL cannot be understood, or the value of an option is wrong.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError:
        # The error text must not contain the part that cannot be read: it may be a part of the password.
        raise InvalidUrl(
            "AMQP URL: host and port cannot be read: write amqp://user:password@host:5672/vhost, an IPv6 address in "
            "brackets, and '/', '#', '?' and '@' in a user name or password as %2F, %23, %3F and %40"
        ) from None
    if parts.scheme not in ("amqp", "amqps"):
        raise InvalidUrl(
            "AMQP URL: it must begin with amqp://, or amqps:// for TLS, as in amqp://user:password@host:5672/vhost"
        )
    if not host:
        raise InvalidUrl("AMQP URL: the host is missing, as in amqp://user:password@host:5672/vhost")
    if parts.fragment:
        raise InvalidUrl("AMQP URL: write a '#' in a name as %23")
    if port == 0:
        raise InvalidUrl("AMQP URL: port 0 cannot be connected to")
    path = parts.path[1:]
    if "/" in path:
        raise InvalidUrl("AMQP URL: write a '/' in the name of a virtual host as %2F")
    virtual_host = _unquoted(path, "virtual host") or "/"
    if len(virtual_host.encode()) > SHORTSTR_MAX_BYTES:
        raise InvalidUrl(f"AMQP URL: the virtual host is longer than {SHORTSTR_MAX_BYTES} bytes")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    tls = _tls([pair for pair in pairs if pair[0] in _TLS_OPTIONS]) if parts.scheme == "amqps" else None
    options = _options([pair for pair in pairs if tls is None or pair[0] not in _TLS_OPTIONS])
    milliseconds = options.get("connection_timeout")
    if milliseconds == 0:
        raise InvalidUrl("AMQP URL: connection_timeout must be 1 millisecond or more")
    return Target(
        host,
        port or (_TLS_PORT if tls else _PORT),
        "guest" if parts.username is None else _unquoted(parts.username, "user"),
        "guest" if parts.password is None else _unquoted(parts.password, "password"),
        virtual_host,
        options.get("heartbeat", HEARTBEAT_SECONDS),
        _CONNECT_SECONDS if milliseconds is None else milliseconds / 1000,
        tls,
        token,
    )


def _tls(pairs: list[tuple[str, str]]) -> Tls:
    options = dict(pairs)
    verify = options.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise InvalidUrl(f"AMQP URL: verify must be verify_peer or verify_none, not '{verify}'")
    if "keyfile" in options and "certfile" not in options:
        raise InvalidUrl("AMQP URL: keyfile needs a certfile")
    return Tls(
        options.get("cacertfile", ""),
        options.get("certfile", ""),
        options.get("keyfile", ""),
        options.get("server_name_indication", ""),
        verify == "verify_peer",
    )


def _options(pairs: list[tuple[str, str]]) -> dict[str, int]:
    options: dict[str, int] = {}
    for name, value in pairs:
        if name not in _OPTIONS:
            raise InvalidUrl(f"AMQP URL: unknown option '{name}'; known are {' and '.join(_OPTIONS)}")
        if not (value.isascii() and value.isdecimal()):
            raise InvalidUrl(f"AMQP URL: {name} must be a whole number, not '{value}'")
        options[name] = int(value)
    if options.get("heartbeat", 0) > _SHORT_MAX:
        raise InvalidUrl(f"AMQP URL: heartbeat must be {_SHORT_MAX} seconds or less")
    return options


def _unquoted(text: str, what: str) -> str:
    try:
        name = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidUrl(f"AMQP URL: the {what} is not UTF-8 after percent-decoding") from None
    # SASL PLAIN separates user and password by a zero character (RFC 4616).
    if "\0" in name:
        raise InvalidUrl(f"AMQP URL: the {what} contains a zero character")
    return name
