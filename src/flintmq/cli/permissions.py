"""Permissions of users in virtual hosts."""

from typing import Annotated

import typer

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import list_command
from flintmq.cli.options import VHost
from flintmq.cli.tables import Column
from flintmq.cli.users import User

Pattern = Annotated[str, typer.Option(metavar="PATTERN", help="Regular expression for names; '' matches none.")]


@api_command("permission set")
def set_permission(api: Api, user: User, configure: Pattern, write: Pattern, read: Pattern, vhost: VHost = "/") -> None:
    """Set the permissions of a user in a virtual host. '.*' allows an operation on all names, '' on none."""
    api.put(path_of("permissions", vhost, user), {"configure": configure, "write": write, "read": read})


@api_command("permission clear")
def clear_permission(api: Api, user: User, vhost: VHost = "/") -> None:
    """Remove all permissions of a user in a virtual host."""
    api.delete(path_of("permissions", vhost, user))


list_command(
    "permissions",
    "List permissions: patterns of the names that users may configure, write and read.",
    Column("vhost", "vhost", rank=0),
    Column("user", "user", rank=0),
    Column("configure", "configure", rank=0),
    Column("write", "write", rank=0),
    Column("read", "read", rank=0),
)
