"""`flintmq vhost delete`."""

from typing import Annotated

import typer

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.vhost_add import Name

Sure = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@administrative
def delete_vhost(api: Api, name: Name, sure: Sure = False) -> None:
    """Delete a virtual host with all queues and messages in it."""
    if not sure:
        typer.confirm(f"Delete the virtual host {name} with all queues and messages in it?", abort=True, err=True)
    api.delete(path_of("vhosts", name))
