"""`flintmq list-permissions`."""

from flintmq.cli.listing import plain_list_command
from flintmq.cli.tables import Column

list_permissions = plain_list_command(
    "permissions",
    "Permissions: what users may configure, write and read, as patterns.",
    Column("vhost", "vhost"),
    Column("user", "user"),
    Column("configure", "configure"),
    Column("write", "write"),
    Column("read", "read"),
)
