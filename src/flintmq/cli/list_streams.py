"""`flintmq list-streams`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_streams = list_command(
    "streams",
    "Streams: queues that keep what was read.",
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("records", "messages", "count"),
    Column("bytes", "message_bytes", "bytes"),
    Column("segments", "segments", "count"),
    Column("first", "first_offset", "count"),
    Column("next", "next_offset", "count"),
    Column("in", "message_stats.publish_details.rate", "rate"),
    Column("out", "message_stats.deliver_get_details.rate", "rate"),
    Column("consumers", "consumers", "count"),
    Column("policy", "policy"),
    Column("arguments", "arguments"),
)
