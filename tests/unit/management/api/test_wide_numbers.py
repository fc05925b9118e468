"""Numbers that definitions keep in columns of 64 bits, and what is said of those that do not fit."""

import pytest

from tests.unit.management.fake_node import Api, refused


@pytest.mark.parametrize("priority", [2**63, -(2**63) - 1, 10**400])
def test_priorities_beyond_64_bits(priority: int) -> None:
    """Definitions keep a priority in a column of 64 bits: more of them would be the end of the storage."""
    api = Api()
    policy = {"pattern": "", "definition": {"max-length": 1}, "priority": priority}
    for kind in ("policies", "operator-policies"):
        status, _, reason = refused(api.put(f"/api/{kind}/%2F/p", policy))
        assert (status, "is from -2**63 to 2**63 - 1" in reason) == (400, True)
        assert api.put(f"/api/{kind}/%2F/p", {**policy, "priority": 2**63 - 1}).status_code == 201
    value = {"vhost": "/", "name": "p", "apply-to": "queues", **policy}
    assert refused(api.post("/api/definitions", {"policies": [value]}))[0] == 400
    assert refused(api.put("/api/parameters/operator_policy/%2F/p", {"value": policy}))[0] == 400


@pytest.mark.parametrize("limit", [2**63, -(2**63) - 1])
def test_limits_beyond_64_bits(limit: int) -> None:
    """A limit of more than 64 bits is refused."""
    api = Api()
    for path in ("vhost-limits/%2F/max-queues", "user-limits/management/max-channels"):
        status, _, reason = refused(api.put(f"/api/{path}", {"value": limit}))
        assert (status, "is from -2**63 to 2**63 - 1" in reason) == (400, True)
    assert refused(api.put("/api/parameters/vhost-limits/%2F/limits", {"value": {"max-queues": limit}}))[0] == 400
    users = [{"name": "u", "password_hash": "", "tags": "", "limits": {"max-channels": limit}}]
    assert refused(api.post("/api/definitions", {"users": users}))[0] == 400
