"""Policies and operator policies: arguments for queues and exchanges whose names match a pattern."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.base.json_values import to_json
from flintmq.broker.ports import PolicyRecord
from flintmq.broker.vhost import VHost
from flintmq.management.definitions.document import table
from flintmq.management.definitions.importer import policy_steps
from flintmq.management.errors import Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route
from flintmq.management.slices import gathered


class PolicyShown(Struct, rename={"apply_to": "apply-to"}):
    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: dict[str, Any]
    priority: int


class PolicyWanted(Struct, rename={"apply_to": "apply-to"}):
    pattern: str
    definition: dict[str, Any]
    apply_to: str | None = None
    priority: int | None = None


def _describe(record: PolicyRecord) -> PolicyShown:
    definition = {name: to_json(value) for name, value in record.definition.items()}
    return PolicyShown(record.vhost, record.name, record.pattern, record.apply_to, definition, record.priority)


def find_policy(vhost: VHost, name: str, operator: bool) -> PolicyRecord | None:
    for record in vhost.policies.records:
        if record.name == name and record.operator == operator:
            return record
    return None


def _handler(do: Callable[[Call, bool], Awaitable[Response]], operator: bool) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        return await do(call, operator)

    return handle


async def _list(call: Call, operator: bool) -> Response:
    vhosts = [call.vhost()] if "vhost" in call.request.path_params else call.enterable_vhosts()
    return await listed(
        call,
        [record for vhost in vhosts for record in vhost.policies.records if record.operator == operator],
        _describe,
        lambda record: record.name,
        lambda record: (record.priority, record.vhost, record.name),
    )


async def _get(call: Call, operator: bool) -> Response:
    found = find_policy(call.vhost(), call.path("name"), operator)
    if found is None:
        raise Missing
    return answer(picked(call, _describe(found)))


async def applied(call: Call) -> None:
    """Wait until changes of policies apply to all queues and exchanges."""
    await gathered(policy_steps(call.broker))


async def _put(call: Call, operator: bool) -> Response:
    wanted = await call.body(PolicyWanted)
    vhost, name = call.vhost(), call.path("name")
    was_there = find_policy(vhost, name, operator) is not None
    call.broker.put_rule(
        PolicyRecord(
            vhost.name,
            name,
            wanted.pattern,
            table(wanted.definition),
            wanted.apply_to or "all",
            wanted.priority or 0,
            operator=operator,
        )
    )
    await applied(call)
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call, operator: bool) -> Response:
    found = find_policy(call.vhost(), call.path("name"), operator)
    if found is None:
        raise Missing
    call.broker.delete_rule(found)
    await applied(call)
    await call.node.durable()
    return no_content()


_LIST: Any = list[PolicyShown]


def _routes(path: str, kind: str, right: Right, operator: bool) -> tuple[Route, ...]:
    """The routes of a kind of policy. `right` is required for changes; permissions in the virtual host are enough for
    the list.
    """
    of_vhost, one = f"{path}/{{vhost}}", f"{path}/{{vhost}}/{{name}}"
    act = kind.replace(" ", "_")
    many = f"{kind.removesuffix('y')}ies"
    return (
        Route("GET", path, _handler(_list, operator), Right.USER, f"All {many}.", _LIST),
        Route("GET", of_vhost, _handler(_list, operator), Right.VHOST, f"The {many} of a virtual host.", _LIST),
        Route("GET", one, _handler(_get, operator), right, f"One {kind}.", PolicyShown),
        Route(
            "PUT",
            one,
            _handler(_put, operator),
            right,
            f"Set an {kind}, which applies at once." if operator else f"Set a {kind}, which applies at once.",
            None,
            PolicyWanted,
            f"{act}.put",
        ),
        Route("DELETE", one, _handler(_delete, operator), right, f"Delete one {kind}.", action=f"{act}.delete"),
    )


ROUTES: Final = (
    *_routes("/api/policies", "policy", Right.POLICYMAKER, operator=False),
    *_routes("/api/operator-policies", "operator policy", Right.ADMINISTRATOR, operator=True),
)
