"""Users, permissions and limits by the HTTP API."""

import pytest

from tests.unit.management.fake_node import Api, refused


def test_a_user_is_made_changed_and_deleted() -> None:
    """A password is hashed and never shown; tags may be a list, or a text with commas."""
    api = Api()
    assert api.put("/api/users/u", {"password": "pw", "tags": "management,x"}).status_code == 201
    assert api.found("/api/users/u") == {
        "name": "u",
        "password_hash": "pw",
        "hashing_algorithm": "argon2id",
        "tags": ["management", "x"],
        "limits": {},
    }
    assert api.put("/api/users/u", {"password_hash": "aGFzaA==", "tags": ["y"]}).status_code == 204
    assert api.found("/api/users/u")["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert api.found("/api/users/u")["tags"] == ["y"]
    assert api.put("/api/users/u", {"tags": ""}).status_code == 204
    assert api.found("/api/users/u")["password_hash"] == ""
    assert api.delete("/api/users/u").status_code == 204
    assert refused(api.get("/api/users/u")) == (404, "Object Not Found", "Not Found")
    assert refused(api.delete("/api/users/u")) == (404, "Object Not Found", "Not Found")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "pw"}, "Object missing required field `tags`"),
        ({"tags": "", "password": "a", "password_hash": "b"}, "Cannot set both a password and a password_hash"),
        ({"tags": "", "password_hash": "b", "hashing_algorithm": "rot13"}, "hashing_algorithm 'rot13' is unknown"),
        ({"tags": "", "password_hash": "not!a!hash"}, "the password_hash is not Base64"),
        (
            {"tags": "", "password_hash": "$argon2id$v=19$m=4194304,t=2,p=1$" + "A" * 22 + "$" + "A" * 43}
            | {"hashing_algorithm": "argon2id"},
            "the password_hash must be an argon2id hash of version 19 with at most m=65536, t=8, p=4",
        ),
        ({"tags": 1}, "Expected `str | array`, got `int` - at `$.tags`"),
    ],
)
def test_a_user_that_cannot_be(body: object, reason: str) -> None:
    """The reason says what is wrong."""
    status, error, said = refused(Api().put("/api/users/u", body))
    assert (status, error) == (400, "bad_request")
    assert said.startswith(reason)


def test_several_are_deleted_at_once() -> None:
    """Names of nobody are passed over (as in RabbitMQ)."""
    api = Api()
    assert api.post("/api/users/bulk-delete", {"users": ["monitoring", "who", "management"]}).status_code == 204
    assert set(api.broker.users) == {"admin", "policymaker", "nobody"}


def test_of_several_that_are_deleted_the_audit_log_gets_each() -> None:
    """Each deleted user has an audit event, also the last one; so has a refused attempt."""
    api = Api()
    api.post("/api/users/bulk-delete", {"users": ["monitoring", "who", "policymaker"]})
    api.post("/api/users/bulk-delete", {"users": ["admin"]}, by="management")
    assert [(act.user, act.action, act.name, act.refusal) for act in api.node.events] == [
        ("admin", "user.delete", "monitoring", ""),
        ("admin", "user.delete", "policymaker", ""),
        ("management", "user.delete", "", "Not administrator user"),
    ]


def test_the_audit_log_gets_what_is_given() -> None:
    """Tags and permissions, as much of them as fits a line, and no password; of rights that are taken it gets each."""
    api = Api()
    api.put("/api/users/u", {"password": "pw", "tags": "management,x"})
    api.put("/api/users/u", {"password": "pw", "tags": "administrator"}, by="management")
    api.put("/api/permissions/%2F/u", {"configure": "^a", "write": ".*", "read": ""})
    own = {"/": {"configure": "^v", "write": "", "read": ".*"}}
    api.put("/api/users/v", {"password": "p", "tags": "", "permissions": own})
    for exchange in ("", "e"):
        api.put("/api/topic-permissions/%2F/u", {"exchange": exchange, "write": "^w", "read": "^r"})
    api.put("/api/permissions/%2F/u", {"configure": "a" * 10_000, "write": "", "read": ""})
    assert len(api.node.events.pop().given) < 2_000
    api.delete("/api/topic-permissions/%2F/u")
    assert [(act.action, act.name, act.given, act.refusal) for act in api.node.events] == [
        ("user.put", "u", "tags: management x", ""),
        ("user.put", "u", "", "Not administrator user"),
        ("permission.put", "u", "configure: ^a write: .* read: ", ""),
        ("user.put", "v", "tags:  vhost: / configure: ^v write:  read: .*", ""),
        ("topic_permission.put", "u", "exchange:  write: ^w read: ^r", ""),
        ("topic_permission.put", "u", "exchange: e write: ^w read: ^r", ""),
        ("topic_permission.delete", "u amq.default", "", ""),
        ("topic_permission.delete", "u e", "", ""),
    ]


