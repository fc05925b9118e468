"""Settings of a broker: from a TOML file, the environment and the command line; later ones have precedence.

Each setting is a field of a section below. Its key in the file (`port` in `[listen]`), its variable
(`FLINTMQ_LISTEN_PORT`), its default, its type and its bounds all follow from the field.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import Meta

from flintmq.base import limits
from flintmq.base.addresses import networks
from flintmq.base.errors import ConfigurationError
from flintmq.server.cluster_checks import check_cluster

PREFIX: Final = "FLINTMQ_"
FILE_VARIABLE: Final = "FLINTMQ_CONFIG"
# Variables with the prefix that are no settings: those of clients, the build and the tests, and those that Kubernetes
# gives to every pod if a service is called "flintmq".
_NO_SETTINGS: Final = (
    FILE_VARIABLE,
    "FLINTMQ_URL",
    "FLINTMQ_API",
    "FLINTMQ_PASSWORD_FILE",
    "FLINTMQ_BUILD",
    "FLINTMQ_EXPECT",
    "FLINTMQ_SERVICE_",
    "FLINTMQ_PORT",
)

# A frame is held in memory until it is complete, so larger frames would only let a peer use more memory.
_FRAME_CEILING_BYTES: Final = 16 * 1024 * 1024
# RabbitMQ's maximum. A body is one piece of memory.
_MESSAGE_CEILING_BYTES: Final = 512 * 1024 * 1024
# Ports, channel numbers and heartbeat intervals are 16 bits wide.
_SHORT_MAX: Final = 65_535

_Text = Annotated[str, Meta(min_length=1)]


@dataclass(frozen=True)
class ListenSettings:
    """The address on which AMQP clients connect. Port 0 means any free port."""

    host: _Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 5672


@dataclass(frozen=True)
class TlsSettings:
    """A `certificate` turns on TLS: on `port`, and on the plain AMQP port for clients that begin with TLS.

    Files are PEM. `certificate` may be a chain and may contain the `key`. `verify` says whether clients present a
    certificate signed by an authority in `ca`: they may if it is "optional", and must if it is "required". If it is
    "required", a client on another machine cannot log in without TLS on any port, even with `auth.allow_clear_text`.
    EXTERNAL takes the user name from the part of the client's certificate that `login_from` says: the common name, or
    the subject alternative name of the type `login_san_type` at the index `login_san_index` (from 0). Files that
    change are loaded again, also on SIGHUP.
    """

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 5671
    verify: Literal["none", "optional", "required"] = "none"
    login_from: Literal["common_name", "subject_alternative_name"] = "common_name"
    login_san_type: Literal["dns", "uri", "email", "ip"] = "dns"
    login_san_index: Annotated[int, Meta(ge=0, le=99)] = 0
    minimum_version: Literal["1.2", "1.3"] = "1.2"


@dataclass(frozen=True)
class ManagementSettings:
    """The HTTP API and the web interface; `enabled = false` turns them off. Port 0 means any free port.

    With a certificate in `[tls]`, they are also served on `tls_port`. The body of a request may have at most
    `body_max_bytes`. With `open_metrics`, `/metrics` needs no login: every client that reaches the port can read the
    names of all queues. `proxies` lists addresses or networks (10.0.0.0/24), separated by spaces, of reverse proxies
    on other machines: the limit of connections for one address does not apply to them, because many users share
    each. The limit for one user applies everywhere.
    """

    enabled: bool = True
    host: _Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 15672
    tls_port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 15671
    body_max_bytes: Annotated[int, Meta(ge=1, le=_MESSAGE_CEILING_BYTES)] = limits.HTTP_BODY_MAX_BYTES
    open_metrics: bool = False
    proxies: str = ""

    def __post_init__(self) -> None:
        try:
            networks(self.proxies.split())
        except ValueError as error:
            raise ConfigurationError(
                f"management.proxies: {error}; write addresses or networks, with spaces between"
            ) from error


@dataclass(frozen=True)
class StorageSettings:
    """Where and how messages are stored. `segment_bytes` is the size of one file of the journal or of a stream.

    `queue_memory` is the memory for packed messages of deep queues; beyond it, they go to the disk. Up to 1 it is a
    fraction of the machine's memory, above 1 it is bytes.
    """

    directory: Path = Path("flintmq-data")
    segment_bytes: Annotated[int, Meta(ge=limits.SEGMENT_MIN_BYTES, le=limits.SEGMENT_MAX_BYTES)] = limits.SEGMENT_BYTES
    queue_memory: Annotated[float, Meta(ge=0)] = limits.QUEUE_MEMORY


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster that this node belongs to; without a `name` it is alone. `node` is unique in the cluster. Other nodes
    connect to `host` and `port`, and know them as `address` (host:port), by default these two. Nothing is confirmed as
    long as fewer than `min_in_sync` nodes hold it.

    All nodes have the same `secret`, of at least 16 characters, and prove to each other that they know it. Without it,
    `host` and `address` must be loopback addresses. The secret does not encrypt anything: if others can read or change
    what the network carries between the nodes, use TLS.

    With a `certificate`, connections between nodes use TLS 1.3. It needs a `ca`: each node presents its certificate,
    and accepts those that an authority in `ca` has signed, for servers and for clients. Names in them are not compared
    with addresses. Files are PEM; `certificate` may be a chain and may contain the `key`. Files that change are loaded
    again. All nodes of a cluster use TLS, or none.

    `etcd` are the URLs of etcd, with spaces between. `etcd_user` and `etcd_password` are for its authentication. For
    https:// URLs, `etcd_ca` has the authorities that signed etcd's certificates, if the machine does not trust them,
    and `etcd_certificate` with `etcd_key` is the certificate of this client, if etcd asks for one.
    """

    name: str = ""
    node: str = ""
    host: _Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 5670
    address: str = ""
    min_in_sync: Annotated[int, Meta(ge=1, le=7)] = 2
    secret: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    etcd: str = "http://127.0.0.1:2379"
    etcd_user: str = ""
    etcd_password: str = field(default="", repr=False)
    etcd_ca: Path | None = None
    etcd_certificate: Path | None = None
    etcd_key: Path | None = None

    def __post_init__(self) -> None:
        if self.name:
            check_cluster(self)


