"""Leases: which messages of a queue are leased under a name; a lease that its reader has abandoned can be released."""

from typing import Any, Final

from starlette.responses import Response

from flintmq.broker.access.permission import READ
from flintmq.broker.lease.lease import Lease
from flintmq.broker.vhost import VHost
from flintmq.management.api.queues import queue_of
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.listing import listed
from flintmq.management.http.routes import Route


def _facts(lease: Lease) -> dict[str, object]:
    """A lease as JSON fields; its messages have the positions from `first` to before `next`."""
    return {
        "name": lease.record.name,
        "vhost": lease.queue.vhost,
        "queue": lease.queue.name,
        "messages": int(lease.count),
        "first": int(lease.first),
        "next": int(lease.next),
        "epoch": int(lease.epoch),
        "timeout_ms": lease.record.timeout_ms,
    }


async def _list(call: Call, vhosts: list[VHost]) -> Response:
    leases = [
        lease
        for vhost in vhosts
        for queue in vhost.queues.values()
        if queue.lease_count > 0
        for lease in vhost.leases.of(queue)
    ]
    return await listed(
        call, leases, _facts, _name, lambda lease: (lease.queue.vhost, lease.queue.name, lease.record.name)
    )


def _name(lease: Lease) -> str:
    return lease.record.name


async def _all(call: Call) -> Response:
    return await _list(call, call.visible_vhosts())


async def _of_vhost(call: Call) -> Response:
    return await _list(call, [call.vhost()])


def _the_one(call: Call) -> Lease:
    """The lease in the path. Raises Missing or NotFound."""
    return call.vhost().leases.find(queue_of(call), call.path("lease"))


async def _one(call: Call) -> Response:
    return answer(_facts(_the_one(call)))


async def _release(call: Call) -> Response:
    lease = _the_one(call)
    call.caller.rights_in(lease.queue.vhost).check(READ, "queue", lease.queue.name)
    # Release the lease whichever reader holds it: epoch 0 matches every epoch.
    lease.release(0)
    await call.node.durable()
    return no_content()


_MANY: Final = list[dict[str, Any]]
_ONE: Final = "/api/leases/{vhost}/{name}/{lease}"
ROUTES: Final = (
    Route("GET", "/api/leases", _all, Right.USER, "Leases that the caller may see.", _MANY),
    Route("GET", "/api/leases/{vhost}", _of_vhost, Right.VHOST_VISIBLE, "The leases of a virtual host.", _MANY),
    Route("GET", _ONE, _one, Right.VHOST_VISIBLE, "A lease of a queue.", dict[str, Any]),
    Route("DELETE", _ONE, _release, Right.VHOST, "Release a lease: its messages return.", action="lease.release"),
)
