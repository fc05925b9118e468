"""`flintmq user tags`."""

from typing import Annotated

import typer

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.user_add import User


@administrative
def set_tags(
    api: Api,
    user: User,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG...", help="None takes all away.")] = None,
) -> None:
    """Give a user these tags, and no others. The password stays."""
    path = path_of("users", user)
    known = api.get(path)
    kept = {name: known[name] for name in ("password_hash", "hashing_algorithm")}
    api.put(path, kept | {"tags": ",".join(tags or [])})
