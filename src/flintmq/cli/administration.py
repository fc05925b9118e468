"""What all commands that ask the management API have: where it is, whose login, and JSON in the place of tables."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec, get_type_hints

import typer

from flintmq.cli.api import Api, endpoint

ApiUrl = Annotated[
    str,
    typer.Option(
        "--api",
        metavar="URL",
        envvar="FLINTMQ_API",
        help="The broker's API: http://user:password@host:15672. Without it, that of the host in FLINTMQ_URL.",
    ),
]
AmqpUrl = Annotated[str, typer.Option("--url", hidden=True, envvar="FLINTMQ_URL")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar="FLINTMQ_PASSWORD_FILE", help="Has the password, which no list of processes shows."
    ),
]
Ca = Annotated[Path | None, typer.Option("--ca", metavar="FILE", help="Who signed the broker's certificate, in PEM.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON, on the standard output.")]
VHost = Annotated[str, typer.Option(metavar="NAME", help="The virtual host.")]
SomeVHost = Annotated[str | None, typer.Option(metavar="NAME", help="Only what is in this virtual host.")]

P = ParamSpec("P")

_OPTIONS: Final[tuple[tuple[str, object, object], ...]] = (
    ("api_url", ApiUrl, ""),
    ("amqp_url", AmqpUrl, ""),
    ("password_file", PasswordFile, None),
    ("ca", Ca, None),
)


def administrative(command: Callable[Concatenate[Api, P], None]) -> Callable[..., None]:
    """A command of these options besides its own, with the API in the place of its first argument."""
    # What typer gives is what the signature below asks for.
    call: Callable[..., None] = command

    @functools.wraps(command)
    def asking(**given: Any) -> None:  # noqa: ANN401 - what typer gives
        where = endpoint(*(given.pop(name) for name in ("api_url", "amqp_url", "password_file", "ca")))
        with Api(where) as api:
            call(api, **given)

    hints = get_type_hints(command, include_extras=True)
    own = list(inspect.signature(command).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, hint, default in _OPTIONS
    ]
    parameters = [part.replace(annotation=hints[part.name], kind=inspect.Parameter.KEYWORD_ONLY) for part in own]
    asking.__signature__ = inspect.Signature(parameters + shared)  # type: ignore[attr-defined]
    asking.__annotations__ = {part.name: part.annotation for part in parameters + shared}
    del asking.__wrapped__
    return asking
