"""Settings of a broker."""

import json
import os
from dataclasses import fields, is_dataclass
from pathlib import Path

import typer

from flintmq.cli.commands import command
from flintmq.cli.options import ConfigFile, Json

_HIDDEN = "(hidden)"


@command("config show")
def show(config_file: ConfigFile = None, as_json: Json = False) -> None:
    """Check the settings in file and environment, and print them without passwords. Exit status 2 if one is wrong."""
    from flintmq.server import config

    shown = _shown(config.load(config_file, os.environ, {}))
    if as_json:
        typer.echo(json.dumps(shown))
        return
    assert isinstance(shown, dict)
    for name, section in shown.items():
        for at, entry in enumerate(section if isinstance(section, list) else [section]):
            place = f"{name}[{at}]" if isinstance(section, list) else name
            for setting, value in entry.items():
                typer.echo(f"{place}.{setting} = {json.dumps(value)}")


def _shown(value: object) -> object:
    """Convert settings to JSON values, without passwords."""
    if is_dataclass(value):
        return {
            setting.name: _shown(getattr(value, setting.name)) if setting.repr else _HIDDEN for setting in fields(value)
        }
    if isinstance(value, tuple):
        return [_shown(part) for part in value]
    return str(value) if isinstance(value, Path) else value


@command("config reference")
def print_reference() -> None:
    """Print all settings with their variables, bounds and defaults, in Markdown."""
    from flintmq.server.settings_reference import reference

    typer.echo(reference(), nl=False)
