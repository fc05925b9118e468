"""`flintmq list-exchanges`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_exchanges = list_command(
    "exchanges",
    "Exchanges.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("type", "type", rank=0),
    Column("durable", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("internal", "internal"),
    Column("in", "message_stats.publish_in_details.rate", "rate"),
    Column("out", "message_stats.publish_out_details.rate", "rate"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)
