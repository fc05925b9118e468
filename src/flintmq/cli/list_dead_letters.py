"""`flintmq list-dead-letters`."""

from typing import Any

from flintmq.cli.administration import Json, SomeVHost, administrative
from flintmq.cli.api import Api, path_of
from flintmq.cli.listing import show_list
from flintmq.cli.tables import Column


@administrative
def list_dead_letters(api: Api, vhost: SomeVHost = None, as_json: Json = False) -> None:
    """Queues that dead letters lie on, and what they died of."""
    queues: list[dict[str, Any]] = api.get(path_of("dead-letters", *([vhost] if vhost else [])))
    if not as_json:
        for queue in queues:
            why = [f"{cause['reason']} on {cause['queue']}: {cause['count']}" for cause in queue["causes"]]
            if queue["messages_examined"] < queue["messages"]:
                why.append(f"of the oldest {queue['messages_examined']}")
            queue["why"] = why
    show_list(
        queues,
        as_json,
        Column("vhost", "vhost"),
        Column("queue", "queue", rank=0),
        Column("messages", "messages", "count", rank=0),
        Column("died of", "why", rank=0),
    )
