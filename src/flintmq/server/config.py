"""Settings: what a broker can be told, from a TOML file, over it the environment, over that the command line.

A setting is a field of a section below, and nothing else: its key in the file (`port` in `[listen]`), its variable
(`FLINTMQ_LISTEN_PORT`), its default, its type and its bounds all follow from there.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
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
    ("required") show certificates signed by those in `ca`, and `login_from` is where EXTERNAL finds their names.
    """

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    port: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = 5671
    verify: Literal["none", "optional", "required"] = "none"
    login_from: Literal["common_name", "subject_alternative_name"] = "common_name"


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

    `consumers_per_channel_max` of 0 is no limit.
    """

    frame_max_bytes: Annotated[int, Meta(ge=limits.FRAME_MIN_BYTES, le=_FRAME_CEILING_BYTES)] = limits.FRAME_MAX_BYTES
    channel_max: Annotated[int, Meta(ge=1, le=_SHORT_MAX)] = limits.CHANNEL_MAX
    heartbeat_seconds: Annotated[int, Meta(ge=0, le=_SHORT_MAX)] = limits.HEARTBEAT_SECONDS
    consumers_per_channel_max: Annotated[int, Meta(ge=0)] = 0
    message_max_bytes: Annotated[int, Meta(ge=1, le=_MESSAGE_CEILING_BYTES)] = limits.MESSAGE_MAX_BYTES


@dataclass(frozen=True)
class AlarmSettings:
    """When publishers have to wait. `memory_high_watermark` is a part of the machine's memory up to 1, bytes above."""

    memory_high_watermark: Annotated[float, Meta(gt=0)] = limits.MEMORY_HIGH_WATERMARK
    disk_free_min_bytes: Annotated[int, Meta(ge=0)] = limits.DISK_FREE_MIN_BYTES


@dataclass(frozen=True)
class LogSettings:
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


@dataclass(frozen=True)
class AuthSettings:
    """How clients may log in. `mechanisms` are names of SASL's, in the order they are offered, with spaces between.

    EXTERNAL is offered to clients with a certificate only, ANONYMOUS only where there is an `anonymous_user` that they
    all are.
    """

    mechanisms: _Text = "PLAIN AMQPLAIN EXTERNAL ANONYMOUS SCRAM-SHA-512 SCRAM-SHA-256"
    anonymous_user: str = ""


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
class Settings:
    listen: ListenSettings = ListenSettings()
    tls: TlsSettings = TlsSettings()
    storage: StorageSettings = StorageSettings()
    limits: LimitSettings = LimitSettings()
    alarms: AlarmSettings = AlarmSettings()
    log: LogSettings = LogSettings()
    auth: AuthSettings = AuthSettings()
    default_user: DefaultUserSettings = DefaultUserSettings()
    definitions: DefinitionSettings = DefinitionSettings()
    vhosts: tuple[VHostSettings, ...] = ()
    users: tuple[UserSettings, ...] = ()


# Sections that may be there more than once, such as [[users]]; they stand in the file only.
_LISTS: Final[dict[str, Any]] = {"vhosts": VHostSettings, "users": UserSettings}
_SECTIONS: Final[dict[str, Any]] = {
    name: section for name, section in get_type_hints(Settings).items() if name not in _LISTS
}
# The type of each setting by its key, such as "listen.port".
_TYPES: Final[dict[str, Any]] = {
    f"{name}.{setting}": hint
    for name, section in _SECTIONS.items()
    for setting, hint in get_type_hints(section, include_extras=True).items()
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
    document = _document(file) if file else {}
    lists: dict[str, Any] = {name: _list(file, name, document.pop(name, [])) for name in _LISTS}
    given = {
        **dict(_from_file(file, document)),
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


def _from_file(file: Path | None, document: dict[str, Any]) -> Iterator[tuple[str, _Given]]:
    for name, section in document.items():
        if name not in _SECTIONS:
            raise ConfigurationError(f"{file}: there is no section [{name}]; {_nearest(name, _SECTIONS | _LISTS)}")
        if not isinstance(section, dict):
            raise ConfigurationError(f"{file}: {name} is a section; write [{name}] and its settings below")
        for setting, value in section.items():
            key = f"{name}.{setting}"
            if key not in _TYPES:
                raise ConfigurationError(f"{file}: there is no setting {key}; {_nearest(key, _TYPES)}")
            yield key, _Given(value, f"{file}: {key}", is_text=False)


def _list(file: Path | None, name: str, entries: object) -> tuple[Any, ...]:
    """The sections of one name, each with its settings."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(f"{file}: there may be several {name}; write [[{name}]] and the settings of one below")
    section = _LISTS[name]
    known = {setting.name: setting for setting in fields(section)}
    made: list[Any] = []
    for at, entry in enumerate(entries):
        place = f"{file}: {name}[{at}]"
        for setting in entry:
            if setting not in known:
                raise ConfigurationError(f"{place}: there is no setting {setting}; {_nearest(setting, known)}")
        try:
            made.append(msgspec.convert(entry, section))
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
