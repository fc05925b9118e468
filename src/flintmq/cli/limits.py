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
    typer.Argument(metavar="LIMIT", help="max-connections or max-queues; of a user, max-connections or max-channels."),
]
OfVHost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="A virtual host's limit.")]
OfUser = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user's limit.")]


@api_command("limit set")
def set_limit(
    api: Api,
    limit: Limit,
    value: Annotated[int, typer.Argument(metavar="N", help="-1 is no limit.")],
    vhost: OfVHost = None,
    user: OfUser = None,
) -> None:
    """Limit what a virtual host, or a user, may have."""
    api.put(_path(limit, vhost, user), {"value": value})


def _path(limit: str, vhost: str | None, user: str | None) -> str:
    """The path of it. Raises ConfigurationError."""
    if user is not None and vhost is None:
        return path_of("user-limits", user, limit)
    if vhost is not None and user is None:
        return path_of("vhost-limits", vhost, limit)
    raise ConfigurationError("say whose limit it is: one of --vhost NAME and --user NAME")


@api_command("limit clear")
def clear_limit(api: Api, limit: Limit, vhost: OfVHost = None, user: OfUser = None) -> None:
    """Withdraw a limit."""
    api.delete(_path(limit, vhost, user))


@api_command("limit list")
def list_limits(api: Api, as_json: Json = False) -> None:
    """The limits of virtual hosts and users."""
    limits = api.get("vhost-limits") + api.get("user-limits")
    show_list(
        limits,
        as_json,
        Column("vhost", "vhost", rank=0),
        Column("user", "user", rank=0),
        Column("limits", "value", rank=0),
    )
