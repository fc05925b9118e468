"""`flintmq config reference`: all settings, as in docs/configuration.md."""

import typer


def print_reference() -> None:
    """Print all settings, their variables, bounds and defaults, in Markdown."""
    from flintmq.server.settings_reference import reference

    typer.echo(reference(), nl=False)
