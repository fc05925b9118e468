"""`flintmq user password`."""

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.passwords import NewPasswordFile, new_password
from flintmq.cli.user_add import User


@administrative
def change_password(api: Api, user: User, password_from: NewPasswordFile = None) -> None:
    """Give a user another password. The tags stay."""
    tags = api.get(path_of("users", user))["tags"]
    api.put(path_of("users", user), {"password": new_password(user, password_from), "tags": tags})
