"""Connections and their channels, consumers and resumable links."""

from typing import Annotated

import typer

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import vhost_list_command
from flintmq.cli.options import VHost, Yes, confirm
from flintmq.cli.tables import Column

vhost_list_command(
    "connections",
    "List connections of clients.",
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
    Column("connection name", "client_properties.connection_name"),
)


@api_command("close-connection")
def close_connection(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the connection, from list-connections.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the client.")] = "closed by an administrator",
) -> None:
    """Close a client's connection."""
    api.delete(path_of("connections", name), headers={"X-Reason": reason})


vhost_list_command(
    "channels",
    "List channels, and sessions of AMQP 1.0.",
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


vhost_list_command(
    "consumers",
    "List consumers.",
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


vhost_list_command(
    "resumable-links",
    "List AMQP 1.0 links that their clients can resume, attached or not.",
    Column("id", "id"),
    Column("vhost", "vhost"),
    Column("name", "name", rank=0),
    Column("user", "user"),
    Column("container", "container"),
    Column("role", "role"),
    Column("attached", "attached"),
    Column("unsettled", "unsettled", "count"),
    Column("partial messages", "partial_messages", "count"),
    Column("partial bytes", "partial_bytes", "bytes"),
    Column("paged out", "partial_bytes_paged_out", "bytes"),
    Column("durability", "durability"),
    Column("expiry", "expiry"),
)


@api_command("forget-resumable-link")
def forget_resumable_link(
    api: Api,
    link_id: Annotated[str, typer.Argument(metavar="ID", help="Identifier of the link, from list-resumable-links.")],
    vhost: VHost = "/",
    yes: Yes = False,
) -> None:
    """Forget a resumable link. Its unsettled messages return to their queue; its partial messages are deleted."""
    confirm(f"Forget the resumable link {link_id} and delete its partial messages?", yes)
    api.delete(path_of("resumable-links", vhost, link_id))
