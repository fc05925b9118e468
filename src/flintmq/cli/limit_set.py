"""`flintmq limit set`."""

from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError
from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of

Limit = Annotated[
    str,
    typer.Argument(metavar="LIMIT", help="max-connections or max-queues; of a user, max-connections or max-channels."),
]
OfVHost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="A virtual host's limit.")]
OfUser = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user's limit.")]


@administrative
def set_limit(
    api: Api,
    limit: Limit,
    value: Annotated[int, typer.Argument(metavar="N", help="-1 is no limit.")],
    vhost: OfVHost = None,
    user: OfUser = None,
) -> None:
    """Limit what a virtual host, or a user, may have."""
    api.put(whose(limit, vhost, user), {"value": value})


def whose(limit: str, vhost: str | None, user: str | None) -> str:
    """The path of it. Raises ConfigurationError."""
    if user is not None and vhost is None:
        return path_of("user-limits", user, limit)
    if vhost is not None and user is None:
        return path_of("vhost-limits", vhost, limit)
    raise ConfigurationError("say whose limit it is: one of --vhost NAME and --user NAME")
