"""With which status a command ends; scripts look at these, and docs/operations.md says what they mean."""

from typing import Final

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli import api

EXIT_FAILURE: Final = 1
# What a shell expects of a command that was called wrongly.
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REFUSED: Final = 4
EXIT_MISSING: Final = 5

_ACCESS_REFUSED: Final = 403
_NOT_FOUND: Final = 404


def exit_code(error: FlintError) -> int:
    if isinstance(error, ConfigurationError):
        return EXIT_USAGE
    if isinstance(error, api.Unreachable):
        return EXIT_UNREACHABLE
    if isinstance(error, api.Refused):
        return EXIT_REFUSED
    if isinstance(error, api.Missing):
        return EXIT_MISSING
    return _of_client(error)


def _of_client(error: FlintError) -> int:
    """The same for AMQP."""
    from flintmq.client import errors

    if isinstance(error, errors.ConnectFailed):
        return EXIT_UNREACHABLE
    if isinstance(error, errors.LoginRefused):
        return EXIT_REFUSED
    if isinstance(error, errors.Closed):
        return {_ACCESS_REFUSED: EXIT_REFUSED, _NOT_FOUND: EXIT_MISSING}.get(error.code, EXIT_FAILURE)
    return EXIT_FAILURE
