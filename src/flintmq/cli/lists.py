"""Commands that print a list of the HTTP API. They differ in the path and in the columns."""

import json
from typing import Any, Final

import typer

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.options import Json, SomeVHost
from flintmq.cli.progress import counting_bar
from flintmq.cli.tables import Column, print_table

# RabbitMQ's API has the lists of one virtual host at /api/<noun>/<vhost>, but these at /api/vhosts/<vhost>/<noun>, as
# /api/<noun>/<name> is one connection or one channel.
_BELOW_VHOSTS: Final = ("channels", "connections")


def show_list(items: list[dict[str, Any]], as_json: bool, *columns: Column) -> None:
    """Print a list as JSON, or as a table with these columns."""
    if as_json:
        typer.echo(json.dumps(items))
    else:
        print_table(items, columns)


def _fetch(api: Api, path: str) -> list[dict[str, Any]]:
    """Read all pages of a list, with a progress bar."""
    found: list[dict[str, Any]] = []
    total = 0
    with counting_bar("Reading", lambda: total) as progress:
        for items, total in api.pages(path):  # noqa: B007 - the bar reads it
            found += items
            progress(len(items))
    return found


def list_command(noun: str, help_text: str, *columns: Column) -> None:
    """Register the command `list-<noun>`, without an option for a virtual host."""

    def show(api: Api, as_json: Json = False) -> None:
        show_list(_fetch(api, noun), as_json, *columns)

    show.__doc__ = help_text
    api_command(f"list-{noun}")(show)


def _path(noun: str, vhost: str | None) -> str:
    if not vhost:
        return noun
    return path_of("vhosts", vhost, noun) if noun in _BELOW_VHOSTS else path_of(noun, vhost)


def vhost_list_command(noun: str, help_text: str, *columns: Column) -> None:
    """Register the command `list-<noun>`, with the option `--vhost`."""

    def show(api: Api, vhost: SomeVHost = None, as_json: Json = False) -> None:
        show_list(_fetch(api, _path(noun, vhost)), as_json, *columns)

    show.__doc__ = help_text
    api_command(f"list-{noun}")(show)
