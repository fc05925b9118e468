"""`flintmq user add`."""

from typing import Annotated

import typer

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.passwords import NewPasswordFile, new_password

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="administrator, monitoring, policymaker or management; may be repeated."),
]


@administrative
def add_user(api: Api, user: User, tags: Tags = None, password_from: NewPasswordFile = None) -> None:
    """Make a user, or give one another password and other tags."""
    body = {"password": new_password(user, password_from), "tags": ",".join(tags or [])}
    api.put(path_of("users", user), body)
