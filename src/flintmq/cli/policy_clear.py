"""`flintmq policy clear`."""

from flintmq.cli.administration import VHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.policy_set import Name, Operator, kind


@administrative
def clear_policy(api: Api, name: Name, vhost: VHost = "/", operator: Operator = False) -> None:
    """Withdraw a policy."""
    api.delete(path_of(kind(operator), vhost, name))