def test_of_a_deletion_that_never_gets_to_the_disk_the_audit_log_gets_both() -> None:
    """The audit log has the deletion, which holds until the node ends, and the failure to store it."""
    api = Api()
    api.node.failure = "no space left"
    api.post("/api/users/bulk-delete", {"users": ["monitoring"]})
    told = [(act.name, bool(act.refusal)) for act in api.node.events]
    assert told == [("monitoring", False), ("", True)]


def test_who_may_enter_nothing() -> None:
    """Users without permissions are listed for themselves."""
    names = [each["name"] for each in Api().found("/api/users/without-permissions")]
    assert names == ["management", "monitoring", "nobody", "policymaker"]


def test_users_are_for_administrators() -> None:
    """Only administrators see password hashes."""
    api = Api()
    for path in ("/api/users", "/api/users/admin", "/api/permissions", "/api/definitions", "/api/user-limits"):
        for name in ("monitoring", "policymaker", "management"):
            assert refused(api.get(path, by=name)) == (401, "not_authorised", "Not administrator user")


def test_permissions() -> None:
    """Given, shown in four ways, and taken."""
    api = Api()
    wanted = {"configure": "^a", "write": ".*", "read": ""}
    assert api.put("/api/permissions/%2F/nobody", wanted).status_code == 201
    assert api.put("/api/permissions/%2F/nobody", wanted).status_code == 204
    shown = {"user": "nobody", "vhost": "/", **wanted}
    assert api.found("/api/permissions/%2F/nobody") == shown
    assert api.found("/api/users/nobody/permissions") == [shown]
    assert [each["user"] for each in api.found("/api/permissions")] == ["admin", "nobody"]
    assert [each["user"] for each in api.found("/api/vhosts/%2F/permissions")] == ["admin", "nobody"]
    assert api.delete("/api/permissions/%2F/nobody").status_code == 204
    assert api.delete("/api/permissions/%2F/nobody").status_code == 404
    assert api.get("/api/permissions/%2F/nobody").status_code == 404
    assert refused(api.put("/api/permissions/%2F/who", wanted)) == (400, "bad_request", "vhost_or_user_not_found")
    assert refused(api.put("/api/permissions/who/admin", wanted)) == (400, "bad_request", "vhost_or_user_not_found")
    assert refused(api.put("/api/permissions/%2F/nobody", wanted | {"read": "("}))[:2] == (400, "bad_request")
    assert "`write`" in refused(api.put("/api/permissions/%2F/nobody", {"configure": ""}))[2]


