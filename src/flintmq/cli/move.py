"""`flintmq move`, and what it has in common with `flintmq redrive`: messages that change their queue."""

import json
from typing import Annotated, Final

import typer

from flintmq.base.counting import counted
from flintmq.base.errors import FlintError
from flintmq.cli.administration import Json, VHost, administrative
from flintmq.cli.amqp import Queue
from flintmq.cli.api import Api, path_of
from flintmq.cli.progress import counting_bar

# In one request, so that there is something to show, and Ctrl-C ends it at a round number.
STEP_MESSAGES: Final = 10_000

Chosen = Annotated[
    str, typer.Option("--search", metavar="TEXT", help="Only messages with this in their body, headers or properties.")
]
Most = Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="So many at most; the oldest first.")]


@administrative
def move(
    api: Api,
    queue: Queue,
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Another queue of the virtual host.")],
    vhost: VHost = "/",
    search: Chosen = "",
    count: Most = None,
    as_json: Json = False,
) -> None:
    """Move messages that are ready from one queue to another; none is lost or doubled."""
    tell(
        "moved", as_json, in_steps(api, path_of("queues", vhost, queue), "move", search, count, destination=destination)
    )


def in_steps(api: Api, path: str, what: str, search: str, count: int | None, **more: str) -> tuple[int, int]:
    """How many were moved, and how many were chosen and had to stay."""
    done = skipped = 0
    total = api.get(path).get("messages_ready", 0)
    answered = {"move": "moved", "redrive": "redriven"}[what]
    with counting_bar("Moving", lambda: min(total, count or total)) as progress:
        after: str | None = ""
        while after is not None and (count is None or done + skipped < count):
            step = STEP_MESSAGES if count is None else min(STEP_MESSAGES, count - done - skipped)
            answer = api.post(f"{path}/{what}", {"search": search, "count": step, "after": after, **more})
            done += answer[answered]
            skipped += answer["skipped"]
            progress(answer[answered])
            after = answer["next"]
    return done, skipped


def tell(word: str, as_json: bool, counts: tuple[int, int]) -> None:
    """Raises FlintError where some had to stay."""
    done, skipped = counts
    if as_json:
        typer.echo(json.dumps({word: done, "skipped": skipped}))
    else:
        typer.echo(f"{counted(done, 'message')} {word}", err=True)
    if skipped:
        raise FlintError(
            f"{counted(skipped, 'message')} stayed: there is no room where they should go, or they may not go there"
        )
