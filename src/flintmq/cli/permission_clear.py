"""`flintmq permission clear`."""

from flintmq.cli.administration import VHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.user_add import User


@administrative
def clear_permission(api: Api, user: User, vhost: VHost = "/") -> None:
    """Take from a user what it may do in a virtual host."""
    api.delete(path_of("permissions", vhost, user))
