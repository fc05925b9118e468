"""Policies and parameters by the HTTP API."""

import pytest

from tests.unit.management.fake_node import Api, refused

POLICY = {"pattern": "^a", "definition": {"max-length": 5}, "apply-to": "queues", "priority": 3}


@pytest.fixture
def api() -> Api:
    api = Api()
    api.broker.add_vhost("v")
    api.user("maker", "policymaker", vhosts=("v",))
    return api


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies(api: Api, kind: str) -> None:
    """Laid down, shown, changed and withdrawn; the two kinds do not know each other's."""
    assert api.put(f"/api/{kind}/v/p", POLICY).status_code == 201
    assert api.put(f"/api/{kind}/v/p", POLICY).status_code == 204
    shown = {"vhost": "v", "name": "p", **POLICY}
    assert api.found(f"/api/{kind}/v/p") == shown
    assert api.found(f"/api/{kind}") == api.found(f"/api/{kind}/v") == [shown]
    assert api.found(f"/api/{kind}/%2F") == []
    other = {"policies": "operator-policies", "operator-policies": "policies"}[kind]
    assert api.get(f"/api/{other}/v/p").status_code == 404
    assert api.put(f"/api/{kind}/v/least", {"pattern": "x", "definition": {"max-length": 1}}).status_code == 201
    assert api.found(f"/api/{kind}/v/least")["apply-to"] == "all"
    assert api.delete(f"/api/{kind}/v/p").status_code == 204
    assert api.delete(f"/api/{kind}/v/p").status_code == 404
    assert refused(api.put(f"/api/{kind}/none/p", POLICY)) == (404, "Object Not Found", "Not Found")
    assert refused(api.put(f"/api/{kind}/v/q", {"pattern": "("} | {"definition": {"max-length": 1}}))[0] == 400
    assert refused(api.put(f"/api/{kind}/v/q", POLICY | {"definition": {"what": 1}}))[0] == 400


def test_a_policy_holds_at_once(api: Api) -> None:
    """Queues that are there have it when the answer comes."""
    queue = api.broker.vhost("v").declare_queue("abc", True, False, False, {}, None)
    api.put("/api/policies/v/p", POLICY)
    assert queue.settings.max_length == 5
    api.delete("/api/policies/v/p")
    assert queue.settings.max_length < 0


def test_whose_policies_are(api: Api) -> None:
    """Policymakers make policies where they have permissions; operator policies, which bind them, are not theirs."""
    assert api.put("/api/policies/v/p", POLICY, by="maker").status_code == 201
    assert refused(api.put("/api/policies/%2F/p", POLICY, by="maker")) == (404, "not_found", "Not Found")
    assert refused(api.put("/api/policies/v/p", POLICY, by="management"))[:2] == (401, "not_authorised")
    assert refused(api.put("/api/operator-policies/v/p", POLICY, by="maker"))[:2] == (401, "not_authorised")
    parameter = "/api/parameters/operator_policy/v/p"
    assert refused(api.put(parameter, {"value": POLICY}, by="maker"))[:2] == (401, "not_authorised")
    assert api.put(parameter, {"value": POLICY}).status_code == 201
    assert refused(api.delete(parameter, by="maker"))[:2] == (401, "not_authorised")
    limits = "/api/parameters/vhost-limits/v/limits"
    assert refused(api.put(limits, {"value": {"max-queues": 1}}, by="maker"))[:2] == (401, "not_authorised")
    assert len(api.found("/api/operator-policies/v", by="maker")) == 1


def test_parameters(api: Api) -> None:
    """Limits and operator policies are parameters, too; there are no other components."""
    assert api.put("/api/parameters/vhost-limits/v/limits", {"value": {"max-queues": 4}}).status_code == 201
    assert api.put("/api/parameters/operator_policy/v/p", {"value": POLICY}).status_code == 201
    shown = {"value": {"max-queues": 4}, "vhost": "v", "component": "vhost-limits", "name": "limits"}
    assert api.found("/api/parameters/vhost-limits/v/limits") == shown
    assert api.found("/api/parameters/vhost-limits") == [shown]
    assert [each["component"] for each in api.found("/api/parameters")] == ["vhost-limits", "operator_policy"]
    assert api.found("/api/parameters/operator_policy/v")[0]["value"] == POLICY
    assert api.found("/api/vhost-limits/v") == [{"vhost": "v", "value": {"max-queues": 4}}]
    assert api.delete("/api/parameters/vhost-limits/v/limits").status_code == 204
    assert api.delete("/api/parameters/operator_policy/v/p").status_code == 204
    assert api.found("/api/parameters") == []
    assert api.found("/api/operator-policies") == []
    assert refused(api.put("/api/parameters/shovel/v/s", {"value": {}})) == (
        400,
        "bad_request",
        "component shovel not found",
    )
    assert (
        refused(api.put("/api/parameters/operator_policy/v/p", {"value": {"pattern": ""} | {"priority": "x"}}))[0]
        == 400
    )
    assert refused(api.put("/api/parameters/vhost-limits/v/limits", {"value": 7}))[0] == 400
    assert refused(api.put("/api/parameters/shovel/none/s", {"value": {}}))[:2] == (404, "Object Not Found")