@dataclass(frozen=True)
class ServerSettings:
    """How the broker uses the machine. With `io_workers`, so many processes accept AMQP clients, read and write their
    sockets and do their TLS, and the broker's own process has more time for messages: "auto" means one less than the
    number of processors. 0 means that the broker's process does everything.
    """

    io_workers: Annotated[int, Meta(ge=0, le=limits.IO_WORKERS_MAX)] | Literal["auto"] = 0


@dataclass(frozen=True)
class LimitSettings:
    """Limits of one connection. `heartbeat_seconds` is the interval that the server proposes; 0 proposes no heartbeats.

    A client that reads nothing for `send_timeout_seconds` although data waits for it is disconnected; 0 means never.
    0 as `consumers_per_channel_max` means no limit. Publishers that outrun the consumers of a queue are slowed to their
    speed while the queue has more than `backlog_messages` ready messages; 0 means never.
    """

    frame_max_bytes: Annotated[int, Meta(ge=limits.FRAME_MIN_BYTES, le=_FRAME_CEILING_BYTES)] = limits.FRAME_MAX_BYTES
    channel_max: Annotated[int, Meta(ge=1, le=_SHORT_MAX)] = limits.CHANNEL_MAX
    heartbeat_seconds: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = limits.HEARTBEAT_SECONDS
    send_timeout_seconds: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = limits.SEND_TIMEOUT_SECONDS
    consumers_per_channel_max: Annotated[int, Meta(ge=0)] = 0
    message_max_bytes: Annotated[int, Meta(ge=1, le=_MESSAGE_CEILING_BYTES)] = limits.MESSAGE_MAX_BYTES
    backlog_messages: Annotated[int, Meta(ge=0)] = limits.CREDIT_BACKLOG_MESSAGES


