"""`flintmq list-bindings`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_bindings = list_command(
    "bindings",
    "Bindings of queues and exchanges.",
    Column("vhost", "vhost"),
    Column("source", "source", rank=0),
    Column("destination", "destination", rank=0),
    Column("kind", "destination_type"),
    Column("routing key", "routing_key", rank=0),
    Column("arguments", "arguments"),
)
