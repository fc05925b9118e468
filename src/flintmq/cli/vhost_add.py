"""`flintmq vhost add`."""

from typing import Annotated

import typer

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of

Name = Annotated[str, typer.Argument(metavar="NAME", help="The virtual host's name.")]


@administrative
def add_vhost(
    api: Api,
    name: Name,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    default_queue_type: Annotated[
        str, typer.Option(metavar="TYPE", help="What queues are whose type nobody says: classic, quorum or stream.")
    ] = "",
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="May be repeated.")] = None,
) -> None:
    """Make a virtual host, or change what is said of it. You may use it at once; others need permissions."""
    given = {"description": description, "default_queue_type": default_queue_type, "tags": ",".join(tags or [])}
    api.put(path_of("vhosts", name), {key: value for key, value in given.items() if value})