def test_topic_permissions() -> None:
    """A user has one topic permission per exchange; they are deleted one by one, or all together."""
    api = Api()
    for exchange in ("amq.topic", "t"):
        wanted = {"exchange": exchange, "write": "^a", "read": ".*"}
        api.put("/api/topic-permissions/%2F/admin", wanted)
    found = api.found("/api/topic-permissions/%2F/admin")
    assert found[0] == {"user": "admin", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert len(found) == 2
    assert api.found("/api/topic-permissions") == found
    assert api.found("/api/users/admin/topic-permissions") == found
    assert api.found("/api/vhosts/%2F/topic-permissions") == found
    assert api.delete("/api/topic-permissions/%2F/admin/t").status_code == 204
    assert api.delete("/api/topic-permissions/%2F/admin/t").status_code == 404
    assert len(api.found("/api/topic-permissions/%2F/admin")) == 1
    assert api.delete("/api/topic-permissions/%2F/admin").status_code == 204
    assert api.get("/api/topic-permissions/%2F/admin").status_code == 404


def test_a_new_user_may_come_with_permissions() -> None:
    """Which are of virtual hosts there are; of a user who is there already they change nothing."""
    api = Api()
    api.broker.add_vhost("v")
    mine = {"configure": "^a", "write": "^b", "read": "^c"}
    assert api.put("/api/users/u", {"tags": "management", "permissions": {"v": mine}}).status_code == 201
    assert api.found("/api/users/u/permissions") == [{"user": "u", "vhost": "v", **mine}]
    changed = {"v": {**mine, "read": ".*"}}
    assert api.put("/api/users/u", {"tags": "management", "permissions": changed}).status_code == 204
    assert api.found("/api/permissions/v/u")["read"] == "^c"
    for wrong in ({"w": mine}, {"v": {**mine, "read": "["}}, {"v": {"read": ""}}):
        assert refused(api.put("/api/users/other", {"tags": "", "permissions": wrong}))[0] == 400
    assert "other" not in api.broker.users


def test_limits_of_virtual_hosts() -> None:
    """Set, listed, and lifted; one that there is not is refused."""
    api = Api()
    assert api.put("/api/vhost-limits/%2F/max-queues", {"value": 7}).status_code == 204
    assert api.put("/api/vhost-limits/%2F/max-queues", {"value": "8"}).status_code == 204
    assert api.found("/api/vhost-limits") == [{"vhost": "/", "value": {"max-queues": 8}}]
    assert api.found("/api/vhost-limits/%2F") == [{"vhost": "/", "value": {"max-queues": 8}}]
    assert api.found("/api/vhost-limits", by="management") == []
    assert refused(api.put("/api/vhost-limits/%2F/max-what", {"value": 7}))[:2] == (400, "bad_request")
    for _ in range(2):
        assert api.delete("/api/vhost-limits/%2F/max-queues").status_code == 204
    assert api.delete("/api/vhost-limits/%2F/max-what").status_code == 404
    assert api.found("/api/vhost-limits/%2F") == []


def test_limits_of_users() -> None:
    """Limits of users are set and deleted like those of virtual hosts; users see their own."""
    api = Api()
    assert api.put("/api/user-limits/management/max-channels", {"value": 7}).status_code == 204
    shown = [{"user": "management", "value": {"max-channels": 7}}]
    assert api.found("/api/user-limits") == shown
    assert api.found("/api/user-limits/management", by="management") == shown
    assert api.found("/api/user-limits/management", by="monitoring") == shown
    for name in ("management", "who"):
        assert refused(api.get(f"/api/user-limits/{name}", by="policymaker"))[:2] == (401, "not_authorised")
    for _ in range(2):
        assert api.delete("/api/user-limits/management/max-channels").status_code == 204
    assert api.delete("/api/user-limits/management/max-queues").status_code == 404
    assert api.found("/api/user-limits") == []


def test_protected_users() -> None:
    """The API neither changes nor deletes a user with the tag protected, alone or among others; an import may."""
    api = Api()
    made = {"password": "p", "tags": "protected,monitoring"}
    assert api.put("/api/users/service", made).status_code == 201
    for response in (api.put("/api/users/service", {"password": "q", "tags": ""}), api.delete("/api/users/service")):
        assert refused(response) == (400, "bad_request", "Protected users cannot be modified via the HTTP API")
    api.put("/api/users/other", {"password": "p", "tags": ""})
    assert api.post("/api/users/bulk-delete", {"users": ["service", "other"]}).status_code == 204
    assert "other" not in api.broker.users
    assert api.broker.users["service"].record.password_hash == "p"
    assert api.found("/api/users/service")["tags"] == ["protected", "monitoring"]
    document = {"users": [{"name": "service", "password_hash": "", "tags": []}]}
    assert api.post("/api/definitions", document).status_code == 204
    assert api.delete("/api/users/service").status_code == 204
