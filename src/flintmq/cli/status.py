"""The state of a running broker."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flintmq.base.plurals import counted
from flintmq.cli.api import Api
from flintmq.cli.commands import api_command
from flintmq.cli.options import Json
from flintmq.cli.progress import size_in_words
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
_LEAST_RANK: Final = 9
_TOP_COUNTS: Final = ("connection", "channel", "queue", "consumer")
_TOP_COLUMNS: Final = (
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
_STATUS_COUNTS = ("connections", "channels", "queues", "exchanges", "consumers")
_STATUS_NODE = (
    Column("uptime", "uptime", "milliseconds", rank=0),
    Column("memory", "mem_used", "bytes", rank=0),
    Column("memory limit", "mem_limit", "bytes", rank=0),
    Column("disk free", "disk_free", "bytes", rank=0),
    Column("disk limit", "disk_free_limit", "bytes", rank=0),
    Column("sockets", "sockets_used", "count", rank=0),
    Column("files", "fd_used", "count", rank=0),
)


@api_command("status")
def show_status(api: Api, as_json: Json = False) -> None:
    """Show the state of the broker: memory, disk, counts, rates and alarms. Exit status 1 if an alarm is on."""
    overview = api.get("overview")
    nodes: list[dict[str, Any]] = api.get("nodes")
    alarms = [f"{name} low on {what}" for name, what in _alarms(nodes)]
    if shortage := (overview.get("cluster") or {}).get("shortage"):
        alarms.append(shortage)
    if as_json:
        typer.echo(json.dumps({"overview": overview, "nodes": nodes, "alarms": alarms}))
    else:
        for line in _status_lines(overview, nodes, alarms):
            typer.echo(printable(line))
    if alarms:
        raise typer.Exit(1)


def _alarms(nodes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (node.get("name", "node"), what)
        for node in nodes
        for what, alarm in (("memory", "mem_alarm"), ("disk", "disk_free_alarm"))
        if node.get(alarm)
    ]


def _status_lines(overview: dict[str, Any], nodes: list[dict[str, Any]], alarms: list[str]) -> list[str]:
    product = overview.get("product_name", "FlintMQ")
    version = overview.get("product_version") or overview.get("management_version", "")
    lines = [f"{product} {version} on {overview.get('node', '')}"]
    for node in nodes:
        lines += [f"  {column.heading:<14}{text}" for column in _STATUS_NODE if (text := column.text(node))]
    lines += [f"  {'node':<14}{node.get('name', '')}: {_part(node)}" for node in nodes if "is_leader" in node]
    totals = overview.get("object_totals", {})
    lines += [f"  {name:<14}{in_words(totals[name], 'count')}" for name in _STATUS_COUNTS if name in totals]
    messages = overview.get("queue_totals") or {}
    for heading, name in (("ready", "messages_ready"), ("unacked", "messages_unacknowledged")):
        if name in messages:
            lines.append(f"  {heading:<14}{in_words(messages[name], 'count')}")
    rates = overview.get("message_stats") or {}
    for heading, name in (("in", "publish_details"), ("out", "deliver_get_details"), ("acked", "ack_details")):
        if name in rates:
            lines.append(f"  {heading:<14}{in_words(rates[name].get('rate', 0.0), 'rate')}")
    lines += [
        f"  {'listening':<14}{each.get('protocol', '')} on {each.get('ip_address', '')}:{each.get('port', '')}"
        for each in overview.get("listeners", [])
    ]
    lines.append(f"  {'alarms':<14}{', '.join(alarms) or 'none'}")
    return lines


def _part(node: dict[str, Any]) -> str:
    """What a node of a cluster does in it."""
    if node["is_leader"]:
        return "leads"
    if not node.get("running"):
        return "does not run"
    said = "in sync" if node.get("is_in_sync") else "not in sync"
    behind, seconds = node.get("behind_bytes"), node.get("behind_seconds")
    return f"{said}, {size_in_words(behind)} and {seconds:.1f} s behind" if behind and seconds is not None else said


@api_command("top")
def top(
    api: Api,
    every: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="Seconds between two refreshes.")] = 2.0,
    order: Annotated[Order, typer.Option("--sort", help="What to sort the queues by, largest first.")] = Order.IN,
    rows: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="Number of queues to show.")] = 20,
    times: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after this number of refreshes.")] = None,
    as_json: Json = False,
) -> None:
    """Show the busiest queues and the broker's rates, refreshed until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    console = console_for_tables()
    refreshes = 0
    with Live(console=console, screen=console.is_terminal and not as_json, auto_refresh=False) as live:
        try:
            while True:
                overview, queues = _top_data(api, order, rows)
                if as_json:
                    typer.echo(json.dumps({"overview": overview, "queues": queues}))
                else:
                    # The width is read each time, because the window may be resized.
                    table = table_of(queues, _top_columns(order, queues), console.width)
                    live.update(Group(_top_head(overview, api.endpoint.address), table), refresh=True)
                refreshes += 1
                if refreshes == times:
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _top_data(api: Api, order: Order, rows: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    # The broker sorts the queues, so one page is enough.
    queues = api.get("queues", page=1, page_size=rows, sort=_PATHS[order], sort_reverse="true")
    return api.get("overview"), queues["items"]


def _top_columns(order: Order, queues: list[dict[str, Any]]) -> Iterator[Column]:
    """The columns of `top`. The one to sort by is never left out; `vhost` is the first to go if all have the same."""
    ranks = {_PATHS[order]: 0}
    if len({queue.get("vhost") for queue in queues}) == 1:
        ranks["vhost"] = _LEAST_RANK
    for column in _TOP_COLUMNS:
        yield replace(column, rank=ranks.get(column.path, column.rank))


def _top_head(overview: dict[str, Any], address: str) -> "Text":
    from rich.text import Text

    stats = overview.get("message_stats") or {}
    rates = [
        f"{word} {in_words((stats.get(name) or {}).get('rate', 0.0), 'rate')}"
        for word, name in (("in", "publish_details"), ("out", "deliver_get_details"), ("acked", "ack_details"))
    ]
    totals = overview.get("object_totals") or {}
    counts = [counted(totals[f"{noun}s"], noun) for noun in _TOP_COUNTS if f"{noun}s" in totals]
    messages = overview.get("queue_totals") or {}
    held = [
        f"{messages[name]:,} {word}"
        for word, name in (("ready", "messages_ready"), ("unacked", "messages_unacknowledged"))
        if name in messages
    ]
    lines = (f"{overview.get('node', '')} at {address}", ", ".join(rates + held), ", ".join(counts))
    return Text("\n".join(map(printable, lines)))
