"""`flintmq user delete`."""

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.user_add import User


@administrative
def delete_user(api: Api, user: User) -> None:
    """Delete a user, with its permissions; its connections are closed."""
    api.delete(path_of("users", user))
