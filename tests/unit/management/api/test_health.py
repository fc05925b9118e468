"""Health checks, the node and the overview by the HTTP API."""

import pytest

from tests.unit.management.fake_node import Alarmed, Api, Ending, Listening, refused, three_nodes

CHECKS = (
    *("alarms", "local-alarms", "virtual-hosts", "is-in-service", "ready-to-serve-clients", "node-is-quorum-critical"),
    "node-is-mirror-sync-critical",
    *("reached-target-cluster-size", "metadata-store/initialized", "metadata-store/initialized/with-data"),
    *("quorum-queues-without-elected-leaders/all-vhosts/", "quorum-queues-without-elected-leaders/vhost/%2F/"),
    *("port-listener/5672", "protocol-listener/amqp091", "certificate-expiration/4/weeks"),
)


@pytest.mark.parametrize("check", CHECKS)
def test_a_node_that_is_well(check: str) -> None:
    """Every check says so to whoever has a tag of management."""
    assert (
        Api().found(f"/api/health/checks/{check}", by="management" if "vhost/" not in check else "admin")["status"]
        == "ok"
    )


@pytest.mark.parametrize("check", ["alarms", "local-alarms"])
def test_alarms(check: str) -> None:
    """Load balancers see a 503, and people which alarm it is."""
    api = Api()
    api.node.alarms = [Alarmed("disk")]
    response = api.get(f"/api/health/checks/{check}")
    assert response.status_code == 503
    assert response.json()["status"] == "failed"
    assert response.json()["alarms"] == [{"resource": "disk", "node": "flintmq@test"}]


@pytest.mark.parametrize("check", ["virtual-hosts", "is-in-service", "ready-to-serve-clients", "alarms"])
def test_a_storage_that_failed(check: str) -> None:
    """A node that takes no durable work any more is not well."""
    api = Api()
    api.node.failure = "EIO"
    assert api.get(f"/api/health/checks/{check}").status_code == 503
    assert api.get("/api/aliveness-test/%2F").status_code == 503
    assert api.get("/api/healthchecks/node").status_code == 503


def test_listeners() -> None:
    """A check for listeners names the missing and the present ones."""
    api = Api()
    response = api.get("/api/health/checks/port-listener/5673")
    assert (response.status_code, response.json()) == (
        503,
        {"status": "failed", "reason": "No active listener", "missing": 5673, "ports": [5672]},
    )
    assert refused(api.get("/api/health/checks/port-listener/x")) == (400, "bad_request", "Invalid port")
    response = api.get("/api/health/checks/protocol-listener/amqp10,AMQPS,mqtt")
    assert response.status_code == 503
    assert response.json()["missing"] == ["amqp/ssl", "mqtt"]
    assert response.json()["protocols"] == ["amqp"]


def test_certificates() -> None:
    """A certificate that expires in time is reported for each listener that uses it."""
    api = Api()
    api.node.listeners.append(Listening("amqp/ssl", "127.0.0.1", 5671))
    day = 86_400_000
    api.node.endings = [Ending(api.node.now + 10 * day, "soon")]
    assert api.found("/api/health/checks/certificate-expiration/9/days") == {"status": "ok"}
    response = api.get("/api/health/checks/certificate-expiration/2/weeks")
    assert response.status_code == 503
    assert response.json()["expired"][0]["port"] == 5671
    assert response.json()["expired"][0]["certfile_expires_on"] == ["soon"]
    wrong = "Time unit not recognised. Supported units: days, weeks, months, years."
    assert refused(api.get("/api/health/checks/certificate-expiration/2/eons"))[2] == wrong
    assert refused(api.get("/api/health/checks/certificate-expiration/x/days"))[2] == "Invalid expiration value."


def test_the_limit_of_connections() -> None:
    """A node that takes no more says so: this one has one socket, and may have one."""
    assert Api().get("/api/health/checks/below-node-connection-limit").status_code == 503


def test_a_virtual_host_that_is_alive() -> None:
    """The old test of one, which has to be there."""
    api = Api()
    assert api.found("/api/aliveness-test/%2F") == {"status": "ok"}
    assert api.get("/api/aliveness-test/none").status_code == 404
    assert api.get("/api/aliveness-test/%2F", by="management").status_code == 404


def test_stalls_of_the_event_loop() -> None:
    """The node tells how long ticks took in the last minute, and how late the event loop was."""
    api = Api()
    for name, seconds in (("tick", 0.000_2), ("tick", 0.004), ("stall", 0.6)):
        api.node.timings[name].observe(seconds)
        api.node.last_minute[name].note_longest(seconds)
    node = api.found("/api/nodes/flintmq@test")
    assert node["tick_seconds"] == {"p50": 0.000_25, "p99": 0.005, "longest": 0.004}
    assert node["loop_stall_seconds"] == {"p50": 1.0, "p99": 1.0, "longest": 0.6}


