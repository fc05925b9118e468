"""`flintmq list-connections`."""

from flintmq.cli.listing import list_command
from flintmq.cli.tables import Column

list_connections = list_command(
    "connections",
    "Connections of clients.",
    Column("name", "name", rank=0),
    Column("user", "user", rank=0),
    Column("vhost", "vhost"),
    Column("protocol", "protocol"),
    Column("tls", "ssl"),
    Column("state", "state"),
    Column("channels", "channels", "count"),
    Column("in", "recv_oct_details.rate", "bytes"),
    Column("out", "send_oct_details.rate", "bytes"),
    Column("client", "client_properties.product"),
    Column("called", "client_properties.connection_name"),
)
