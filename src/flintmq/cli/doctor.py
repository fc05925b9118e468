"""`flintmq doctor`: what is in the way of a broker with these settings on this machine."""

import json
import os
from typing import Final

import typer

from flintmq.cli.config_show import ConfigFile
from flintmq.cli.serve import Data, Host, Port, flags
from flintmq.cli.storage_backup import Json
from flintmq.cli.tables import printable
from flintmq.server import config

_COLOURS: Final = {"fine": typer.colors.GREEN, "doubtful": typer.colors.YELLOW, "wrong": typer.colors.RED}


def doctor(
    config_file: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Look for what would keep `flintmq serve` with the same flags from starting, or from running well.

    Nothing is changed. Status 1 if anything is wrong; what is only doubtful does not count.
    """
    from flintmq.cli.examination import examine

    settings = config.load(config_file, os.environ, flags(data, host, port))
    findings = examine(settings, config_file, config.variables_in(os.environ))
    if as_json:
        typer.echo(json.dumps([finding.__dict__ for finding in findings]))
    else:
        for finding in findings:
            verdict = typer.style(f"{finding.verdict:<9}", fg=_COLOURS[finding.verdict])
            typer.echo(f"{verdict}{finding.about:<16}{printable(finding.text)}")
    if any(finding.verdict == "wrong" for finding in findings):
        raise typer.Exit(1)
