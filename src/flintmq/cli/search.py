"""`flintmq search`."""

import json
from typing import Annotated, Any, Final

import typer

from flintmq.cli.administration import Json, VHost, administrative
from flintmq.cli.amqp import Queue
from flintmq.cli.api import Api, path_of
from flintmq.cli.get import Count
from flintmq.cli.progress import counting_bar
from flintmq.cli.tables import Column, print_table

_BODY_SHOWN: Final = 60


@administrative
def search(
    api: Api,
    queue: Queue,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What occurs in body, headers or properties.")],
    vhost: VHost = "/",
    count: Count = 20,
    as_json: Json = False,
) -> None:
    """Find messages on a queue or in a stream by what is in them, however deep it is, and take none."""
    path = path_of("queues", vhost, queue)
    total = api.get(path).get("messages", 0)
    found: list[dict[str, Any]] = []
    after: str | None = None
    with counting_bar("Searching", lambda: total) as progress:
        while len(found) < count:
            page = api.get(f"{path}/messages", search=text, count=count - len(found), after=after)
            found += page["messages"]
            progress(page["looked"])
            after = page["next"]
            if after is None:
                break
    if as_json:
        for message in found:
            typer.echo(json.dumps(message, ensure_ascii=False))
        return
    for message in found:
        message["shown"] = str(message.get("payload", ""))[:_BODY_SHOWN]
    print_table(
        found,
        (
            Column("position", "position", "count", rank=0),
            Column("exchange", "exchange"),
            Column("routing key", "routing_key", rank=0),
            Column("again", "redelivered"),
            Column("properties", "properties"),
            Column("body", "shown", rank=0),
        ),
    )
