"""Health checks, the node and the overview by the HTTP API."""

import pytest

from tests.unit.management.fake_node import Alarmed, Api, Ending, Listening, refused

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
