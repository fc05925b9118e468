"""Errors for users: each is one line that says what to do, without a stack trace of this package."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import AccessRefused, ConfigurationError, ConnectionLost, FlintError, NotFound
from flintmq.spark.endpoint import Endpoint

# Spark shows the stack trace of an error in a Python worker unless this variable is set. The worker ends after the
# error.
_HIDE_STACK: Final = "SPARK_HIDE_TRACEBACK"
_WORKER_VARIABLES: Final = "PYTHON_WORKER_FACTORY_"


class QueryFailed(FlintError):
    """The broker cannot be reached, or it refuses a request of a query."""


def missing_library(format: str, library: str) -> ConfigurationError:
    """The error for a format of a lake or of bodies whose library cannot be imported."""
    return ConfigurationError(
        f"the format {format} needs {library}, which is not installed here: pip install 'flintmq[lake]', for the "
        "driver and on every executor"
    )


@contextmanager
def user_errors(endpoint: Endpoint | None = None, queue: str = "") -> Iterator[None]:
    """Raise errors of the block with advice for the user, and without their causes.

    `endpoint` and `queue` are what the block uses: without an endpoint, errors are raised unchanged. Raises FlintError.
    """
    try:
        yield
    except FlintError as error:
        if any(name.startswith(_WORKER_VARIABLES) for name in os.environ):
            os.environ[_HIDE_STACK] = "1"
        raise (error if endpoint is None else _explained(error, endpoint, queue)) from None


def _explained(error: FlintError, endpoint: Endpoint, queue: str) -> FlintError:
    advice = _advice(error, endpoint)
    if not advice:
        return error
    where = f" (queue {queue})" if queue and queue not in str(error) else ""
    return QueryFailed(f"{error}{where}: {advice}")


def _advice(error: FlintError, endpoint: Endpoint) -> str:
    if isinstance(error, fc.LoginRefused):
        return f"check the user and the password in {endpoint.described}"
    if isinstance(error, (fc.ConnectFailed, ConnectionLost, fc.TimedOut)):
        return f"is the broker running, and is {endpoint.described} its address, on the driver and on the executors?"
    if isinstance(error, fc.ConnectionClosed):
        return f"check {endpoint.described}"
    if isinstance(error, fc.ChannelClosed) and error.code == NotFound.code:
        return "declare it, or correct the name"
    if isinstance(error, fc.ChannelClosed) and error.code == AccessRefused.code:
        if "exclusive" in error.text:
            return "an exclusive consumer has it: stop that consumer first"
        return f"give the user in {endpoint.described} the permission, or use another user"
    return ""
