"""Definitions by the HTTP API: a file goes in, and the same comes out."""

from typing import Any

import pytest

from tests.unit.management.fake_node import Api, refused

# As RabbitMQ writes it.
DOCUMENT: dict[str, Any] = {
    "rabbit_version": "4.1.0",
    "rabbitmq_definition_format": "cluster",
    "users": [
        {
            "name": "u",
            "password_hash": "aGFzaA==",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management"],
            "limits": {"max-channels": 3},
        }
    ],
    "vhosts": [
        {
            "name": "v",
            "description": "d",
            "tags": [],
            "default_queue_type": "quorum",
            "metadata": {"description": "d", "tags": [], "default_queue_type": "quorum"},
        }
    ],
    "permissions": [{"user": "u", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "u", "vhost": "v", "exchange": "amq.topic", "write": "^a", "read": ".*"}],
    "parameters": [
        {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}, "vhost": "v"},
        {
            "component": "operator_policy",
            "name": "o",
            "value": {"apply-to": "queues", "definition": {"max-length": 1}, "pattern": "^q", "priority": 0},
            "vhost": "v",
        },
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@there"}],
    "policies": [
        {"vhost": "v", "name": "p", "pattern": ".*", "apply-to": "all", "definition": {"max-length": 2}, "priority": 1}
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "v",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum"},
        }
    ],
    "exchanges": [
        {
            "name": "x",
            "vhost": "v",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
    ],
    "bindings": [
        {
            "source": "x",
            "vhost": "v",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        }
    ],
}
LISTS = [name for name, value in DOCUMENT.items() if isinstance(value, list)]


@pytest.fixture
def api() -> Api:
    api = Api()
    assert api.post("/api/definitions", DOCUMENT).status_code == 204
    return api


def test_what_goes_in_comes_out(api: Api) -> None:
    """An export contains every imported entry; FlintMQ's own fields are additional."""
    found = api.found("/api/definitions")
    for name in LISTS:
        for entry in DOCUMENT[name]:
            assert any(entry.items() <= each.items() for each in found[name]), name
    assert found["original_cluster_name"] == "rabbit@there"
    assert found["rabbitmq_definition_format"] == "cluster"
    assert api.found("/api/all-configuration") == found


def test_the_same_again_changes_nothing(api: Api) -> None:
    """An export can be imported where it came from."""
    found = api.found("/api/definitions")
    assert api.post("/api/definitions", found).status_code == 204
    assert api.found("/api/definitions") == found


def test_one_virtual_host_goes_into_another(api: Api) -> None:
    """An export of a virtual host can be imported into another one, because its entries name none."""
    found = api.found("/api/definitions/v")
    assert found["rabbitmq_definition_format"] == "single_virtual_host"
    assert found["original_vhost_name"] == "v"
    assert found["limits"] == {"max-queues": 9}
    assert found["metadata"] == {"description": "d", "tags": [], "default_queue_type": "quorum"}
    assert "users" not in found
    assert all("vhost" not in entry for name in LISTS for entry in found.get(name, ()))
    assert api.post("/api/definitions/%2F", found).status_code == 204
    again = api.found("/api/definitions/%2F")
    assert [again[name] for name in ("queues", "exchanges", "bindings", "policies", "parameters")] == [
        found[name] for name in ("queues", "exchanges", "bindings", "policies", "parameters")
    ]
    assert refused(api.post("/api/definitions/none", found)) == (404, "Object Not Found", "Not Found")


def test_users_with_passwords() -> None:
    """Plain-text passwords are hashed outside of the event loop, each on its own, before anything is changed."""
    api = Api()
    users: list[dict[str, Any]] = [{"name": name, "password": f"of {name}", "tags": []} for name in ("a", "b")]
    assert api.post("/api/definitions", {"users": [*users, DOCUMENT["users"][0]]}).status_code == 204
    kept = {name: api.broker.users[name].record.password_hash for name in ("a", "b", "u")}
    assert kept == {"a": "of a", "b": "of b", "u": "aGFzaA=="}


def test_a_file_with_a_mistake_brings_nothing() -> None:
    """The reason names the entry."""
    api = Api()
    users = [{"name": "a", "password": "b"}]
    permissions = [{"user": "a", "vhost": "none", "configure": "", "write": "", "read": ""}]
    status, error, reason = refused(api.post("/api/definitions", {"users": users, "permissions": permissions}))
    assert (status, error) == (400, "bad_request")
    assert reason.startswith("definitions: permissions[0] ('a in none'): there is no vhost 'none'")
    assert "a" not in api.broker.users
    assert refused(api.request("POST", "/api/definitions", content=b"{"))[0] == 400
    assert refused(api.request("POST", "/api/definitions", content=b"[" * 60_000))[0] == 400


X: dict[str, Any] = {"name": "x", "vhost": "/", "type": "topic"}
Q: dict[str, Any] = {"name": "q", "vhost": "/"}
B: dict[str, Any] = {"source": "x", "vhost": "/", "destination": "q", "routing_key": "k"}


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        ("exchanges", X | {"name": "y", "type": "odd"}),
        ("exchanges", X | {"name": "y", "type": "x-delayed-message"}),
        ("exchanges", X | {"name": "y", "type": "x-recent-history", "arguments": {"x-recent-history-length": 0}}),
        ("exchanges", X | {"name": "y", "arguments": {"alternate-exchange": 1}}),
        ("exchanges", X | {"name": "not strict", "vhost": "strict"}),
        ("queues", Q | {"name": "r", "arguments": {"x-queue-type": "fast"}}),
        ("queues", Q | {"name": "r", "arguments": {"x-max-length": -1}}),
        ("queues", Q | {"name": "r", "durable": False, "arguments": {"x-queue-type": "quorum"}}),
        ("queues", Q | {"name": "r", "vhost": "full"}),
        ("bindings", B | {"source": "none"}),
        ("bindings", B | {"destination": "none"}),
        ("bindings", B | {"destination": "none", "destination_type": "exchange"}),
        ("bindings", B | {"destination": "", "destination_type": "exchange"}),
        ("bindings", B | {"destination_type": "odd"}),
        ("bindings", B | {"routing_key": ".".join("#a" * 9)}),
        ("bindings", B | {"source": "amq.headers", "arguments": {"x-match": "odd"}}),
    ],
)
def test_what_cannot_be_made_keeps_all_of_a_file_out(section: str, wrong: dict[str, Any]) -> None:
    """In a broker that runs, nothing has changed when it is found."""
    api = Api()
    vhosts = [{"name": "strict", "dialect": "strict"}, {"name": "full"}]
    limits = [{"component": "vhost-limits", "name": "limits", "value": {"max-queues": 0}, "vhost": "full"}]
    right: dict[str, Any] = {"exchanges": [X], "queues": [Q], "bindings": [B], "vhosts": vhosts, "parameters": limits}
    document = right | {section: [*right[section], wrong]}
    status, _, reason = refused(api.post("/api/definitions", document))
    assert status == 400
    assert reason.startswith(f"definitions: {section}[1] ")
    assert list(api.broker.vhosts) == ["/"]
    assert not api.broker.vhosts["/"].queues
    assert "x" not in api.broker.vhosts["/"].exchanges.by_name
    assert api.post("/api/definitions", right).status_code == 204


def test_a_file_to_keep(api: Api) -> None:
    """A browser is told what to call it; what is no file's name gets into no header."""
    response = api.get("/api/definitions?download=broker.json")
    assert response.headers["content-disposition"] == "attachment; filename=broker.json"
    assert refused(api.get("/api/definitions?download=a%0d%0ab"))[0] == 400
