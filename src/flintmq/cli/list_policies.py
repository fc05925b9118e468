"""`flintmq list-policies`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_policies = list_command(
    "policies",
    "Policies.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("pattern", "pattern", rank=0),
    Column("apply to", "apply-to"),
    Column("priority", "priority", "count"),
    Column("definition", "definition", rank=0),
)
