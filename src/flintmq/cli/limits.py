"""Limits of virtual hosts and users."""

from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import show_list
from flintmq.cli.options import Json
from flintmq.cli.tables import Column

Limit = Annotated[
    str,
    typer.Argument(
        metavar="LIMIT",
        help="max-connections or max-queues for a virtual host; max-connections or max-channels for a user.",
    ),
]
OfVHost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="Virtual host to limit.")]
OfUser = Annotated[str | None, typer.Option("--user", metavar="NAME", help="User to limit.")]


@api_command("limit set")
def set_limit(
    api: Api,
    limit: Limit,
    value: Annotated[int, typer.Argument(metavar="N", help="The limit; -1 means no limit.")],
    vhost: OfVHost = None,
    user: OfUser = None,
) -> None:
    """Set a limit of a virtual host or a user."""
    api.put(_path(limit, vhost, user), {"value": value})


def _path(limit: str, vhost: str | None, user: str | None) -> str:
    """The path of a limit. Raises ConfigurationError unless there is either a virtual host or a user."""
    if user is not None and vhost is None:
        return path_of("user-limits", user, limit)
    if vhost is not None and user is None:
        return path_of("vhost-limits", vhost, limit)
    raise ConfigurationError("use either --vhost NAME or --user NAME")


@api_command("limit clear")
def clear_limit(api: Api, limit: Limit, vhost: OfVHost = None, user: OfUser = None) -> None:
    """Remove a limit of a virtual host or a user."""
    api.delete(_path(limit, vhost, user))


@api_command("limit list")
def list_limits(api: Api, as_json: Json = False) -> None:
    """List the limits of virtual hosts and users."""
    limits = api.get("vhost-limits") + api.get("user-limits")
    show_list(
        limits,
        as_json,
        Column("vhost", "vhost", rank=0),
        Column("user", "user", rank=0),
        Column("limits", "value", rank=0),
    )