@dataclass(frozen=True)
class AlarmSettings:
    """Alarms, during which publishers are blocked: more memory than `memory_high_watermark`, or less free disk.

    `memory_high_watermark` up to 1 is a fraction of the machine's memory, above 1 it is bytes.
    """

    memory_high_watermark: Annotated[float, Meta(gt=0)] = limits.MEMORY_HIGH_WATERMARK
    disk_free_min_bytes: Annotated[int, Meta(ge=0)] = limits.DISK_FREE_MIN_BYTES


@dataclass(frozen=True)
class LogSettings:
    """The log on standard error, as text or JSON. Administrative actions are also appended to the `audit_file`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    audit_file: Path | None = None


@dataclass(frozen=True)
class TracingSettings:
    """OpenTelemetry spans of messages, sent to `endpoint` by OTLP over HTTP. Without an endpoint there are no spans.

    `ratio` is the share of messages without a trace that begin one, from 0 (none) to 1 (all). Needs the extra `otel`.
    """

    endpoint: str = ""
    ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    service: _Text = "flintmq"


@dataclass(frozen=True)
class AuthSettings:
    """How clients log in. `mechanisms` are the SASL mechanisms, separated by spaces, in the order of the offer.

    EXTERNAL is offered only to clients with a certificate. Anonymous clients are the `anonymous_user`. If that is
    empty, ANONYMOUS is offered only to clients on this machine; they are guest if that user's password is guest.
    OAUTHBEARER is offered only if tokens are accepted (`[oauth]`). Mechanisms that send a secret in clear text are
    offered only over TLS and to clients on this machine; with `allow_clear_text` they are offered to all clients.
    """

    mechanisms: _Text = "PLAIN AMQPLAIN EXTERNAL ANONYMOUS SCRAM-SHA-512 SCRAM-SHA-256 OAUTHBEARER"
    anonymous_user: str = ""
    allow_clear_text: bool = False


@dataclass(frozen=True)
class OAuthSettings:
    """Logins by token (JWT). They are accepted if `issuer` or `jwks` is set.

    `jwks` is a file or an https:// URL with the keys of the issuer. Without it, `issuer` must be an https:// URL, which
    says where the keys are (OpenID Connect Discovery). The audience of a token must be the `resource_server_id`, unless
    `verify_aud` is false, and its issuer must be `issuer`, if that is set. Only scopes that begin with `scope_prefix`
    are used; by default, that is the `resource_server_id` and a dot. `scope_aliases` translates other scopes into
    these, and `additional_scopes` names further claims that contain scopes. The user name is in the first of the
    `username_claims` that the token has, otherwise in sub or client_id. `jwks_ca` is the authority for the
    certificates of these URLs, if the machine does not trust theirs. Lists in one text are separated by spaces.
    """

    jwks: str = ""
    jwks_ca: Path | None = None
    resource_server_id: str = ""
    issuer: str = ""
    verify_aud: bool = True
    scope_prefix: str | None = None
    scope_aliases: dict[str, str] = field(default_factory=dict)
    additional_scopes: str = ""
    username_claims: str = ""
    algorithms: _Text = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"

    @property
    def takes_tokens(self) -> bool:
        """Whether logins by token are accepted."""
        return self.jwks != "" or self.issuer != ""


@dataclass(frozen=True)
class DefaultUserSettings:
    """The user that the broker creates in a new data directory."""

    name: _Text = "guest"
    password: _Text = field(default="guest", repr=False)


@dataclass(frozen=True)
class DefinitionSettings:
    """`load` is a definitions file, in the format that RabbitMQ exports; it is imported at every start."""

    load: Path | None = None


@dataclass(frozen=True)
class VHostSettings:
    """A virtual host to create or update at every start."""

    name: _Text
    dialect: Literal["rabbitmq", "strict"] = "rabbitmq"
    default_queue_type: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class UserSettings:
    """A user to create or update at every start, with full permissions in the virtual hosts of `vhosts`."""

    name: _Text
    password: _Text = field(repr=False)
    tags: tuple[str, ...] = ()
    vhosts: tuple[str, ...] = ("/",)


@dataclass(frozen=True)
class CertificateSettings:
    """Another certificate, for clients that ask for one of its `names` (SNI), such as "*.example.org"."""

    certificate: Path
    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    key: Path | None = None


@dataclass(frozen=True)
class Settings:
    listen: ListenSettings = ListenSettings()
    tls: TlsSettings = TlsSettings()
    management: ManagementSettings = ManagementSettings()
    storage: StorageSettings = StorageSettings()
    server: ServerSettings = ServerSettings()
    cluster: ClusterSettings = ClusterSettings()
    limits: LimitSettings = LimitSettings()
    alarms: AlarmSettings = AlarmSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    auth: AuthSettings = AuthSettings()
    oauth: OAuthSettings = field(default_factory=OAuthSettings)
    default_user: DefaultUserSettings = DefaultUserSettings()
    definitions: DefinitionSettings = DefinitionSettings()
    vhosts: tuple[VHostSettings, ...] = ()
    users: tuple[UserSettings, ...] = ()
    certificates: tuple[CertificateSettings, ...] = ()


# Sections that may be repeated, such as [[users]]. They are possible only in the file.
_LISTS: Final[dict[str, Any]] = {
    "vhosts": VHostSettings,
    "users": UserSettings,
    "certificates": CertificateSettings,
}
_SECTIONS: Final[dict[str, Any]] = {
    name: section for name, section in get_type_hints(Settings).items() if name not in _LISTS
}
# The type of each setting by its key, such as "listen.port".
_TYPES: Final[dict[str, Any]] = {
    f"{name}.{setting}": hint
    for name, section in _SECTIONS.items()
    for setting, hint in get_type_hints(section, include_extras=True).items()
}
# The settings that a running broker applies when it reads them again; all others need a restart.
RELOADED: Final = ({key for key in _TYPES if key.startswith(("alarms.", "limits.", "log.", "tls."))} - {"tls.port"}) | {
    "definitions.load",
    *_LISTS,
}
_VARIABLES: Final = {PREFIX + key.replace(".", "_").upper(): key for key in _TYPES}


@dataclass(frozen=True)
class _Given:
    """A given value, and the name of its source for error messages. Text is converted to the type of the setting."""

    value: object
    place: str
    is_text: bool


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]) -> Settings:
    """Return the settings from all three sources. `flags` has keys such as "listen.port".

    Raises ConfigurationError if the file cannot be read, or a key or value is wrong.
    """
    return _settings(_document(file) if file else {}, str(file), environment, flags)


def variables_in(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that are settings of a broker."""
    return [name for name in environment if name in _VARIABLES]


