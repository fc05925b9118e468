"""The registry of commands. A command is a function with `@command` or `@api_command` in one of `_MODULES`."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from flintmq.cli.api import Api, endpoint
from flintmq.cli.options import AmqpUrl, ApiUrl, Ca, PasswordFile

# The modules with commands, in the order of `flintmq --help`. They are imported in this order until one of them has the
# command that was called, so commands of the first modules start fastest.
_MODULES: Final = (
    "server",
    "configuration",
    "messages",
    "queues",
    "exchanges",
    "bindings",
    "dead_letters",
    "connections",
    "status",
    "vhosts",
    "users",
    "permissions",
    "policies",
    "limits",
    "definitions",
    "storage",
    "cluster",
    "pipelines",
    "bench",
)

# The first word of commands of two words, with its help text.
_GROUPS: Final = {
    "declare": "Declare a queue, a stream or an exchange.",
    "delete": "Delete a queue or an exchange.",
    "user": "Users: add, change and delete them.",
    "permission": "Permissions of users in virtual hosts.",
    "vhost": "Virtual hosts: add, change and delete them.",
    "policy": "Policies for queues and exchanges.",
    "limit": "Limits of virtual hosts and users.",
    "definitions": (
        "Virtual hosts, users, permissions, policies, queues, exchanges and bindings, as a file in RabbitMQ's format."
    ),
    "storage": "The data directory of a broker: verify, dump, back up while the broker runs, restore, rebuild.",
    "cluster": "The nodes of a cluster: who leads, who is in sync; let another one lead, remove dead ones.",
    "pipeline": "Data pipelines on Apache Spark: from queues, streams and the lake into exchanges and the lake.",
    "config": "Settings: all that exist, and those that the config file and the environment set.",
}

# The options that `api_command` adds, with their defaults.
_API_OPTIONS: Final[tuple[tuple[str, object, object], ...]] = (
    ("api_url", ApiUrl, ""),
    ("amqp_url", AmqpUrl, ""),
    ("password_file", PasswordFile, None),
    ("ca", Ca, None),
)

P = ParamSpec("P")
_Function = TypeVar("_Function", bound=Callable[..., None])

_functions: dict[str, Callable[..., None]] = {}


def command(words: str) -> Callable[[_Function], _Function]:
    """Register a function as a command; `words` are its name, such as "purge" or "user add".

    The function's parameters become options and arguments, and its docstring becomes the help text.
    """
    group, has_group, _ = words.partition(" ")
    assert not has_group or group in _GROUPS, f"add '{group}' with its help text to _GROUPS"

    def register(function: _Function) -> _Function:
        _functions[words] = function
        return function

    return register


def api_command(words: str) -> Callable[[Callable[Concatenate[Api, P], None]], Callable[..., None]]:
    """Register a command that uses the HTTP API, as `command` does.

    The function gets an `Api` as its first argument. The command gets the options for the API's address and login.
    """

    def register(function: Callable[Concatenate[Api, P], None]) -> Callable[..., None]:
        # typer passes the parameters of the signature below; no type checker can know them.
        call: Callable[..., None] = function

        @functools.wraps(function)
        def with_api(**given: Any) -> None:  # noqa: ANN401 - what typer passes
            where = endpoint(*(given.pop(name) for name, _, _ in _API_OPTIONS))
            with Api(where) as api:
                call(api, **given)

        own = list(inspect.signature(function).parameters.values())[1:]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, hint, default in _API_OPTIONS
        ]
        parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own]
        with_api.__signature__ = inspect.Signature(parameters + shared)  # type: ignore[attr-defined]
        with_api.__annotations__ = {part.name: part.annotation for part in parameters + shared}
        del with_api.__wrapped__
        return command(words)(with_api)

    return register


def _function(words: str) -> Callable[..., None]:
    """Import modules until the command is registered, and return its function. Raises KeyError."""
    for module in _MODULES:
        import_module(f"flintmq.cli.{module}")
        if words in _functions:
            break
    return _functions[words]


class _Commands(Mapping[str, Any]):
    """The click commands and groups whose words begin with `prefix`. Each is created when it is looked up."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getitem__(self, word: str) -> object:
        made = typer.Typer(no_args_is_help=True, add_completion=False)
        if not self._prefix and word in _GROUPS:
            made.callback(help=_GROUPS[word])(_nothing)
            found: Any = get_command(made)
            found.commands = _Commands(f"{word} ")
        else:
            made.command(word)(_function(self._prefix + word))
            found = get_command(made)
        found.name = word
        return found

    def __iter__(self) -> Iterator[str]:
        for module in _MODULES:
            import_module(f"flintmq.cli.{module}")
        found = (words.removeprefix(self._prefix) for words in _functions if words.startswith(self._prefix))
        return iter(dict.fromkeys(words.split()[0] for words in found))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _nothing() -> None:
    """A group does nothing before its command."""


class Commands(TyperGroup):
    """The root group, with all commands."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**attributes)
        commands: Any = _Commands()
        self.commands = commands
