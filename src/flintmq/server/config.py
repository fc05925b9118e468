"""Settings: what a broker can be told, from a TOML file, over it the environment, over that the command line.

A setting is a field of a section below, and nothing else: its key in the file (`port` in `[listen]`), its variable
(`FLINTMQ_LISTEN_PORT`), its default, its type and its bounds all follow from there.
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
from flintmq.base.errors import ConfigurationError

PREFIX: Final = "FLINTMQ_"
FILE_VARIABLE: Final = "FLINTMQ_CONFIG"
# Variables a broker may inherit without being meant: the clients', the build's, the tests', and those that Kubernetes
# gives every pod when a service is called "flintmq".
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

# A whole frame is held before it is looked at, so larger ones would only let a peer hold more of us.
_FRAME_CEILING_BYTES: Final = 16 * 1024 * 1024
# RabbitMQ's ceiling: a body is one piece of memory.
_MESSAGE_CEILING_BYTES: Final = 512 * 1024 * 1024
# Ports, channel numbers and heartbeat intervals are 16 bits wide.
_SHORT_MAX: Final = 65_535

_Text = Annotated[str, Meta(min_length=1)]


@dataclass(frozen=True)
class ListenSettings:
    """Where clients connect. Port 0 takes a free one."""

    host: _Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 5672


@dataclass(frozen=True)
class TlsSettings:
    """TLS, where there is a `certificate`: on `port`, and on the ordinary one for clients that begin with it there.

    Files are PEM; `certificate` may be a chain, and hold the `key`. With `verify`, clients may ("optional") or have to
    ("required") show certificates signed by those in `ca`. If they have to, no client on another machine can log in
    without TLS, on any port, whatever `auth.allow_clear_text` says. `login_from` is where EXTERNAL finds their names:
    in the subject, or among its alternatives the one of `login_san_type` and the place `login_san_index` among those,
    from 0. Files that change are loaded again; so they are on SIGHUP.
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
    """The HTTP API and the web pages, unless `enabled` is false. Port 0 takes a free one.

    Where there is a certificate, they are on `tls_port`, too. A request's body has `body_max_bytes` at most. With
    `open_metrics`, Prometheus needs no login, and whoever reaches the port may read the names of all queues.
    """

    enabled: bool = True
    host: _Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 15672
    tls_port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 15671
    body_max_bytes: Annotated[int, Meta(ge=1, le=_MESSAGE_CEILING_BYTES)] = limits.HTTP_BODY_MAX_BYTES
    open_metrics: bool = False


@dataclass(frozen=True)
class StorageSettings:
    """`segment_bytes` is how large the files of journal and streams become before the next ones are begun.

    `queue_memory` is what packed messages of deep queues may take before they go to the disk: a part of the machine's
    memory up to 1, bytes above.
    """

    directory: Path = Path("flintmq-data")
    segment_bytes: Annotated[int, Meta(ge=limits.SEGMENT_MIN_BYTES, le=limits.SEGMENT_MAX_BYTES)] = limits.SEGMENT_BYTES
    queue_memory: Annotated[float, Meta(ge=0)] = limits.QUEUE_MEMORY


@dataclass(frozen=True)
class LimitSettings:
    """What one connection may take. `heartbeat_seconds` is what the server proposes; 0 proposes none.

    A client for which data waits, and that reads none of it for `send_timeout_seconds`, is disconnected; 0 is never.
    `consumers_per_channel_max` of 0 is no limit.
    """

    frame_max_bytes: Annotated[int, Meta(ge=limits.FRAME_MIN_BYTES, le=_FRAME_CEILING_BYTES)] = limits.FRAME_MAX_BYTES
    channel_max: Annotated[int, Meta(ge=1, le=_SHORT_MAX)] = limits.CHANNEL_MAX
    heartbeat_seconds: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = limits.HEARTBEAT_SECONDS
    send_timeout_seconds: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = limits.SEND_TIMEOUT_SECONDS
    consumers_per_channel_max: Annotated[int, Meta(ge=0)] = 0
    message_max_bytes: Annotated[int, Meta(ge=1, le=_MESSAGE_CEILING_BYTES)] = limits.MESSAGE_MAX_BYTES


@dataclass(frozen=True)
class AlarmSettings:
    """When publishers have to wait. `memory_high_watermark` is a part of the machine's memory up to 1, bytes above."""

    memory_high_watermark: Annotated[float, Meta(gt=0)] = limits.MEMORY_HIGH_WATERMARK
    disk_free_min_bytes: Annotated[int, Meta(ge=0)] = limits.DISK_FREE_MIN_BYTES


