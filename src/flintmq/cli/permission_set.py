"""`flintmq permission set`."""

from typing import Annotated

import typer

from flintmq.cli.administration import VHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.user_add import User

Pattern = Annotated[str, typer.Option(metavar="PATTERN", help="A regular expression for names; '' for none.")]


@administrative
def set_permission(api: Api, user: User, configure: Pattern, write: Pattern, read: Pattern, vhost: VHost = "/") -> None:
    """Set what a user may do in a virtual host: '.*' permits an operation on all names, '' on none."""
    api.put(path_of("permissions", vhost, user), {"configure": configure, "write": write, "read": read})
