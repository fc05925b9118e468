"""Virtual hosts by the HTTP API."""

import asyncio

from tests.unit.management.fake_node import Api, refused


def test_a_virtual_host_is_made_changed_and_deleted() -> None:
    """201 makes it, 204 changes what is said; what is not said stays."""
    api = Api()
    made = api.put("/api/vhosts/a%2Fb", {"description": "words", "tags": "x,y", "default_queue_type": "quorum"})
    assert made.status_code == 201
    assert made.content == b""
    shown = api.found("/api/vhosts/a%2Fb")
    assert {name: value for name, value in shown.items() if not name.startswith("message")} == {
        "name": "a/b",
        "description": "words",
        "tags": ["x", "y"],
        "default_queue_type": "quorum",
        "metadata": {"description": "words", "tags": ["x", "y"], "default_queue_type": "quorum"},
        "cluster_state": {"flintmq@test": "running"},
        "dialect": "rabbitmq",
        "tracing": False,
        "protected_from_deletion": False,
    }
    assert api.put("/api/vhosts/a%2Fb", {"description": "others"}).status_code == 204
    record = api.broker.vhosts["a/b"].record
    assert (record.description, record.tags, record.default_queue_type) == ("others", ("x", "y"), "quorum")
    assert api.put("/api/vhosts/a%2Fb", {"tracing": True}).status_code == 204
    assert api.found("/api/vhosts/a%2Fb")["tracing"] is True
    assert api.put("/api/vhosts/a%2Fb").status_code == 204
    assert api.found("/api/vhosts/a%2Fb")["tracing"] is True
    assert api.put("/api/vhosts/a%2Fb", {"default_queue_type": "undefined"}).status_code == 204
    assert api.found("/api/vhosts/a%2Fb")["default_queue_type"] == "classic"
    assert api.delete("/api/vhosts/a%2Fb").status_code == 204
    assert refused(api.get("/api/vhosts/a%2Fb")) == (404, "Object Not Found", "Not Found")
    assert refused(api.delete("/api/vhosts/a%2Fb")) == (404, "Object Not Found", "Not Found")


def test_who_makes_one_may_go_on_in_it() -> None:
    """Tools make a virtual host and what is to be in it with one login; what is there stays as it is."""
    api = Api()
    assert api.put("/api/vhosts/new").status_code == 201
    all_of_it = {"user": "admin", "vhost": "new", "configure": ".*", "write": ".*", "read": ".*"}
    assert api.found("/api/vhosts/new/permissions") == [all_of_it]
    assert api.put("/api/queues/new/q", {"durable": True}).status_code == 201
    assert api.found("/api/vhosts/new")["metadata"]["default_queue_type"] == "classic"
    assert api.delete("/api/permissions/new/admin").status_code == 204
    assert api.put("/api/vhosts/new", {"description": "d"}).status_code == 204
    assert api.found("/api/vhosts/new/permissions") == []


def test_what_is_in_it_and_passes() -> None:
    """A virtual host tells how many messages it holds, how many passed, and their rates between two looks."""
    api = Api()
    api.put("/api/queues/%2F/q", {"durable": True})
    assert api.found("/api/vhosts/%2F")["messages"] == 0
    asyncio.run(api.stats.sample())
    for _ in range(10):
        body = {"routing_key": "q", "payload": "m", "payload_encoding": "string", "properties": {}}
        assert api.post("/api/exchanges/%2F/amq.default/publish", body).json() == {"routed": True}
    api.node.now += 5_000
    asyncio.run(api.stats.sample())
    (shown,) = api.found("/api/vhosts")
    assert (shown["messages_ready"], shown["messages_ready_details"]) == (10, {"rate": 2.0})
    assert (shown["message_stats"]["publish"], shown["message_stats"]["publish_details"]) == (10, {"rate": 2.0})


def test_what_cannot_be() -> None:
    """A queue type there is not makes no virtual host."""
    api = Api()
    assert refused(api.put("/api/vhosts/x", {"default_queue_type": "what"}))[:2] == (400, "bad_request")
    assert refused(api.put("/api/vhosts/x", {"dialect": "what"}))[:2] == (400, "bad_request")
    assert "x" not in api.broker.vhosts


def test_who_sees_which() -> None:
    """Users see the virtual hosts that they have permissions in, or all with the tag monitoring; administrators change
    them.
    """
    api = Api()
    api.broker.add_vhost("v")
    api.user("in_v", "management", vhosts=("v",))
    assert [each["name"] for each in api.found("/api/vhosts", by="monitoring")] == ["/", "v"]
    assert [each["name"] for each in api.found("/api/vhosts", by="in_v")] == ["v"]
    assert api.found("/api/vhosts", by="management") == []
    assert refused(api.get("/api/vhosts/v", by="management")) == (404, "not_found", "Not Found")
    assert refused(api.put("/api/vhosts/w", by="in_v")) == (401, "not_authorised", "Not administrator user")
    assert refused(api.delete("/api/vhosts/v", by="in_v")) == (401, "not_authorised", "Not administrator user")


def test_it_runs_already() -> None:
    """Starting one on the node is no fault, and there is no other node."""
    api = Api()
    assert api.post("/api/vhosts/%2F/start/flintmq@test").status_code == 204
    assert refused(api.post("/api/vhosts/%2F/start/other")) == (400, "bad_request", "Unknown node: other")


def test_a_change_is_answered_when_it_is_durable() -> None:
    """A node whose storage failed takes none."""
    api = Api()
    api.node.failure = "EIO"
    assert refused(api.put("/api/vhosts/x")) == (503, "service_unavailable", "EIO")


def test_a_firehose_goes_with_its_virtual_host() -> None:
    """The broker is told to trace it no more, which it would do for as long as it runs."""
    api = Api()
    assert api.put("/api/vhosts/traced", {"tracing": True}).status_code == 201
    vhost = api.broker.vhosts["traced"]
    assert vhost.traced
    assert api.delete("/api/vhosts/traced").status_code == 204
    assert not vhost.traced