def test_the_node() -> None:
    """The node's fields that dashboards read, for users with the tag monitoring."""
    api = Api()
    api.node.alarms = [Alarmed("memory")]
    (node,) = api.found("/api/nodes", by="monitoring")
    assert api.found("/api/nodes/flintmq@test")["name"] == node["name"] == "flintmq@test"
    assert (node["running"], node["mem_alarm"], node["disk_free_alarm"]) == (True, True, False)
    assert node["uptime"] == api.node.now - api.node.started_ms
    assert api.found("/api/nodes/flintmq@test?columns=name") == {"name": "flintmq@test"}
    assert api.get("/api/nodes/other").status_code == 404
    assert api.post("/api/rebalance/queues").status_code == 204
    assert api.post("/api/rebalance/queues", by="monitoring").status_code == 401
    assert refused(api.get("/api/nodes", by="management")) == (401, "not_authorised", "Not monitor user")


def test_memory_by_kinds() -> None:
    """RabbitMQ's tools refuse an answer without all of its kinds; they come to the whole."""
    api = Api()
    memory = api.found("/api/nodes/flintmq@test/memory")["memory"]
    assert memory.pop("total") == {"rss": 1, "allocated": 1, "erlang": 1}
    assert memory.pop("strategy") == "rss"
    assert {"connection_readers", "queue_procs", "metadata_store_ets", "other_ets", "binary", "code"} < set(memory)
    assert sum(memory.values()) == memory["other_system"] == 1
    relative = api.found("/api/nodes/flintmq@test/memory/relative")["memory"]
    assert relative.pop("total") == sum(relative.values()) == 100
    assert set(relative) == set(memory)
    for path in ("memory", "memory/relative"):
        assert api.get(f"/api/nodes/other/{path}").status_code == 404


def test_the_overview() -> None:
    """Listeners and the like are for those who monitor."""
    api = Api()
    api.node.listeners.append(Listening("http", "127.0.0.1", 15672))
    found = api.found("/api/overview")
    assert found["rabbitmq_version"] == "4.3.0"
    assert found["object_totals"]["exchanges"] > 0
    assert found["listeners"][0]["port"] == 5672
    assert (found["default_queue_type"], found["rates_mode"]) == ("classic", "basic")
    assert [each["port"] for each in found["contexts"]] == [15672]
    assert found["churn_rates"]["queue_created"] == 0
    assert api.put("/api/queues/%2F/q", {"durable": True}).status_code == 201
    assert api.found("/api/overview")["churn_rates"]["queue_created"] == 1
    assert not {"listeners", "churn_rates"} & set(api.found("/api/overview", by="management"))
    assert api.found("/api/overview", by="management")["object_totals"]["exchanges"] == 0


def test_a_form() -> None:
    """A page with a form may ask whose name and password these are; the answer has no password."""
    api = Api()
    body = b"username=admin&password=admin"
    response = api.request("POST", "/api/login", by=None, content=body)
    assert response.json() == {"name": "admin", "tags": ["administrator"], "is_internal_user": True}
    assert api.request("POST", "/api/login", by=None, content=b"username=admin&password=x").status_code == 401
    assert api.request("POST", "/api/login", by=None, content=b"username=nobody&password=nobody").status_code == 401
    assert api.request("POST", "/api/login", by=None, content=b"x" * 5_000).status_code == 413
    assert api.request("POST", "/api/login", by=None, content=b"x").status_code == 401


def test_hashing_a_password() -> None:
    """For whoever writes definitions."""
    assert Api().found("/api/auth/hash_password/a%2Fb") == {"ok": "salted a/b"}
    assert Api().get("/api/auth/hash_password/x", by="monitoring").status_code == 401


def test_nodes_of_a_cluster() -> None:
    """All nodes are listed: the one that answers with its measures, others with what it knows of them."""
    api = Api()
    api.node.cluster = three_nodes()
    following, dead, this = api.found("/api/nodes", by="monitoring")
    assert following == {
        "name": "flintmq@b",
        "type": "disc",
        "running": True,
        "partitions": [],
        "is_leader": False,
        "is_in_sync": True,
        "behind_bytes": 300,
        "behind_seconds": 0.25,
        "address": "10.0.0.2:5670",
        "version": "1.2.2",
    }
    assert (dead["name"], dead["running"], dead["is_in_sync"]) == ("flintmq@c", False, False)
    assert (dead["behind_bytes"], dead["behind_seconds"]) == (None, None)
    assert (this["name"], this["running"], this["is_leader"]) == ("flintmq@test", True, True)
    assert (this["mem_used"], this["behind_bytes"]) == (1, 0)
    assert api.found("/api/nodes/flintmq@b") == following
    assert api.get("/api/nodes/flintmq@d").status_code == 404
    for path in ("memory", "memory/relative"):
        assert api.found(f"/api/nodes/flintmq@b/{path}") == {"memory": "not_available"}
        assert api.found(f"/api/nodes/flintmq@test/{path}")["memory"]["total"]
        assert api.get(f"/api/nodes/flintmq@d/{path}").status_code == 404
    furthest, *_ = api.found("/api/nodes?sort=behind_bytes&sort_reverse=true")
    assert furthest["name"] == "flintmq@b"


