"""`flintmq list-users`."""

from flintmq.cli.listing import plain_list_command
from flintmq.cli.tables import Column

list_users = plain_list_command(
    "users",
    "Users.",
    Column("name", "name", rank=0),
    Column("tags", "tags", rank=0),
    Column("hash", "hashing_algorithm"),
    Column("limits", "limits"),
)
