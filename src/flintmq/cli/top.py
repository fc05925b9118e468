"""`flintmq top`: the busiest queues and the broker's rates, renewed in place."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flintmq.base.counting import counted
from flintmq.cli.administration import Json, administrative
from flintmq.cli.api import Api
from flintmq.cli.tables import Column, console_for_tables, in_words, printable, table_of

if TYPE_CHECKING:
    from rich.text import Text


class Order(StrEnum):
    IN = "in"
    OUT = "out"
    READY = "ready"
    UNACKED = "unacked"
    BYTES = "bytes"


_PATHS: Final = {
    Order.IN: "message_stats.publish_details.rate",
    Order.OUT: "message_stats.deliver_get_details.rate",
    Order.READY: "messages_ready",
    Order.UNACKED: "messages_unacknowledged",
    Order.BYTES: "message_bytes",
}
_LEAST: Final = 9
_TOTALS: Final = ("connection", "channel", "queue", "consumer")
_COLUMNS: Final = (
    Column("vhost", "vhost", rank=1),
    Column("queue", "name", rank=0),
    Column("in", _PATHS[Order.IN], "rate", rank=3),
    Column("out", _PATHS[Order.OUT], "rate", rank=4),
    Column("acked", "message_stats.ack_details.rate", "rate", rank=8),
    Column("ready", _PATHS[Order.READY], "count", rank=2),
    Column("unacked", _PATHS[Order.UNACKED], "count", rank=5),
    Column("bytes", _PATHS[Order.BYTES], "bytes", rank=6),
    Column("consumers", "consumers", "count", rank=7),
)


@administrative
def top(
    api: Api,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="How often to look.")] = 2.0,
    order: Annotated[Order, typer.Option("--sort", help="What the first queue has most of.")] = Order.IN,
    rows: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="How many queues to show.")] = 20,
    times: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many looks.")] = None,
    as_json: Json = False,
) -> None:
    """Show the busiest queues and the broker's rates, again and again, until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    console = console_for_tables()
    looks = 0
    with Live(console=console, screen=console.is_terminal and not as_json, auto_refresh=False) as live:
        try:
            while True:
                overview, queues = _look(api, order, rows)
                if as_json:
                    typer.echo(json.dumps({"overview": overview, "queues": queues}))
                else:
                    # Whoever looks may make the window wider meanwhile.
                    table = table_of(queues, _columns(order, queues), console.width)
                    live.update(Group(_head(overview, api.endpoint.address), table), refresh=True)
                looks += 1
                if looks == times:
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _look(api: Api, order: Order, rows: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    # The broker sorts, so that one page is all that is sent.
    queues = api.get("queues", page=1, page_size=rows, sort=_PATHS[order], sort_reverse="true")
    return api.get("overview"), queues["items"]


def _columns(order: Order, queues: list[dict[str, Any]]) -> Iterator[Column]:
    """By what the queues are sorted is seen in any case; a virtual host that all are of tells none from another."""
    ranks = {_PATHS[order]: 0}
    if len({queue.get("vhost") for queue in queues}) == 1:
        ranks["vhost"] = _LEAST
    for column in _COLUMNS:
        yield replace(column, rank=ranks.get(column.path, column.rank))


def _head(overview: dict[str, Any], address: str) -> "Text":
    from rich.text import Text

    stats = overview.get("message_stats") or {}
    rates = [
        f"{word} {in_words((stats.get(name) or {}).get('rate', 0.0), 'rate')}"
        for word, name in (("in", "publish_details"), ("out", "deliver_get_details"), ("acked", "ack_details"))
    ]
    totals = overview.get("object_totals") or {}
    counts = [counted(totals[f"{noun}s"], noun) for noun in _TOTALS if f"{noun}s" in totals]
    messages = overview.get("queue_totals") or {}
    held = [
        f"{messages[name]:,} {word}"
        for word, name in (("ready", "messages_ready"), ("unacked", "messages_unacknowledged"))
        if name in messages
    ]
    lines = (f"{overview.get('node', '')} at {address}", ", ".join(rates + held), ", ".join(counts))
    return Text("\n".join(map(printable, lines)))
