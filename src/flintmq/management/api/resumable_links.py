"""Resumable links: termini of AMQP 1.0 links that outlive their connections, and their unsettled deliveries; abandoned
ones can be deleted.
"""

from typing import Any, Final

from starlette.responses import Response

from flintmq.base.errors import AccessRefused, PreconditionFailed
from flintmq.broker.terminus.terminus import CONFIGURATION, NONE, UNSETTLED_STATE, TargetTerminus, Terminus
from flintmq.broker.vhost import VHost
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content
from flintmq.management.http.listing import listed
from flintmq.management.http.routes import Route

_DURABILITIES: Final = {NONE: "none", CONFIGURATION: "configuration", UNSETTLED_STATE: "unsettled-state"}


def _facts(terminus: Terminus) -> dict[str, object]:
    """A terminus as JSON fields. `unsettled` counts unsettled deliveries. `partial_messages` counts partially received
    messages of `partial_bytes` bytes, of which `partial_bytes_paged_out` are on the disk.

    `role` is the broker's: it sends from a source, and receives by a target.
    """
    record = terminus.record
    partial_messages = terminus.partial_messages if isinstance(terminus, TargetTerminus) else []
    return {
        "id": record.id,
        "name": record.link,
        "vhost": record.vhost,
        "user": record.user,
        "container": record.container,
        "role": record.role,
        "durability": _DURABILITIES[record.durability],
        "expiry": record.expiry,
        "timeout_ms": record.timeout_ms,
        "attached": terminus.link is not None,
        "unsettled": len(terminus.tags),
        "partial_messages": len(partial_messages),
        "partial_bytes": sum([int(partial.held) for partial in partial_messages]),
        "partial_bytes_paged_out": terminus.paged_out_bytes if isinstance(terminus, TargetTerminus) else 0,
    }


def _visible(call: Call, vhost: VHost) -> list[Terminus]:
    """The termini that the caller may see: those of its own links, or all with the tag monitoring."""
    termini: list[Terminus] = [*vhost.termini.sources.values(), *vhost.termini.targets.values()]
    if call.caller.is_monitoring:
        return termini
    return [each for each in termini if call.caller.owns(each.record.user)]


async def _list(call: Call, vhosts: list[VHost]) -> Response:
    return await listed(
        call,
        [terminus for vhost in vhosts for terminus in _visible(call, vhost)],
        _facts,
        lambda terminus: terminus.record.link,
        lambda terminus: (terminus.record.vhost, terminus.record.id),
    )


async def _all(call: Call) -> Response:
    return await _list(call, call.visible_vhosts())


async def _of_vhost(call: Call) -> Response:
    return await _list(call, [call.vhost()])


def _the_one(call: Call) -> Terminus:
    """The terminus in the path. Raises Missing."""
    wanted = call.path("id")
    for terminus in _visible(call, call.vhost()):
        if str(terminus.record.id) == wanted:
            return terminus
    raise Missing


async def _one(call: Call) -> Response:
    return answer(_facts(_the_one(call)))


async def _forget(call: Call) -> Response:
    terminus = _the_one(call)
    record = terminus.record
    if not (call.caller.is_administrator or call.caller.owns(record.user)):
        raise AccessRefused("only its user and administrators may delete a resumable link")
    if terminus.link is not None:
        raise PreconditionFailed(
            f"link '{record.link}' of container '{record.container}' is attached: close its connection first"
        )
    terminus.expire()
    await call.node.durable()
    return no_content()


_MANY: Final = list[dict[str, Any]]
_ONE: Final = "/api/resumable-links/{vhost}/{id}"
ROUTES: Final = (
    Route("GET", "/api/resumable-links", _all, Right.USER, "Resumable AMQP 1.0 links.", _MANY),
    Route(
        "GET",
        "/api/resumable-links/{vhost}",
        _of_vhost,
        Right.VHOST_VISIBLE,
        "The resumable links of a virtual host.",
        _MANY,
    ),
    Route("GET", _ONE, _one, Right.VHOST_VISIBLE, "One resumable link, by its id.", dict[str, Any]),
    Route(
        "DELETE",
        _ONE,
        _forget,
        Right.VHOST_VISIBLE,
        "Delete a detached resumable link: its deliveries return, partial messages are dropped.",
        action="resumable-link.forget",
    ),
)
