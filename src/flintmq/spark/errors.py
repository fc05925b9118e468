"""What a user is told when something fails: one error, which says what to do, and no stack of ours."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import AccessRefused, ConnectionLost, FlintError, NotFound
from flintmq.spark.endpoint import Endpoint

# Spark shows the stack of what its Python workers raise, unless this is set; a worker that raised ends.
_HIDE_STACK: Final = "SPARK_HIDE_TRACEBACK"
_WORKERS_HAVE: Final = "PYTHON_WORKER_FACTORY_"


class QueryFailed(FlintError):
    """The broker cannot be reached, or refuses what a query asks of it."""


@contextmanager
def user_errors(endpoint: Endpoint | None = None, queue: str = "") -> Iterator[None]:
    """What fails within is told in the user's terms."""
    try:
        yield
    except FlintError as error:
        if any(name.startswith(_WORKERS_HAVE) for name in os.environ):
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
        return f"is the broker running, and is {endpoint.described} its address, here and where the executors are?"
    if isinstance(error, fc.ConnectionClosed):
        return f"check {endpoint.described}"
    if isinstance(error, fc.ChannelClosed) and error.code == NotFound.code:
        return "declare it, or correct the name"
    if isinstance(error, fc.ChannelClosed) and error.code == AccessRefused.code:
        if "exclusive" in error.text:
            return "another consumer has it to itself: end that one first"
        return f"give the user in {endpoint.described} the permission, or choose another one"
    return ""
