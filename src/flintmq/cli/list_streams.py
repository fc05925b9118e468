"""`flintmq list-streams`."""

from flintmq.cli.administration import Json, SomeVHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.listing import fetch, show_list
from flintmq.cli.tables import Column


@administrative
def list_streams(api: Api, vhost: SomeVHost = None, as_json: Json = False) -> None:
    """Streams: queues that keep what was read."""
    queues = fetch(api, path_of("queues", *([vhost] if vhost else [])))
    show_list(
        [queue for queue in queues if queue.get("type") == "stream"],
        as_json,
        Column("vhost", "vhost"),
        Column("name", "name"),
        Column("records", "messages", "count"),
        Column("bytes", "message_bytes", "bytes"),
        Column("in", "message_stats.publish_details.rate", "rate"),
        Column("readers", "consumers", "count"),
        Column("policy", "policy"),
        Column("arguments", "arguments"),
    )
