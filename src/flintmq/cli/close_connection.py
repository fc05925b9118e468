"""`flintmq close-connection`."""

from typing import Annotated

import typer

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of


@administrative
def close_connection(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As list-connections shows it.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What the client is told.")
    ] = "closed by an administrator",
) -> None:
    """Close a client's connection."""
    api.delete(path_of("connections", name), headers={"X-Reason": reason})
