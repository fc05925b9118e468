"""`flintmq list-permissions`."""

from flintmq.cli.listing import plain_list_command
from flintmq.cli.tables import Column

list_permissions = plain_list_command(
    "permissions",
    "Permissions: what users may configure, write and read, as patterns.",
    Column("vhost", "vhost", rank=0),
    Column("user", "user", rank=0),
    Column("configure", "configure", rank=0),
    Column("write", "write", rank=0),
    Column("read", "read", rank=0),
)
