"""Parameters: RabbitMQ's form of settings for components, and of limits and operator policies.

Components of RabbitMQ that FlintMQ does not have (federation, shovels) cannot be configured. Parameters that an import
brought for them are listed and can be deleted.
"""

from typing import Any, Final

from msgspec import Struct
from starlette.responses import Response

from flintmq.broker.ports import LimitRecord, ParameterRecord, PolicyRecord, Rule
from flintmq.broker.vhost import VHost
from flintmq.management.api.policies import applied, find_policy
from flintmq.management.definitions.document import ParameterEntry
from flintmq.management.definitions.exporter import parameters
from flintmq.management.definitions.importer import OPERATOR_POLICY, VHOST_LIMITS, rules_of_parameter
from flintmq.management.errors import BadRequest, Missing, NotAuthorised
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer, no_content, put
from flintmq.management.http.listing import listed, picked
from flintmq.management.http.routes import Route


class ParameterShown(Struct):
    value: Any
    vhost: str
    component: str
    name: str


class ParameterWanted(Struct):
    value: Any


class GlobalParameterShown(Struct):
    name: str
    value: Any


class ClusterName(Struct):
    name: str


CLUSTER_NAME: Final = "cluster_name"


def cluster_name(call: Call) -> str:
    """The cluster name that an administrator has set, or that of the settings; without a cluster, the node's name."""
    given = call.broker.parameters.get(("", "", CLUSTER_NAME))
    if given is not None and isinstance(given.value, str):
        return given.value
    cluster = call.node.cluster
    return call.node.name if cluster is None else cluster.name


def _of(call: Call, vhost: VHost) -> list[ParameterShown]:
    return [ParameterShown(**each) for each in parameters(call.broker, [vhost], with_limits=True)]


async def _list(call: Call) -> Response:
    variables = call.request.path_params
    vhosts = [call.vhost()] if "vhost" in variables else call.enterable_vhosts()
    component = call.path("component") if "component" in variables else None
    return await listed(
        call,
        [each for vhost in vhosts for each in _of(call, vhost) if component in (None, each.component)],
        lambda each: each,
        lambda each: each.name,
        lambda each: (each.vhost, each.name, each.component),
    )


def _find(call: Call) -> ParameterShown | None:
    component, name = call.path("component"), call.path("name")
    for each in _of(call, call.vhost()):
        if (each.component, each.name) == (component, name):
            return each
    return None


async def _get(call: Call) -> Response:
    found = _find(call)
    if found is None:
        raise Missing
    return answer(picked(call, found))


async def _put(call: Call) -> Response:
    wanted = await call.body(ParameterWanted)
    component, vhost = call.path("component"), call.vhost().name
    if component not in (VHOST_LIMITS, OPERATOR_POLICY):
        raise BadRequest(f"component {component} not found")
    _check_may_rule(call)
    was_there = _find(call) is not None
    entry = ParameterEntry(name=call.path("name"), vhost=vhost, component=component, value=wanted.value)
    for rule in rules_of_parameter(entry):
        call.broker.put_rule(rule)
    await applied(call)
    await call.node.durable()
    return put(was_there)


async def _delete(call: Call) -> Response:
    found = _find(call)
    if found is None:
        raise Missing
    vhost = call.vhost()
    rules: list[Rule] = [ParameterRecord(found.vhost, found.component, found.name, found.value)]
    if found.component in (VHOST_LIMITS, OPERATOR_POLICY):
        _check_may_rule(call)
        policy = find_policy(vhost, found.name, operator=True)
        limits = [LimitRecord("vhost", vhost.name, name, value) for name, value in vhost.limits.values.items()]
        rules = [policy] if isinstance(policy, PolicyRecord) and found.component == OPERATOR_POLICY else [*limits]
    for rule in rules:
        call.broker.delete_rule(rule)
    await applied(call)
    await call.node.durable()
    return no_content()