def from_document(document: Mapping[str, Any]) -> Settings:
    """Return the settings of a dictionary with the contents of a file. Raises ConfigurationError if one is wrong."""
    return _settings(dict(document), "settings", {}, {})


def _settings(
    document: dict[str, Any], source: str, environment: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    lists: dict[str, Any] = {name: _list(source, name, document.pop(name, [])) for name in _LISTS}
    given = {
        **dict(_from_file(source, document)),
        **dict(_from_environment(environment)),
        **{key: _Given(value, f"{key}, as given on the command line", is_text=True) for key, value in flags.items()},
    }
    sections: dict[str, Any] = {
        name: section(
            **{
                setting.name: _convert(key, given[key])
                for setting in fields(section)
                if (key := f"{name}.{setting.name}") in given
            }
        )
        for name, section in _SECTIONS.items()
    }
    return Settings(**sections, **lists)


def sections() -> Mapping[str, Any]:
    """Return the types of all sections by name; those that may be repeated come last."""
    return _SECTIONS | _LISTS


def variable(key: str) -> str:
    """Return the environment variable of a setting; empty if it is possible only in the file."""
    return PREFIX + key.replace(".", "_").upper() if key in _TYPES else ""


def is_reloaded(key: str) -> bool:
    """Return whether a running broker applies this setting when it reads its settings again."""
    return key in RELOADED or key.partition(".")[0] in RELOADED


def changes(before: Settings, after: Settings) -> dict[str, str]:
    """Return the differences by key: both values, or nothing for settings that may contain passwords."""
    found = {}
    for name in _SECTIONS:
        old, new = getattr(before, name), getattr(after, name)
        for setting in fields(old):
            values = getattr(old, setting.name), getattr(new, setting.name)
            if values[0] != values[1]:
                found[f"{name}.{setting.name}"] = " -> ".join(map(str, values)) if setting.repr else ""
    return found | {name: "" for name in _LISTS if getattr(before, name) != getattr(after, name)}


def take_up(before: Settings, after: Settings, keys: AbstractSet[str]) -> Settings:
    """Return the settings `before`, with the values of `after` for these keys."""
    sections: dict[str, Any] = {
        name: replace(
            getattr(before, name),
            **{
                setting.name: getattr(getattr(after, name), setting.name)
                for setting in fields(section)
                if f"{name}.{setting.name}" in keys
            },
        )
        for name, section in _SECTIONS.items()
    }
    return Settings(**sections, **{name: getattr(after if name in keys else before, name) for name in _LISTS})


def _document(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the settings in {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{file} is not valid TOML: not UTF-8 (at line {line})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from error


def _from_file(source: str, document: dict[str, Any]) -> Iterator[tuple[str, _Given]]:
    for name, section in document.items():
        if name not in _SECTIONS:
            raise ConfigurationError(f"{source}: there is no section [{name}]; {_nearest(name, _SECTIONS | _LISTS)}")
        if not isinstance(section, Mapping):
            raise ConfigurationError(f"{source}: {name} is a section; write [{name}] and its settings below")
        for setting, value in section.items():
            key = f"{name}.{setting}"
            if key not in _TYPES:
                raise ConfigurationError(f"{source}: there is no setting {key}; {_nearest(key, _TYPES)}")
            yield key, _Given(value, f"{source}: {key}", is_text=False)


def _list(source: str, name: str, entries: object) -> tuple[Any, ...]:
    """Return the sections of a name that may be repeated. Raises ConfigurationError if one is wrong."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(
            f"{source}: there may be several {name}; write [[{name}]] and the settings of one below"
        )
    section = _LISTS[name]
    known = {setting.name: setting for setting in fields(section)}
    made: list[Any] = []
    for at, entry in enumerate(entries):
        place = f"{source}: {name}[{at}]"
        for setting in entry:
            if setting not in known:
                raise ConfigurationError(f"{place}: there is no setting {setting}; {_nearest(setting, known)}")
        try:
            made.append(msgspec.convert(entry, section, dec_hook=_path))
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{place}: {_lowered(error)}") from error
    return tuple(made)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, _Given]]:
    for variable, value in environment.items():
        if key := _VARIABLES.get(variable):
            yield key, _Given(value, f"{variable} in the environment", is_text=True)
        elif variable.startswith(PREFIX) and not variable.startswith(_NO_SETTINGS):
            raise ConfigurationError(f"the variable {variable} is no setting; {_nearest(variable, _VARIABLES)}")


def _nearest(word: str, known: Mapping[str, object]) -> str:
    matches = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {matches[0]}?" if matches else f"there are {', '.join(known)}"


def _convert(key: str, given: _Given) -> object:
    try:
        return msgspec.convert(given.value, _TYPES[key], strict=not given.is_text, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{given.place}: {_lowered(error)}") from error


def _lowered(error: Exception) -> str:
    message = str(error)
    return f"{message[:1].lower()}{message[1:]}"


def _path(wanted: type, value: object) -> object:
    if wanted is not Path:
        raise NotImplementedError(wanted)
    if not isinstance(value, str) or not value:
        raise TypeError("Expected a path")
    return Path(value)
