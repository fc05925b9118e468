"""Dead letters: list them, and return them to their queues."""

from typing import Any

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import show_list
from flintmq.cli.messages import Chosen, Most, move_in_steps
from flintmq.cli.options import Json, Queue, SomeVHost, VHost
from flintmq.cli.tables import Column


@api_command("list-dead-letters")
def list_dead_letters(api: Api, vhost: SomeVHost = None, as_json: Json = False) -> None:
    """List the queues that hold dead letters, and why these were dead-lettered."""
    queues: list[dict[str, Any]] = api.get(path_of("dead-letters", *([vhost] if vhost else [])))
    if not as_json:
        for queue in queues:
            why = [f"{cause['reason']} on {cause['queue']}: {cause['count']}" for cause in queue["causes"]]
            if queue["messages_examined"] < queue["messages"]:
                why.append(f"(counted in the oldest {queue['messages_examined']} only)")
            queue["why"] = why
    show_list(
        queues,
        as_json,
        Column("vhost", "vhost"),
        Column("queue", "queue", rank=0),
        Column("messages", "messages", "count", rank=0),
        Column("reason", "why", rank=0),
    )


@api_command("redrive")
def redrive(
    api: Api, queue: Queue, vhost: VHost = "/", search: Chosen = "", count: Most = None, as_json: Json = False
) -> None:
    """Return dead letters to the queues that dead-lettered them. `list-dead-letters` shows where they are."""
    move_in_steps(api, path_of("queues", vhost, queue), "redrive", search, count, as_json)
