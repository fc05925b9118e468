"""Messages: publish, consume, get, browse, search and move them."""

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flintmq.base.errors import FlintError
from flintmq.base.plurals import counted
from flintmq.cli.amqp import channel
from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command, command
from flintmq.cli.options import DEFAULT_URL, Json, PasswordFile, Queue, Url, VHost
from flintmq.cli.progress import counting_bar
from flintmq.cli.tables import Column, print_table

if TYPE_CHECKING:
    from flintmq.client import Delivery

_PERSISTENT: Final = 2
# The broker sends ready messages without delay: if none came for this long, there are no more.
_BROWSE_IDLE_SECONDS: Final = 0.5
# Messages moved per request: small enough for a progress bar, and for Ctrl-C to stop soon.
_STEP_MESSAGES: Final = 10_000
_BODY_SHOWN: Final = 60
_COLUMNS: Final = (
    Column("exchange", "exchange"),
    Column("routing key", "routing_key", rank=0),
    Column("redelivered", "redelivered"),
    Column("properties", "properties"),
    Column("bytes", "bytes", "count"),
    Column("body", "shown", rank=0),
)

Count = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of messages.")]
Chosen = Annotated[
    str, typer.Option("--search", metavar="TEXT", help="Only messages with this text in body, headers or properties.")
]
Most = Annotated[
    int | None, typer.Option("--count", min=1, metavar="N", help="Maximum number of messages, oldest first.")
]