def test_a_node_without_a_cluster_has_no_fields_of_one() -> None:
    """Its answers are the same as before there were clusters."""
    api = Api()
    (node,) = api.found("/api/nodes")
    assert not {"is_leader", "is_in_sync", "behind_bytes", "behind_seconds", "address", "version"} & set(node)
    assert "cluster" not in api.found("/api/overview")
    assert api.found("/api/cluster-name") == {"name": "flintmq@test"}


def test_the_overview_of_a_cluster() -> None:
    """It has the cluster's name, and how many of its nodes are in sync; an administrator may name it otherwise."""
    api = Api()
    api.node.cluster = three_nodes()
    api.node.shortage = "1 node is in sync"
    found = api.found("/api/overview", by="management")
    assert found["cluster_name"] == api.found("/api/cluster-name")["name"] == "c1"
    assert found["cluster"] == {
        "term": 7,
        "nodes": 3,
        "in_sync": 2,
        "min_in_sync": 2,
        "shortage": "1 node is in sync",
    }
    assert api.put("/api/cluster-name", {"name": "ours"}).status_code == 204
    assert api.found("/api/overview")["cluster_name"] == "ours"


def test_queues_of_a_cluster() -> None:
    """Replicated types name the leader, all nodes, and those that have everything; a classic queue names its node."""
    api = Api()
    api.node.cluster = three_nodes()
    assert api.put("/api/queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}}).status_code == 201
    assert api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}).status_code == 201
    assert api.put("/api/queues/%2F/c", {"durable": True}).status_code == 201
    classic, *replicated = api.found("/api/queues")
    assert classic["node"] == "flintmq@test"
    assert "leader" not in classic
    for queue in replicated:
        assert queue["node"] == queue["leader"] == "flintmq@test"
        assert queue["members"] == ["flintmq@b", "flintmq@c", "flintmq@test"]
        assert queue["online"] == ["flintmq@b", "flintmq@test"]
    assert api.found("/api/queues/%2F/q")["online"] == ["flintmq@b", "flintmq@test"]


def test_a_node_that_must_not_be_shut_down() -> None:
    """If one node less would end confirms, the check fails and names the durable queues that the caller may see."""
    check = "/api/health/checks/node-is-quorum-critical"
    api = Api()
    api.put("/api/queues/%2F/q", {"durable": True})
    api.put("/api/queues/%2F/transient", {"durable": False})
    api.node.cluster = three_nodes("abc")
    assert api.found(check) == {"status": "ok"}
    api.node.cluster = three_nodes("ab")
    response = api.get(check)
    assert response.status_code == 503
    assert response.json()["status"] == "failed"
    assert "not be confirmed" in response.json()["reason"]
    assert response.json()["queues"] == [
        {"readable_name": "queue 'q' in vhost '/'", "name": "q", "virtual_host": "/", "type": "classic"}
    ]
    assert api.get(check, by="management").json()["queues"] == []
    api.node.cluster = three_nodes("ab", min_in_sync=1)
    assert api.found(check) == {"status": "ok"}


@pytest.mark.parametrize("check", ["alarms", "local-alarms"])
def test_publishers_that_wait_for_other_nodes(check: str) -> None:
    """Too few nodes in sync is an alarm: it is told with its reason, and HTTP publishes nothing meanwhile."""
    api = Api()
    api.put("/api/queues/%2F/q", {"durable": True})
    api.node.cluster = three_nodes("a")
    api.node.shortage = "1 of 2 nodes is in sync"
    response = api.get(f"/api/health/checks/{check}")
    assert response.status_code == 503
    assert response.json()["alarms"] == [
        {"resource": "cluster", "node": "flintmq@test", "reason": "1 of 2 nodes is in sync"}
    ]
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    published = api.post("/api/exchanges/%2F/amq.default/publish", message)
    assert published.status_code == 503
    assert published.json()["reason"].startswith("1 of 2 nodes is in sync: ")
