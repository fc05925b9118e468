"""Counts of login attempts: successful and refused."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.routes import Route
from flintmq.management.ports import Attempts, Tally


class AttemptsShown(Struct, omit_defaults=True):
    protocol: str
    auth_attempts: int
    auth_attempts_failed: int
    auth_attempts_succeeded: int
    remote_address: str = ""


def _attempts(call: Call) -> Attempts:
    if call.path("node") != call.node.name:
        raise Missing
    return call.node.attempts


def _shown(tallies: Sequence[Tally]) -> Response:
    return answer(
        [
            AttemptsShown(each.protocol, each.failed + each.succeeded, each.failed, each.succeeded, each.address)
            for each in tallies
        ]
    )


async def _by_protocol(call: Call) -> Response:
    return _shown(_attempts(call).by_protocol)


async def _by_source(call: Call) -> Response:
    return _shown(_attempts(call).by_source)


async def _reset(call: Call) -> Response:
    _attempts(call).reset()
    return no_content()


_ALL: Final = "/api/auth/attempts/{node}"
_SOURCES: Final = f"{_ALL}/source"
_LIST: Any = list[AttemptsShown]
_ACT: Final = "auth_attempts.reset"

ROUTES: Final = (
    Route("GET", _ALL, _by_protocol, Right.MONITORING, "Login attempts by protocol.", _LIST),
    Route("DELETE", _ALL, _reset, Right.ADMINISTRATOR, "Reset the counts of login attempts.", action=_ACT),
    Route(
        "GET",
        _SOURCES,
        _by_source,
        Right.MONITORING,
        "Login attempts by address, for the last thousand addresses.",
        _LIST,
    ),
    Route("DELETE", _SOURCES, _reset, Right.ADMINISTRATOR, "Reset the counts of login attempts.", action=_ACT),
)