@command("publish")
def publish(
    routing_key: Annotated[str, typer.Argument(help="Routing key; for the default exchange, the name of the queue.")],
    bodies: Annotated[
        list[str] | None, typer.Argument(help="Bodies of messages. Default: each line of standard input.")
    ] = None,
    exchange: Annotated[str, typer.Option(metavar="NAME", help="Exchange. Default: the default exchange.")] = "",
    transient: Annotated[
        bool, typer.Option("--transient", help="Publish transient messages; a restart loses them.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Publish messages and print how many were confirmed. A message that reaches no queue is an error."""
    from flintmq import client

    properties = client.encode_properties(client.Properties(delivery_mode=None if transient else _PERSISTENT))

    def publishes() -> Iterator[client.Publish]:
        for body in _bodies(bodies):
            yield client.Publish(exchange, routing_key, body, properties, mandatory=True)

    with client.connect(url) as connection:
        count = connection.channel(confirms=True).publish_batch(publishes())
    typer.echo(f"{count} confirmed", err=True)


def _bodies(given: list[str] | None) -> Iterator[bytes]:
    if given:
        for body in given:
            yield body.encode()
    else:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\n")


@command("consume")
def consume(
    queue: Annotated[str, typer.Argument(help="Name of the queue or stream.")],
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after this number of messages.")] = None,
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Stop after this time without a message. Default: never."),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="OFFSET", help="Where to start in a stream: first, last, next, an offset, or an age (2h)."
        ),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", help="Continue in a stream where the reader with this name stopped.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", metavar="VALUE", help="Only messages of a stream with this filter value. May be repeated."
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the bodies of messages, one per line, and acknowledge them. Messages not printed stay in the queue."""
    from flintmq import client

    arguments: dict[str, object] = {}
    if offset is not None:
        arguments["x-stream-offset"] = int(offset) if offset.isdecimal() else offset
    if reader is not None:
        arguments["x-stream-reader"] = reader
    if values:
        arguments["x-stream-filter"] = values
    window = min(count or 1000, 1000)
    left = count
    with client.connect(url) as connection:
        opened = connection.channel()
        for batch in opened.consume(queue, prefetch=window, batch_size=window, timeout=wait, arguments=arguments):
            wanted = batch.messages if left is None else batch.messages[:left]
            for message in wanted:
                sys.stdout.buffer.write(message.body + b"\n")
            sys.stdout.buffer.flush()
            opened.ack(wanted[-1].delivery_tag, multiple=True)
            if left is not None:
                left -= len(wanted)
                if left == 0:
                    break


@command("get")
def get(
    queue: Queue,
    count: Count = 1,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Return the messages to the queue, marked as redelivered.")
    ] = False,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Remove messages from a queue and print them. `browse` prints messages without removing them."""
    with channel(url, password_file) as opened:
        messages: list[Delivery] = []
        while len(messages) < count and (message := opened.get(queue)) is not None:
            messages.append(message)
        _print_messages(messages, as_json)
        if messages and requeue:
            opened.nack(messages[-1].delivery_tag, multiple=True)
        elif messages:
            opened.ack(messages[-1].delivery_tag, multiple=True)


@command("browse")
def browse(
    queue: Queue,
    count: Count = 20,
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    password_file: PasswordFile = None,
) -> None:
    """Print the oldest ready messages of a queue without removing them. Use `consume` for streams."""
    messages: list[Delivery] = []
    with channel(url, password_file) as opened:
        # A passive declare raises at once if the queue does not exist.
        ready = opened.declare_queue(queue, passive=True).message_count
        wanted = min(count, ready)
        if wanted:
            arguments: dict[str, object] = {"x-browse": True}
            for batch in opened.consume(
                queue, min(wanted, 1000), timeout=_BROWSE_IDLE_SECONDS, arguments=arguments, no_ack=True
            ):
                messages += batch.messages
                if len(messages) >= wanted:
                    break
    _print_messages(messages[:wanted], as_json)


@api_command("search")
def search(
    api: Api,
    queue: Queue,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to find in body, headers or properties.")],
    vhost: VHost = "/",
    count: Count = 20,
    as_json: Json = False,
) -> None:
    """Find messages that contain a text, anywhere in a queue or a stream. None is removed."""
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
            Column("redelivered", "redelivered"),
            Column("properties", "properties"),
            Column("body", "shown", rank=0),
        ),
    )


@api_command("move")
def move(
    api: Api,
    queue: Queue,
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Another queue in the same virtual host.")],
    vhost: VHost = "/",
    search: Chosen = "",
    count: Most = None,
    as_json: Json = False,
) -> None:
    """Move ready messages to another queue. No message is lost or duplicated."""
    move_in_steps(api, path_of("queues", vhost, queue), "move", search, count, as_json, destination=destination)


def move_in_steps(api: Api, path: str, action: str, search: str, count: int | None, as_json: bool, **more: str) -> None:
    """Move or redrive messages in several requests, and print how many. Raises FlintError if some were skipped."""
    done = skipped = 0
    total = api.get(path).get("messages_ready", 0)
    word = {"move": "moved", "redrive": "redriven"}[action]
    with counting_bar("Moving", lambda: min(total, count or total)) as progress:
        after: str | None = ""
        while after is not None and (count is None or done + skipped < count):
            step = _STEP_MESSAGES if count is None else min(_STEP_MESSAGES, count - done - skipped)
            answer = api.post(f"{path}/{action}", {"search": search, "count": step, "after": after, **more})
            done += answer[word]
            skipped += answer["skipped"]
            progress(answer[word])
            after = answer["next"]
    if as_json:
        typer.echo(json.dumps({word: done, "skipped": skipped}))
    else:
        typer.echo(f"{counted(done, 'message')} {word}", err=True)
    if skipped:
        raise FlintError(
            f"{counted(skipped, 'message')} skipped: the target queue has no room, or they must not go there"
        )


def _describe(message: "Delivery") -> dict[str, Any]:
    """Convert a message to JSON, as `flintmq storage dump` does. A body that is not UTF-8 is in `body_base64`."""
    from flintmq.base.json_values import to_json

    properties = _properties_of(message)
    headers = properties.pop("headers", None)
    found: dict[str, Any] = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": properties,
        "headers": to_json(headers or {}),
    }
    try:
        return found | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return found | {"body_base64": b64encode(message.body).decode()}


def _properties_of(message: "Delivery") -> dict[str, Any]:
    """The properties that are set."""
    known = message.properties
    names = [name for name in dir(known) if not name.startswith("_")]
    return {name: value for name in names if (value := getattr(known, name)) is not None}


def _print_messages(messages: "list[Delivery]", as_json: bool) -> None:
    """Print a JSON object per line, or a table with the beginning of each body."""
    if as_json:
        for message in messages:
            typer.echo(json.dumps(_describe(message), ensure_ascii=False))
        return
    rows = []
    for message in messages:
        row = _describe(message)
        text = row.get("body") or row.get("body_base64") or ""
        shown = text if len(text) <= _BODY_SHOWN else f"{text[:_BODY_SHOWN]}..."
        rows.append(row | {"bytes": len(message.body), "shown": shown})
    print_table(rows, _COLUMNS)
