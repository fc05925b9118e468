"""`flintmq list-resumable-links`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_resumable_links = list_command(
    "resumable-links",
    "Ends of AMQP 1.0 links that are kept for their clients to resume, attached or not.",
    Column("id", "id"),
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("user", "user"),
    Column("container", "container"),
    Column("role", "role"),
    Column("attached", "attached"),
    Column("unsettled", "unsettled", "count"),
    Column("half messages", "half_messages", "count"),
    Column("half bytes", "half_bytes", "bytes"),
    Column("paged out", "half_bytes_paged_out", "bytes"),
    Column("durability", "durability"),
    Column("expiry", "expiry"),
)
