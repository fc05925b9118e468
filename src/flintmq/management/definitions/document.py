"""The format of a definitions file as RabbitMQ exports it, with FlintMQ's additions, as types.

Unknown keys are ignored; a value of a wrong type is an error that names its entry.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from flintmq.base.errors import ConfigurationError
from flintmq.base.json_values import from_json, is_nested_deeper, typed_table
from flintmq.base.limits import TABLE_DEPTH_MAX
from flintmq.broker.message import Table

# RabbitMQ's exports write an empty object as an empty list.
_Fields = dict[str, Any] | list[Any]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a section. `label` names the entry in errors."""

    @property
    def label(self) -> str:
        return str(getattr(self, "name", ""))


class VHostMetadata(msgspec.Struct, frozen=True, kw_only=True):
    description: str = ""
    tags: str | list[str] = []
    default_queue_type: str = ""


class VHostEntry(Entry, frozen=True, kw_only=True):
    """A virtual host. `dialect` is FlintMQ's own. Older exports have the fields of `metadata` at the top."""

    name: str
    description: str | None = None
    tags: str | list[str] | None = None
    default_queue_type: str | None = None
    metadata: VHostMetadata = VHostMetadata()
    dialect: str | None = None


class UserEntry(Entry, frozen=True, kw_only=True):
    """A user, with a password hash or a plain-text password."""

    name: str
    password_hash: str | None = None
    password: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] = []
    limits: _Fields = {}


class PermissionEntry(Entry, frozen=True, kw_only=True):
    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @property
    def label(self) -> str:
        return f"{self.user} in {self.vhost}"


class TopicPermissionEntry(Entry, frozen=True, kw_only=True):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @property
    def label(self) -> str:
        return f"{self.user} at {self.exchange} in {self.vhost}"


class PolicyEntry(Entry, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    name: str
    vhost: str
    pattern: str
    definition: _Fields
    apply_to: str = "all"
    priority: int = 0


class ParameterEntry(Entry, frozen=True, kw_only=True):
    name: str
    vhost: str
    component: str
    value: Any


class GlobalParameterEntry(Entry, frozen=True, kw_only=True):
    name: str
    value: Any


class VHostLimitEntry(Entry, frozen=True, kw_only=True):
    vhost: str
    value: _Fields

    @property
    def label(self) -> str:
        return self.vhost


class UserLimitEntry(Entry, frozen=True, kw_only=True):
    user: str
    value: _Fields

    @property
    def label(self) -> str:
        return self.user


class QueueEntry(Entry, frozen=True, kw_only=True):
    """A queue. `type` applies if the arguments name no type."""

    name: str
    vhost: str
    type: str | None = None
    durable: bool = True
    auto_delete: bool = False
    arguments: _Fields = {}
    argument_types: dict[str, Any] = {}


class ExchangeEntry(Entry, frozen=True, kw_only=True):
    name: str
    vhost: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: _Fields = {}
    argument_types: dict[str, Any] = {}


class BindingEntry(Entry, frozen=True, kw_only=True):
    source: str
    vhost: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    arguments: _Fields = {}
    argument_types: dict[str, Any] = {}

    @property
    def label(self) -> str:
        return f"{self.source} to {self.destination} in {self.vhost}"


# The sections whose entries belong to a virtual host, so that they can be imported into another one.
_OF_VHOST: Final = ("policies", "parameters", "queues", "exchanges", "bindings")

E = TypeVar("E", bound=Entry)


class Document:
    """A parsed definitions file; `place` names the file in errors. Raises ConfigurationError if the format is wrong.

    If `vhost` is given, all entries are imported into this virtual host, and sections that belong to none are ignored.
    """

    def __init__(self, data: bytes, place: str, vhost: str | None = None) -> None:
        self.place = place
        self._vhost = vhost
        try:
            document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigurationError(f"{place} is not valid JSON: {error}") from error
        if not isinstance(document, dict):
            raise ConfigurationError(f"{place}: definitions are an object with lists such as users and vhosts")
        self._document = document if vhost is None else {name: document.get(name, []) for name in _OF_VHOST}
        self.vhosts = self._entries("vhosts", VHostEntry)
        self.users = self._entries("users", UserEntry)
        self.permissions = self._entries("permissions", PermissionEntry)
        self.topic_permissions = self._entries("topic_permissions", TopicPermissionEntry)
        self.policies = self._entries("policies", PolicyEntry)
        self.parameters = self._entries("parameters", ParameterEntry)
        self.global_parameters = self._entries("global_parameters", GlobalParameterEntry)
        self.vhost_limits = self._entries("vhost_limits", VHostLimitEntry)
        self.user_limits = self._entries("user_limits", UserLimitEntry)
        self.queues = self._entries("queues", QueueEntry)
        self.exchanges = self._entries("exchanges", ExchangeEntry)
        self.bindings = self._entries("bindings", BindingEntry)

    def _entries(self, section: str, kind: type[E]) -> Sequence[E]:
        entries = self._document.get(section, [])
        if not isinstance(entries, list):
            raise ConfigurationError(f"{self.place}: {section} is not a list")
        return [self._entry(f"{section}[{at}]", entry, kind) for at, entry in enumerate(entries)]

    def _entry(self, place: str, entry: object, kind: type[E]) -> E:
        if self._vhost is not None and isinstance(entry, dict):
            entry = {**entry, "vhost": self._vhost}
        try:
            return msgspec.convert(entry, kind)
        except msgspec.ValidationError as error:
            name = entry.get("name", "") if isinstance(entry, dict) else ""
            called = f" ('{name}')" if name else ""
            raise ConfigurationError(f"{self.place}: {place}{called}: {error}") from error


def arguments_of(entry: QueueEntry | ExchangeEntry | BindingEntry) -> Table:
    """The arguments of an entry as a table. Raises ConfigurationError for values that a table cannot hold."""
    try:
        return typed_table(table(entry.arguments), entry.argument_types)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"argument_types: {error}") from error


def table(fields: _Fields) -> Table:
    """Convert JSON arguments, or a policy's definition, to a table. Raises ConfigurationError for values that a table
    cannot hold.
    """
    if isinstance(fields, list):
        if fields:
            raise ConfigurationError("arguments are an object, not a list")
        return {}
    if is_nested_deeper(fields, TABLE_DEPTH_MAX):
        raise ConfigurationError(f"arguments have more than {TABLE_DEPTH_MAX} objects within each other")
    try:
        return {name: from_json(value) for name, value in fields.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"arguments that cannot be read ({error})") from error


def parse_tags(tags: str | list[str] | None) -> tuple[str, ...]:
    """A list of tags; older exports write them as one text with commas."""
    if isinstance(tags, str):
        tags = tags.split(",")
    return tuple(tag.strip() for tag in tags or [] if tag.strip())
