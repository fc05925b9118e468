"""`flintmq limit clear`."""

from flintmq.cli.administration import administrative
from flintmq.cli.api import Api
from flintmq.cli.limit_set import Limit, OfUser, OfVHost, whose


@administrative
def clear_limit(api: Api, limit: Limit, vhost: OfVHost = None, user: OfUser = None) -> None:
    """Withdraw a limit."""
    api.delete(whose(limit, vhost, user))
