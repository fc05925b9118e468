"""The `flintmq` command: its options, its commands, and what becomes of an error."""

import sys
from typing import Annotated

import typer

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.consume import consume
from flintmq.cli.definitions_export import export_definitions
from flintmq.cli.definitions_import import import_definitions
from flintmq.cli.pipeline_list import list_pipelines
from flintmq.cli.pipeline_run import run
from flintmq.cli.pipeline_status import status
from flintmq.cli.pipeline_validate import validate
from flintmq.cli.publish import publish
from flintmq.cli.serve import serve
from flintmq.cli.storage_backup import backup
from flintmq.cli.storage_dump import dump
from flintmq.cli.storage_restore import restore
from flintmq.cli.storage_verify import verify
from flintmq.cli.version import print_version

# What a shell expects of a command that was called wrongly, and of one that failed.
EXIT_USAGE = 2
EXIT_FAILURE = 1

app = typer.Typer(
    help="FlintMQ, a message broker in Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (serve, publish, consume):
    app.command()(command)


definitions = typer.Typer(
    help="Virtual hosts, users, permissions, policies, queues, exchanges and bindings, as a file of RabbitMQ's format.",
    no_args_is_help=True,
)
definitions.command("import")(import_definitions)
definitions.command("export")(export_definitions)
app.add_typer(definitions, name="definitions")

storage = typer.Typer(
    help="A broker's data directory: look into it, check it, back it up while the broker runs, and restore it.",
    no_args_is_help=True,
)
storage.command()(verify)
storage.command()(dump)
storage.command()(backup)
storage.command()(restore)
app.add_typer(storage, name="storage")

pipeline = typer.Typer(
    help="Data pipelines on Apache Spark: from queues, streams and the lake into exchanges and the lake.",
    no_args_is_help=True,
)
pipeline.command()(validate)
pipeline.command()(run)
pipeline.command()(status)
pipeline.command("list")(list_pipelines)
app.add_typer(pipeline, name="pipeline")


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Say which FlintMQ this is.")
    ] = False,
) -> None:
    """Options that stand before a command; they act in their callbacks."""


def main() -> None:
    """Run one command. What FlintMQ raises on purpose becomes one line, and never a traceback."""
    try:
        app()
    except FlintError as error:
        typer.echo(f"flintmq: {error}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, ConfigurationError) else EXIT_FAILURE)
