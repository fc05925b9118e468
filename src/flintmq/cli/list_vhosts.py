"""`flintmq list-vhosts`."""

from flintmq.cli.listing import plain_list_command
from flintmq.cli.tables import Column

list_vhosts = plain_list_command(
    "vhosts",
    "Virtual hosts.",
    Column("name", "name", rank=0),
    Column("description", "description"),
    Column("tags", "tags"),
    Column("default queue type", "default_queue_type"),
    Column("ready", "messages_ready", "count"),
    Column("unacked", "messages_unacknowledged", "count"),
    Column("tracing", "tracing"),
)
