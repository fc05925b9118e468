"""Pipelines: the last status that each of them has published."""

from typing import Any, Final

from starlette.responses import Response

from flintmq.broker.access.permission import READ
from flintmq.broker.vhost import VHost
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import Route
from flintmq.management.pipelines import QUEUE, statuses_in


async def _visible_statuses(call: Call, vhost: VHost) -> list[dict[str, Any]]:
    if QUEUE not in vhost.queues or not call.caller.may_see(vhost.name):
        return []
    if not call.caller.is_monitoring:
        call.caller.rights_in(vhost.name).check(READ, "queue", QUEUE)
    return await statuses_in(call.broker, vhost)


async def _all(call: Call) -> Response:
    told: list[dict[str, Any]] = []
    for vhost in call.visible_vhosts():
        told += await _visible_statuses(call, vhost)
    return answer(told)


async def _of_vhost(call: Call) -> Response:
    return answer(await _visible_statuses(call, call.vhost()))


_MANY: Final = list[dict[str, Any]]
ROUTES: Final = (
    Route("GET", "/api/pipelines", _all, Right.USER, "The last status of each pipeline.", _MANY),
    Route("GET", "/api/pipelines/{vhost}", _of_vhost, Right.VHOST_VISIBLE, "The pipelines of a virtual host.", _MANY),
)
