"""AMQP URLs: amqp://user:password@host:port/vhost?heartbeat=seconds&connection_timeout=milliseconds, and amqps://."""

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
# Of amqps only; the names are RabbitMQ's.
_TLS_OPTIONS: Final = ("cacertfile", "certfile", "keyfile", "server_name_indication", "verify")


@dataclass(frozen=True)
class Target:
    """Whom to connect to, as whom, and on which terms. `heartbeat` is in seconds, 0 for none."""

    host: str = "localhost"
    port: int = _PORT
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    virtual_host: str = "/"
    heartbeat: int = HEARTBEAT_SECONDS
    connect_seconds: float = _CONNECT_SECONDS
    # None for a connection in the clear.
    tls: Tls | None = None
    # Whoever has one logs in by it, and not as the user.
    token: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """host:port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(url: str, token: str | None = None) -> Target:
    """What a URL says; what it leaves out is guest:guest, port 5672, virtual host "/". Raises InvalidUrl."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError:
        # What could not be read may be a part of the password.
        raise InvalidUrl(
            "AMQP URL: host and port cannot be read from it: they are as in amqp://user:password@host:5672/vhost, an "
            "IPv6 address stands in brackets, and of user and password '/', '#', '?' and '@' are written %2F, %23, %3F "
            "and %40"
        ) from None
    if parts.scheme not in ("amqp", "amqps"):
        raise InvalidUrl(
            "AMQP URL: it has to begin with amqp://, or amqps:// for TLS, as in amqp://user:password@host:5672/vhost"
        )
    if not host:
        raise InvalidUrl("AMQP URL: the host is missing, as in amqp://user:password@host:5672/vhost")
    if parts.fragment:
        raise InvalidUrl("AMQP URL: a '#' within a name is written %23")
    if port == 0:
        raise InvalidUrl("AMQP URL: port 0 cannot be connected to")
    path = parts.path[1:]
    if "/" in path:
        raise InvalidUrl("AMQP URL: a '/' within the name of a virtual host is written %2F")
    virtual_host = _unquoted(path, "virtual host") or "/"
    if len(virtual_host.encode()) > SHORTSTR_MAX_BYTES:
        raise InvalidUrl(f"AMQP URL: the virtual host is longer than {SHORTSTR_MAX_BYTES} bytes")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    tls = _tls([pair for pair in pairs if pair[0] in _TLS_OPTIONS]) if parts.scheme == "amqps" else None
    options = _options([pair for pair in pairs if tls is None or pair[0] not in _TLS_OPTIONS])
    milliseconds = options.get("connection_timeout")
    if milliseconds == 0:
        raise InvalidUrl("AMQP URL: connection_timeout has to be 1 millisecond at least")
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
        raise InvalidUrl(f"AMQP URL: verify has to be verify_peer or verify_none, not '{verify}'")
    if "keyfile" in options and "certfile" not in options:
        raise InvalidUrl("AMQP URL: keyfile goes with a certfile")
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
            raise InvalidUrl(f"AMQP URL: {name} has to be a whole number, not '{value}'")
        options[name] = int(value)
    if options.get("heartbeat", 0) > _SHORT_MAX:
        raise InvalidUrl(f"AMQP URL: heartbeat may be {_SHORT_MAX} seconds at most")
    return options


def _unquoted(text: str, what: str) -> str:
    try:
        name = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidUrl(f"AMQP URL: the {what} is not UTF-8 once its percent signs are decoded") from None
    # The login separates user and password by it (RFC 4616).
    if "\0" in name:
        raise InvalidUrl(f"AMQP URL: the {what} has a zero character in it")
    return name