def test_parameters_that_an_import_brought(api: Api) -> None:
    """Imported parameters of unknown components are listed, and can be deleted."""
    entry = {"vhost": "v", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}}
    api.post("/api/definitions", {"parameters": [entry]})
    assert api.found("/api/parameters/shovel/v/s") == entry
    assert api.delete("/api/parameters/shovel/v/s").status_code == 204
    assert api.get("/api/parameters/shovel/v/s").status_code == 404


def test_global_parameters(api: Api) -> None:
    """Any value under any name; one of them is what the node is called."""
    assert api.put("/api/global-parameters/x", {"value": [1, {"a": None}]}, by="maker").status_code == 201
    assert api.put("/api/global-parameters/x", {"value": 2}).status_code == 204
    assert api.found("/api/global-parameters/x") == {"name": "x", "value": 2}
    assert api.found("/api/cluster-name") == {"name": "flintmq@test"}
    assert api.put("/api/cluster-name", {"name": "ours"}).status_code == 204
    assert api.found("/api/cluster-name") == {"name": "ours"}
    assert api.found("/api/overview")["cluster_name"] == "ours"
    assert api.found("/api/global-parameters") == [{"name": "cluster_name", "value": "ours"}, {"name": "x", "value": 2}]
    assert api.delete("/api/global-parameters/x").status_code == 204
    assert api.delete("/api/global-parameters/x").status_code == 404
    assert refused(api.put("/api/global-parameters/x", {"value": 2}, by="management"))[:2] == (401, "not_authorised")


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if depth % 2 else [value]
    return value


@pytest.mark.parametrize("depth", [65, 450, 901])
def test_what_is_nested_too_deep(api: Api, depth: int) -> None:
    """Arguments that are nested too deeply are refused on each path; the deepest allowed ones are accepted."""
    assert api.put("/api/global-parameters/p", {"value": nested(64)}).status_code == 201
    assert refused(api.put("/api/global-parameters/q", {"value": nested(depth)}))[0] == 400
    policy = {**POLICY, "definition": {"max-length": 1, "federation-upstream": nested(depth)}}
    assert refused(api.put("/api/policies/v/q", policy))[0] == 400
    arguments = {"x-other": nested(depth)}
    assert refused(api.put("/api/queues/%2F/q", {"durable": True, "arguments": arguments}))[0] == 400
    for section, entry in {
        "global_parameters": {"name": "q", "value": nested(depth)},
        "queues": {"vhost": "v", "name": "q", "arguments": arguments},
    }.items():
        assert refused(api.post("/api/definitions", {section: [entry]}))[0] == 400


def test_what_the_node_is_called_is_for_administrators(api: Api) -> None:
    """Only administrators set the cluster name, on each of its paths; policymakers set other global parameters."""
    assert api.put("/api/global-parameters/p", {"value": 1}, by="maker").status_code == 201
    assert refused(api.put("/api/global-parameters/cluster_name", {"value": "n"}, by="maker"))[0] == 401
    assert refused(api.put("/api/cluster-name", {"name": "n"}, by="maker"))[0] == 401
    assert api.put("/api/global-parameters/cluster_name", {"value": "n"}).status_code == 201
    assert refused(api.delete("/api/global-parameters/cluster_name", by="maker"))[0] == 401
    assert api.found("/api/cluster-name") == {"name": "n"}


def test_an_answer_comes_when_it_holds_for_all() -> None:
    """However many queues there are, and whichever way a policy comes and goes."""
    api = Api()
    vhost = api.broker.vhosts["/"]
    for number in range(1_000):
        vhost.declare_queue(f"q{number}", True, False, False, {}, None)

    def lengths() -> set[object]:
        return {queue.settings.max_length for queue in vhost.queues.values()}

    policy = {"pattern": "", "definition": {"max-length": 5}, "apply-to": "queues", "priority": 0}
    for kind in ("policies", "operator-policies", "parameters/operator_policy"):
        body = {"value": policy} if kind.startswith("parameters") else policy
        assert api.put(f"/api/{kind}/%2F/p", body).status_code == 201
        assert lengths() == {5}
        assert api.delete(f"/api/{kind}/%2F/p").status_code == 204
        assert lengths() == {-1}
    imported = {"policies": [{"vhost": "/", "name": "p", **policy}]}
    assert api.post("/api/definitions", imported).status_code == 204
    assert lengths() == {5}
