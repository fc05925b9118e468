"""Dead letters: list them, and put them back."""

from typing import Any

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.lists import show_list
from flintmq.cli.messages import Chosen, Most, in_steps, tell
from flintmq.cli.options import Json, Queue, SomeVHost, VHost
from flintmq.cli.tables import Column


@api_command("list-dead-letters")
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


@api_command("redrive")
def redrive(
    api: Api, queue: Queue, vhost: VHost = "/", search: Chosen = "", count: Most = None, as_json: Json = False
) -> None:
    """Put dead letters back on the queues they died on. See list-dead-letters for where they lie."""
    tell("redriven", as_json, in_steps(api, path_of("queues", vhost, queue), "redrive", search, count))
