"""Messages as the commands print them: a JSON object per line, or a table that has the beginning of each."""

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import typer

from flintmq.base.json_values import to_json
from flintmq.cli.tables import Column, print_table

if TYPE_CHECKING:
    from flintmq.client import Delivery

_BODY_SHOWN: Final = 60
_COLUMNS: Final = (
    Column("exchange", "exchange"),
    Column("routing key", "routing_key", rank=0),
    Column("again", "redelivered"),
    Column("properties", "properties"),
    Column("bytes", "bytes", "count"),
    Column("body", "shown", rank=0),
)


def describe(message: "Delivery") -> dict[str, Any]:
    """As `flintmq storage dump` has them: a body that is no text is in `body_base64`."""
    properties = vars_of(message)
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


def vars_of(message: "Delivery") -> dict[str, Any]:
    """The properties that are there."""
    known = message.properties
    names = [name for name in dir(known) if not name.startswith("_")]
    return {name: value for name in names if (value := getattr(known, name)) is not None}


def print_messages(messages: "list[Delivery]", as_json: bool) -> None:
    if as_json:
        for message in messages:
            typer.echo(json.dumps(describe(message), ensure_ascii=False))
        return
    rows = []
    for message in messages:
        row = describe(message)
        text = row.get("body") or row.get("body_base64") or ""
        shown = text if len(text) <= _BODY_SHOWN else f"{text[:_BODY_SHOWN]}..."
        rows.append(row | {"bytes": len(message.body), "shown": shown})
    print_table(rows, _COLUMNS)
