"""`flintmq status`: how a broker is doing, on one page."""

import json
from typing import Any

import typer

from flintmq.cli.administration import Json, administrative
from flintmq.cli.api import Api
from flintmq.cli.tables import Column, in_words, printable

_COUNTS = ("connections", "channels", "queues", "exchanges", "consumers")
_NODE = (
    Column("uptime", "uptime", "milliseconds", rank=0),
    Column("memory", "mem_used", "bytes", rank=0),
    Column("memory limit", "mem_limit", "bytes", rank=0),
    Column("disk free", "disk_free", "bytes", rank=0),
    Column("disk limit", "disk_free_limit", "bytes", rank=0),
    Column("sockets", "sockets_used", "count", rank=0),
    Column("files", "fd_used", "count", rank=0),
)


@administrative
def show_status(api: Api, as_json: Json = False) -> None:
    """Say how the broker is doing: what there is of everything, and which alarms are on. Status 1 if any is."""
    overview = api.get("overview")
    nodes: list[dict[str, Any]] = api.get("nodes")
    alarms = [f"{name} low on {what}" for name, what in _alarms(nodes)]
    if as_json:
        typer.echo(json.dumps({"overview": overview, "nodes": nodes, "alarms": alarms}))
    else:
        for line in _lines(overview, nodes, alarms):
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


def _lines(overview: dict[str, Any], nodes: list[dict[str, Any]], alarms: list[str]) -> list[str]:
    product = overview.get("product_name", "FlintMQ")
    version = overview.get("product_version") or overview.get("management_version", "")
    lines = [f"{product} {version} on {overview.get('node', '')}"]
    for node in nodes:
        lines += [f"  {column.heading:<14}{text}" for column in _NODE if (text := column.text(node))]
    totals = overview.get("object_totals", {})
    lines += [f"  {name:<14}{in_words(totals[name], 'count')}" for name in _COUNTS if name in totals]
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
