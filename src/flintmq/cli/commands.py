"""How commands are registered: each is a function with `@command` or `@api_command` in one of `_MODULES`."""

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

# In the order of `flintmq --help`. They are imported one after the other until one of them has the command that is
# called, so the first ones start fastest.
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
    "pipelines",
    "bench",
)

# The first word of commands that have two, with its help.
_GROUPS: Final = {
    "declare": "Declare a queue, a stream or an exchange.",
    "delete": "Delete a queue or an exchange.",
    "user": "Users of a broker.",
    "permission": "What users may do.",
    "vhost": "Virtual hosts.",
    "policy": "Policies for queues and exchanges.",
    "limit": "Limits of virtual hosts and users.",
    "definitions": (
        "Virtual hosts, users, permissions, policies, queues, exchanges and bindings, as a file of RabbitMQ's format."
    ),
    "storage": "A broker's data directory: look into it, check it, back it up while the broker runs, and restore it.",
    "pipeline": "Data pipelines on Apache Spark: from queues, streams and the lake into exchanges and the lake.",
    "config": "Settings: what there is to set, and what file and environment come to.",
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
    """Register a function as the command of these words, such as "purge" or "user add"; its docstring is the help."""

    def register(function: _Function) -> _Function:
        _functions[words] = function
        return function

    return register


def api_command(words: str) -> Callable[[Callable[Concatenate[Api, P], None]], Callable[..., None]]:
    """Register a command that asks the HTTP API: it is called with the API, and has the options that lead there."""

    def register(function: Callable[Concatenate[Api, P], None]) -> Callable[..., None]:
        # What typer gives is what the signature below asks for.
        call: Callable[..., None] = function

        @functools.wraps(function)
        def asking(**given: Any) -> None:  # noqa: ANN401 - what typer gives
            where = endpoint(*(given.pop(name) for name, _, _ in _API_OPTIONS))
            with Api(where) as api:
                call(api, **given)

        own = list(inspect.signature(function).parameters.values())[1:]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for name, hint, default in _API_OPTIONS
        ]
        parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own]
        asking.__signature__ = inspect.Signature(parameters + shared)  # type: ignore[attr-defined]
        asking.__annotations__ = {part.name: part.annotation for part in parameters + shared}
        del asking.__wrapped__
        return command(words)(asking)

    return register


def _function(words: str) -> Callable[..., None]:
    """The function of a command. Raises KeyError."""
    for module in _MODULES:
        import_module(f"flintmq.cli.{module}")
        if words in _functions:
            break
    return _functions[words]


class _Commands(Mapping[str, Any]):
    """The commands and groups that begin with `prefix`, as click has them; each is made when it is asked for."""

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
    """What a group does before its command."""


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**attributes)
        commands: Any = _Commands()
        self.commands = commands
