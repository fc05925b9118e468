"""Virtual hosts."""

from typing import Annotated

import typer

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import list_command
from flintmq.cli.options import Yes, confirm
from flintmq.cli.tables import Column

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the virtual host.")]


@api_command("vhost add")
def add_vhost(
    api: Api,
    name: Name,
    description: Annotated[str, typer.Option(metavar="TEXT", help="Description.")] = "",
    default_queue_type: Annotated[
        str,
        typer.Option(
            metavar="TYPE", help="Type of queues that are declared without a type: classic, quorum or stream."
        ),
    ] = "",
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag. May be repeated.")] = None,
) -> None:
    """Add or change a virtual host. You can use it at once; other users need permissions."""
    given = {"description": description, "default_queue_type": default_queue_type, "tags": ",".join(tags or [])}
    api.put(path_of("vhosts", name), {key: value for key, value in given.items() if value})


@api_command("vhost delete")
def delete_vhost(api: Api, name: Name, yes: Yes = False) -> None:
    """Delete a virtual host with all its queues and messages."""
    confirm(f"Delete the virtual host {name} with all its queues and messages?", yes)
    api.delete(path_of("vhosts", name))


list_command(
    "vhosts",
    "List virtual hosts.",
    Column("name", "name", rank=0),
    Column("description", "description"),
    Column("tags", "tags"),
    Column("default queue type", "default_queue_type"),
    Column("ready", "messages_ready", "count"),
    Column("unacked", "messages_unacknowledged", "count"),
    Column("tracing", "tracing"),
)
