"""`flintmq limit list`."""

from flintmq.cli.administration import Json, administrative
from flintmq.cli.api import Api
from flintmq.cli.listing import show_list
from flintmq.cli.tables import Column


@administrative
def list_limits(api: Api, as_json: Json = False) -> None:
    """The limits of virtual hosts and users."""
    limits = api.get("vhost-limits") + api.get("user-limits")
    show_list(
        limits,
        as_json,
        Column("vhost", "vhost", rank=0),
        Column("user", "user", rank=0),
        Column("limits", "value", rank=0),
    )
