"""`flintmq list-consumers`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_consumers = list_command(
    "consumers",
    "Consumers.",
    Column("vhost", "queue.vhost"),
    Column("queue", "queue.name", rank=0),
    Column("tag", "consumer_tag", rank=0),
    Column("channel", "channel_details.name"),
    Column("user", "channel_details.user"),
    Column("ack", "ack_required"),
    Column("exclusive", "exclusive"),
    Column("active", "active"),
    Column("prefetch", "prefetch_count", "count"),
    Column("arguments", "arguments"),
)