def _check_may_rule(call: Call) -> None:
    """Limits and operator policies restrict policymakers, so only administrators may set them. Raises NotAuthorised."""
    if not call.caller.is_administrator:
        raise NotAuthorised("User not authorised to access object")


# -- global ones --------------------------------------------------------------------------------------------------


def _global(call: Call) -> ParameterRecord | None:
    return call.broker.parameters.get(("", "", call.path("name")))


async def _list_global(call: Call) -> Response:
    return await listed(
        call,
        [record for record in call.broker.parameters.values() if not record.vhost],
        lambda record: GlobalParameterShown(record.name, record.value),
        lambda record: record.name,
    )


async def _get_global(call: Call) -> Response:
    found = _global(call)
    if found is None:
        raise Missing
    return answer(picked(call, GlobalParameterShown(found.name, found.value)))


async def _put_global(call: Call) -> Response:
    _check_may_name(call)
    wanted = await call.body(ParameterWanted)
    was_there = _global(call) is not None
    call.broker.put_rule(ParameterRecord("", "", call.path("name"), wanted.value))
    await call.node.durable()
    return put(was_there)


async def _delete_global(call: Call) -> Response:
    _check_may_name(call)
    found = _global(call)
    if found is None:
        raise Missing
    call.broker.delete_rule(found)
    await call.node.durable()
    return no_content()


def _check_may_name(call: Call) -> None:
    """The cluster name has its own path, and only administrators may set it. Raises NotAuthorised."""
    if call.path("name") == CLUSTER_NAME:
        _check_may_rule(call)


async def _cluster_name(call: Call) -> Response:
    return answer(ClusterName(cluster_name(call)))


async def _put_cluster_name(call: Call) -> Response:
    wanted = await call.body(ClusterName)
    call.broker.put_rule(ParameterRecord("", "", CLUSTER_NAME, wanted.name))
    await call.node.durable()
    return no_content()


_LIST: Any = list[ParameterShown]
_GLOBALS: Any = list[GlobalParameterShown]
_POLICYMAKER: Final = Right.POLICYMAKER
_GLOBAL: Final = Right.GLOBAL_POLICYMAKER
_ONE: Final = "/api/parameters/{component}/{vhost}/{name}"
_ONE_GLOBAL: Final = "/api/global-parameters/{name}"

ROUTES: Final = (
    Route("GET", "/api/parameters", _list, _POLICYMAKER, "All parameters.", _LIST),
    Route("GET", "/api/parameters/{component}", _list, _POLICYMAKER, "The parameters of a component.", _LIST),
    Route(
        "GET",
        "/api/parameters/{component}/{vhost}",
        _list,
        _POLICYMAKER,
        "The parameters of a component in a virtual host.",
        _LIST,
    ),
    Route("GET", _ONE, _get, _POLICYMAKER, "One parameter.", ParameterShown),
    Route("PUT", _ONE, _put, _POLICYMAKER, "Set a parameter.", None, ParameterWanted, "parameter.put"),
    Route("DELETE", _ONE, _delete, _POLICYMAKER, "Clear a parameter.", action="parameter.delete"),
    Route("GET", "/api/global-parameters", _list_global, _GLOBAL, "All global parameters.", _GLOBALS),
    Route("GET", _ONE_GLOBAL, _get_global, _GLOBAL, "One global parameter.", GlobalParameterShown),
    Route(
        "PUT",
        _ONE_GLOBAL,
        _put_global,
        _GLOBAL,
        "Set a global parameter.",
        None,
        ParameterWanted,
        "global_parameter.put",
    ),
    Route(
        "DELETE", _ONE_GLOBAL, _delete_global, _GLOBAL, "Clear a global parameter.", action="global_parameter.delete"
    ),
    Route("GET", "/api/cluster-name", _cluster_name, Right.USER, "The cluster name.", ClusterName),
    Route(
        "PUT",
        "/api/cluster-name",
        _put_cluster_name,
        Right.ADMINISTRATOR,
        "Set the cluster name.",
        None,
        ClusterName,
        "cluster_name.put",
    ),
)
