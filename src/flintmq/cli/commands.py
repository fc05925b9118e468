"""Which commands there are, and where; a command's file is read when it is called: `serve` waits for no other."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

# A command is a file of this package and a function in it; a group has its help and its commands.
_Place = tuple[str, str]
_Group = tuple[str, dict[str, _Place]]

_COMMANDS: Final[dict[str, _Place | _Group]] = {
    "serve": ("serve", "serve"),
    "publish": ("publish", "publish"),
    "consume": ("consume", "consume"),
    "get": ("get", "get"),
    "browse": ("browse", "browse"),
    "search": ("search", "search"),
    "move": ("move", "move"),
    "redrive": ("redrive", "redrive"),
    "purge": ("purge", "purge"),
    "bind": ("bind", "bind"),
    "unbind": ("unbind", "unbind"),
    "declare": (
        "Declare a queue, a stream or an exchange.",
        {"queue": ("declare_queue", "declare_queue"), "exchange": ("declare_exchange", "declare_exchange")},
    ),
    "delete": (
        "Delete a queue or an exchange.",
        {"queue": ("delete_queue", "delete_queue"), "exchange": ("delete_exchange", "delete_exchange")},
    ),
    "ping": ("ping", "ping"),
    "top": ("top", "top"),
    "status": ("status", "show_status"),
    "list-queues": ("list_queues", "list_queues"),
    "list-streams": ("list_streams", "list_streams"),
    "list-dead-letters": ("list_dead_letters", "list_dead_letters"),
    "list-exchanges": ("list_exchanges", "list_exchanges"),
    "list-bindings": ("list_bindings", "list_bindings"),
    "list-connections": ("list_connections", "list_connections"),
    "list-channels": ("list_channels", "list_channels"),
    "list-consumers": ("list_consumers", "list_consumers"),
    "list-resumable-links": ("list_resumable_links", "list_resumable_links"),
    "list-vhosts": ("list_vhosts", "list_vhosts"),
    "list-users": ("list_users", "list_users"),
    "list-permissions": ("list_permissions", "list_permissions"),
    "list-policies": ("list_policies", "list_policies"),
    "close-connection": ("close_connection", "close_connection"),
    "forget-resumable-link": ("forget_resumable_link", "forget_resumable_link"),
    "user": (
        "Users of a broker.",
        {
            "add": ("user_add", "add_user"),
            "delete": ("user_delete", "delete_user"),
            "password": ("user_password", "change_password"),
            "tags": ("user_tags", "set_tags"),
        },
    ),
    "permission": (
        "What users may do.",
        {"set": ("permission_set", "set_permission"), "clear": ("permission_clear", "clear_permission")},
    ),
    "vhost": ("Virtual hosts.", {"add": ("vhost_add", "add_vhost"), "delete": ("vhost_delete", "delete_vhost")}),
    "policy": (
        "Policies for queues and exchanges.",
        {"set": ("policy_set", "set_policy"), "clear": ("policy_clear", "clear_policy")},
    ),
    "limit": (
        "Limits of virtual hosts and users.",
        {
            "set": ("limit_set", "set_limit"),
            "clear": ("limit_clear", "clear_limit"),
            "list": ("limit_list", "list_limits"),
        },
    ),
    "definitions": (
        "Virtual hosts, users, permissions, policies, queues, exchanges and bindings, as a file of RabbitMQ's format.",
        {
            "import": ("definitions_import", "import_definitions"),
            "export": ("definitions_export", "export_definitions"),
        },
    ),
    "storage": (
        "A broker's data directory: look into it, check it, back it up while the broker runs, and restore it.",
        {
            "verify": ("storage_verify", "verify"),
            "dump": ("storage_dump", "dump"),
            "backup": ("storage_backup", "backup"),
            "restore": ("storage_restore", "restore"),
            "rebuild": ("storage_rebuild", "rebuild"),
        },
    ),
    "pipeline": (
        "Data pipelines on Apache Spark: from queues, streams and the lake into exchanges and the lake.",
        {
            "validate": ("pipeline_validate", "validate"),
            "run": ("pipeline_run", "run"),
            "status": ("pipeline_status", "status"),
            "list": ("pipeline_list", "list_pipelines"),
        },
    ),
    "bench": ("bench", "bench"),
    "doctor": ("doctor", "doctor"),
    "config": (
        "Settings: what there is to set, and what file and environment come to.",
        {"show": ("config_show", "show"), "reference": ("config_reference", "print_reference")},
    ),
}


class _Commands(Mapping[str, Any]):
    """As click has them, each made when it is asked for."""

    def __getitem__(self, word: str) -> object:
        found = _COMMANDS[word]
        made = typer.Typer(no_args_is_help=True, add_completion=False)
        if isinstance(found[1], str):
            _add(made, word, (found[0], found[1]))
        else:
            # More than one: click takes a single command for the whole.
            made.callback(help=found[0])(_nothing)
            for each, place in found[1].items():
                _add(made, each, place)
        command = get_command(made)
        command.name = word
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _add(to: typer.Typer, word: str, place: _Place) -> None:
    module, function = place
    to.command(word)(getattr(import_module(f"flintmq.cli.{module}"), function))


def _nothing() -> None:
    """What a group does before its command."""


class Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - typer's
        super().__init__(**attributes)
        commands: Any = _Commands()
        self.commands = commands
