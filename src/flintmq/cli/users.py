"""Users."""

from pathlib import Path
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import list_command
from flintmq.cli.options import read_password
from flintmq.cli.tables import Column

User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="TAG", help="Tag: administrator, monitoring, policymaker or management. May be repeated."
    ),
]
# A password is never an argument, because the process list shows arguments.
NewPasswordFile = Annotated[
    Path | None,
    typer.Option("--new-password-file", metavar="FILE", help="File with the user's password. Default: ask for it."),
]


@api_command("user add")
def add_user(api: Api, user: User, tags: Tags = None, password_from: NewPasswordFile = None) -> None:
    """Add a user, or change the password and the tags of an existing one."""
    body = {"password": _new_password(user, password_from), "tags": ",".join(tags or [])}
    api.put(path_of("users", user), body)


@api_command("user delete")
def delete_user(api: Api, user: User) -> None:
    """Delete a user and its permissions, and close its connections."""
    api.delete(path_of("users", user))


@api_command("user password")
def change_password(api: Api, user: User, password_from: NewPasswordFile = None) -> None:
    """Change the password of a user. The tags stay."""
    tags = api.get(path_of("users", user))["tags"]
    api.put(path_of("users", user), {"password": _new_password(user, password_from), "tags": tags})


@api_command("user tags")
def set_tags(
    api: Api,
    user: User,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG...", help="The new tags; none removes all.")] = None,
) -> None:
    """Set the tags of a user. The password stays."""
    path = path_of("users", user)
    known = api.get(path)
    kept = {name: known[name] for name in ("password_hash", "hashing_algorithm")}
    api.put(path, kept | {"tags": ",".join(tags or [])})


list_command(
    "users",
    "List users.",
    Column("name", "name", rank=0),
    Column("tags", "tags", rank=0),
    Column("hash", "hashing_algorithm"),
    Column("limits", "limits"),
)


def _new_password(user: str, file: Path | None) -> str:
    """Read the password of a user from a file, or ask for it. Raises ConfigurationError."""
    if file is None:
        return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    password = read_password(file)
    if not password:
        raise ConfigurationError(f"the password file {file} is empty")
    return password