@dataclass(frozen=True)
class LogSettings:
    """Lines on the standard error stream, for people or as JSON."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    # Administrative acts are appended to it, besides being logged.
    audit_file: Path | None = None


@dataclass(frozen=True)
class TracingSettings:
    """Spans of OpenTelemetry for messages, sent to an `endpoint` that takes OTLP over HTTP; without one there are none.

    Of messages that come without a trace, so many as `ratio` says begin one, from none (0) to all (1). Needs the extra
    `otel`.
    """

    endpoint: str = ""
    ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    service: _Text = "flintmq"


@dataclass(frozen=True)
class AuthSettings:
    """How clients may log in. `mechanisms` are names of SASL's, in the order they are offered, with spaces between.

    EXTERNAL is offered to clients with a certificate only. Anonymous clients are the `anonymous_user`; where that is
    empty, ANONYMOUS is offered to clients on this machine only, who are guest if that user's password is guest.
    OAUTHBEARER is offered where tokens count (`[oauth]`). Those that show a secret are offered to clients with TLS, and
    to those on this machine: with `allow_clear_text` to all.
    """

    mechanisms: _Text = "PLAIN AMQPLAIN EXTERNAL ANONYMOUS SCRAM-SHA-512 SCRAM-SHA-256 OAUTHBEARER"
    anonymous_user: str = ""
    allow_clear_text: bool = False


@dataclass(frozen=True)
class OAuthSettings:
    """Tokens (JWT) that count, where there is an `issuer` or a `jwks`: a file or https:// URL with the keys of whoever
    issues them. Without it, the issuer is an https:// URL, and says where they are (OpenID Connect Discovery).

    Tokens have to be meant for the `resource_server_id` (unless `verify_aud` is false), and to be from the `issuer`
    where one is named. Scopes count that begin with `scope_prefix`, the resource server's id and a dot unless given;
    `scope_aliases` says in such scopes what others mean, and `additional_scopes` names claims that have more of them.
    Whose a token is stands in the first of `username_claims` that it has, or else in sub or client_id. `jwks_ca` is who
    signed the certificates at these URLs, if nobody that the machine knows. Where there are several, spaces part them.
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
        """Whether there is somebody whose tokens count."""
        return self.jwks != "" or self.issuer != ""


@dataclass(frozen=True)
class DefaultUserSettings:
    """The user made when the data directory is new."""

    name: _Text = "guest"
    password: _Text = field(default="guest", repr=False)


@dataclass(frozen=True)
class DefinitionSettings:
    """`load` is a file of definitions, as RabbitMQ exports them, that is imported at every start."""

    load: Path | None = None


@dataclass(frozen=True)
class VHostSettings:
    """A [[vhosts]] that is made, or changed, at every start."""

    name: _Text
    dialect: Literal["rabbitmq", "strict"] = "rabbitmq"
    default_queue_type: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class UserSettings:
    """A [[users]] that is made, or changed, at every start; `vhosts` are those where it may do everything."""

    name: _Text
    password: _Text = field(repr=False)
    tags: tuple[str, ...] = ()
    vhosts: tuple[str, ...] = ("/",)


@dataclass(frozen=True)
class CertificateSettings:
    """A [[certificates]] that clients see who ask for one of its `names` (SNI), such as "*.example.org"."""

    certificate: Path
    names: Annotated[tuple[str, ...], Meta(min_length=1)]
    key: Path | None = None


@dataclass(frozen=True)
class Settings:
    listen: ListenSettings = ListenSettings()
    tls: TlsSettings = TlsSettings()
    management: ManagementSettings = ManagementSettings()
    storage: StorageSettings = StorageSettings()
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


# Sections that may be there more than once, such as [[users]]; they stand in the file only.
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
# What a broker that runs takes up when it reads its settings again; for all else it has to be started again.
RELOADED: Final = ({key for key in _TYPES if key.startswith(("alarms.", "limits.", "log.", "tls."))} - {"tls.port"}) | {
    "definitions.load",
    *_LISTS,
}
_VARIABLES: Final = {PREFIX + key.replace(".", "_").upper(): key for key in _TYPES}


@dataclass(frozen=True)
class _Given:
    """A value somebody gave, and how to name the place to them. Text is read as the type that is wanted."""

    value: object
    place: str
    is_text: bool


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]) -> Settings:
    """Settings from all three sources. `flags` has keys such as "listen.port".

    Raises ConfigurationError for a file that cannot be read, and for a key or a value that is not right.
    """
    return _settings(_document(file) if file else {}, str(file), environment, flags)


def variables_in(environment: Mapping[str, str]) -> list[str]:
    """Those that are settings of a broker."""
    return [name for name in environment if name in _VARIABLES]


def from_document(document: Mapping[str, Any]) -> Settings:
    """Settings from what a file would say, as a dictionary. Raises ConfigurationError."""
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
    """The types of all sections by their names, those that there may be several of at the end."""
    return _SECTIONS | _LISTS


def variable(key: str) -> str:
    """How the environment says it; empty for what stands in the file only."""
    return PREFIX + key.replace(".", "_").upper() if key in _TYPES else ""


def is_reloaded(key: str) -> bool:
    """Whether a broker that runs takes it up when it reads its settings again."""
    return key in RELOADED or key.partition(".")[0] in RELOADED


def changes(before: Settings, after: Settings) -> dict[str, str]:
    """What is different, by key: the two values, or nothing where there may be passwords among them."""
    found = {}
    for name in _SECTIONS:
        old, new = getattr(before, name), getattr(after, name)
        for setting in fields(old):
            values = getattr(old, setting.name), getattr(new, setting.name)
            if values[0] != values[1]:
                found[f"{name}.{setting.name}"] = " -> ".join(map(str, values)) if setting.repr else ""
    return found | {name: "" for name in _LISTS if getattr(before, name) != getattr(after, name)}


def take_up(before: Settings, after: Settings, keys: AbstractSet[str]) -> Settings:
    """The settings of before, but for these keys."""
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
    """The sections of one name, each with its settings."""
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
