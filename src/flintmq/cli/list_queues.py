"""`flintmq list-queues`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_queues = list_command(
    "queues",
    "Queues and streams, with what is on them.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("type", "type"),
    Column("state", "state"),
    Column("ready", "messages_ready", "count"),
    Column("unacked", "messages_unacknowledged", "count"),
    Column("bytes", "message_bytes", "bytes"),
    Column("in", "message_stats.publish_details.rate", "rate"),
    Column("out", "message_stats.deliver_get_details.rate", "rate"),
    Column("consumers", "consumers", "count"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)
