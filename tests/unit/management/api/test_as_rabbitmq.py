"""What RabbitMQ's own tools, and clients written for it, send and expect where documentation says little."""

import pytest

from tests.unit.management.standing_in import Api, refused

MESSAGE = {"routing_key": "q", "payload": "hello", "payload_encoding": "string", "properties": {}}


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put("/api/queues/%2F/q", {"durable": True})
    return made


def test_the_default_exchange_by_its_empty_name(api: Api) -> None:
    """rabbitmqadmin publishes to it by two slashes in a row; what it leads to is found the same way."""
    assert api.post("/api/exchanges/%2F//publish", MESSAGE).json() == {"routed": True}
    assert api.found("/api/queues/%2F/q")["messages"] == 1
    (leads,) = api.found("/api/exchanges/%2F//bindings/source")
    assert (leads["source"], leads["destination"]) == ("", "q")
    assert api.post("/api/exchanges/%2F/amq.default/publish", MESSAGE).json() == {"routed": True}


def test_declarations_that_say_little(api: Api) -> None:
    """What is left out, or null, is as in AMQP 0-9-1: nothing is durable, and an exchange is direct."""
    assert api.put("/api/queues/%2F/bare", {}).status_code == 201
    assert api.put("/api/queues/%2F/bare", {"durable": None, "arguments": None}).status_code == 204
    queue = api.found("/api/queues/%2F/bare")
    assert (queue["durable"], queue["auto_delete"], queue["arguments"]) == (False, False, {})
    assert api.put("/api/exchanges/%2F/bare").status_code == 201
    exchange = api.found("/api/exchanges/%2F/bare")
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("direct", False, False)
    status, _, reason = refused(api.put("/api/queues/%2F/quorum", {"arguments": {"x-queue-type": "quorum"}}))
    assert (status, reason) == (400, "invalid property 'non-durable' for queue 'quorum' in vhost '/'")


def test_keys_that_are_null(api: Api) -> None:
    """A routing key of null is an empty one."""
    bound = api.post("/api/bindings/%2F/e/amq.fanout/q/q", {"routing_key": None, "arguments": None})
    assert bound.status_code == 201
    message = {**MESSAGE, "routing_key": None, "properties": None}
    assert api.post("/api/exchanges/%2F/amq.fanout/publish", message).json() == {"routed": True}
    assert "routing_key" in refused(api.post("/api/exchanges/%2F/amq.fanout/publish", {"payload": ""}))[2]


def test_properties_that_are_none(api: Api) -> None:
    """What is no property is left out, whatever it is; the others count."""
    properties = {"priority": 3, "x-unknown": [1], "Content-Type": "text/plain"}
    assert api.post("/api/exchanges/%2F//publish", {**MESSAGE, "properties": properties}).json() == {"routed": True}
    (shown,) = api.found("/api/queues/%2F/q/messages")["messages"]
    assert shown["properties"] == {"priority": 3}


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/index.html"])
def test_the_page_about_the_api(api: Api, path: str) -> None:
    """Whoever opens the API in a browser reads what it can do, without a login; no path in it is markup."""
    page = api.get(path, by=None)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<td><code>/api/queues/{vhost}/{name}</code></td>" in page.text


def test_the_page_about_the_command_line(api: Api) -> None:
    """RabbitMQ's place for rabbitmqadmin has a page that says where it is; the script itself is not here."""
    for path in ("/cli", "/cli/", "/cli/index.html"):
        assert "rabbitmqadmin" in api.get(path, by=None).text
    status, error, reason = refused(api.get("/cli/rabbitmqadmin", by=None))
    assert (status, error) == (404, "not_found")
    assert reason.startswith("rabbitmqadmin is a program of RabbitMQ's")
