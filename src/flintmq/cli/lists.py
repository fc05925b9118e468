"""Commands that show a list of the API: they differ in where it is and in what is shown of each entry."""

import json
from typing import Any

import typer

from flintmq.cli.api import Api, path_of
from flintmq.cli.commands import api_command
from flintmq.cli.options import Json, SomeVHost
from flintmq.cli.progress import counting_bar
from flintmq.cli.tables import Column, print_table


def show_list(items: list[dict[str, Any]], as_json: bool, *columns: Column) -> None:
    if as_json:
        typer.echo(json.dumps(items))
    else:
        print_table(items, columns)


def fetch(api: Api, path: str) -> list[dict[str, Any]]:
    """All of a list; a bar shows how far it is where there are several pages."""
    found: list[dict[str, Any]] = []
    total = 0
    with counting_bar("Reading", lambda: total) as progress:
        for items, total in api.pages(path):  # noqa: B007 - the bar asks for it
            found += items
            progress(len(items))
    return found


def list_command(noun: str, help_text: str, *columns: Column) -> None:
    """Register `list-<noun>`, for a list that is shown as a whole."""

    def show(api: Api, as_json: Json = False) -> None:
        show_list(fetch(api, noun), as_json, *columns)

    show.__doc__ = help_text
    api_command(f"list-{noun}")(show)


def vhost_list_command(noun: str, help_text: str, *columns: Column) -> None:
    """Register `list-<noun>`, for a list that can be that of one virtual host."""

    def show(api: Api, vhost: SomeVHost = None, as_json: Json = False) -> None:
        show_list(fetch(api, path_of(noun, *([vhost] if vhost else []))), as_json, *columns)

    show.__doc__ = help_text
    api_command(f"list-{noun}")(show)
