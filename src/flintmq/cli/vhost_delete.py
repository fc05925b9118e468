"""`flintmq vhost delete`."""

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.confirmation import Yes, confirm
from flintmq.cli.vhost_add import Name


@administrative
def delete_vhost(api: Api, name: Name, yes: Yes = False) -> None:
    """Delete a virtual host with all queues and messages in it."""
    confirm(f"Delete the virtual host {name} with all queues and messages in it?", yes)
    api.delete(path_of("vhosts", name))
