"""`flintmq list-channels`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_channels = list_command(
    "channels",
    "Channels, and sessions of AMQP 1.0.",
    Column("name", "name", rank=0),
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("state", "state"),
    Column("consumers", "consumer_count", "count"),
    Column("prefetch", "prefetch_count", "count"),
    Column("unacked", "messages_unacknowledged", "count"),
    Column("unconfirmed", "messages_unconfirmed", "count"),
    Column("confirms", "confirm"),
    Column("tx", "transactional"),
    Column("in", "message_stats.publish_details.rate", "rate"),
    Column("out", "message_stats.deliver_get_details.rate", "rate"),
)
