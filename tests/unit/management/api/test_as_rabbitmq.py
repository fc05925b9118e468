"""Requests and answers of RabbitMQ's own tools and clients, where its documentation says little."""

import asyncio

import pytest

from tests.unit.broker.memory import got
from tests.unit.management.fake_node import Api, refused

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
    """Missing and null fields have AMQP 0-9-1's defaults: not durable, and a direct exchange."""
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
    """Unknown properties of a message are ignored; the others are used."""
    properties = {"priority": 3, "x-unknown": [1], "Content-Type": "text/plain"}
    assert api.post("/api/exchanges/%2F//publish", {**MESSAGE, "properties": properties}).json() == {"routed": True}
    (shown,) = api.found("/api/queues/%2F/q/messages")["messages"]
    assert shown["properties"] == {"priority": 3}


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/index.html"])
def test_the_page_about_the_api(api: Api, path: str) -> None:
    """The page about the API needs no login, and paths in it are escaped."""
    page = api.get(path, by=None)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<td><code>/api/queues/{vhost}/{name}</code></td>" in page.text


def test_the_page_about_the_command_line(api: Api) -> None:
    """RabbitMQ's place for rabbitmqadmin has a page that says where it is; the script itself is not here."""
    for path in ("/cli", "/cli/", "/cli/index.html"):
        assert "rabbitmqadmin" in api.get(path, by=None).text
    status, error, reason = refused(api.get("/cli/rabbitmqadmin", by=None))
    assert (status, error) == (404, "not_found")
    assert reason.startswith("rabbitmqadmin is part of RabbitMQ")


def test_what_a_queue_holds_that_lasts(api: Api) -> None:
    """Persistent messages and their bytes, in a client's hands or not; none on a queue that does not last."""
    api.put("/api/queues/%2F/short", {})
    for key in ("q", "short"):
        for mode, payload in ((2, "kept"), (1, "not"), (2, "too")):
            message = {"routing_key": key, "payload": payload, "payload_encoding": "string"}
            api.post("/api/exchanges/%2F//publish", {**message, "properties": {"delivery_mode": mode}})
    got(api.broker.vhosts["/"].queues["q"])
    shown = api.found("/api/queues/%2F/q")
    assert (shown["messages"], shown["messages_persistent"], shown["message_bytes_persistent"]) == (3, 2, 7)
    shown = api.found("/api/queues/%2F/short")
    assert (shown["messages"], shown["messages_persistent"], shown["message_bytes_persistent"]) == (3, 0, 0)
    api.delete("/api/queues/%2F/q/contents")
    assert api.found("/api/queues/%2F/q")["messages_persistent"] == 1
    api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    api.post("/api/exchanges/%2F//publish", {**MESSAGE, "routing_key": "s"})
    assert api.found("/api/queues/%2F/s")["messages_persistent"] == 1


def test_the_time_of_the_message_at_the_head(api: Api) -> None:
    """In seconds, of the message that is next; null where there is none, or it says none."""
    assert api.found("/api/queues/%2F/q")["head_message_timestamp"] is None
    for timestamp in (1_700_000_000, 1_700_000_001):
        api.post("/api/exchanges/%2F//publish", {**MESSAGE, "properties": {"timestamp": timestamp}})
    assert api.found("/api/queues/%2F/q")["head_message_timestamp"] == 1_700_000_000
    queue = api.broker.vhosts["/"].queues["q"]
    entry = got(queue)
    assert entry is not None
    assert api.found("/api/queues/%2F/q")["head_message_timestamp"] == 1_700_000_001
    api.delete("/api/queues/%2F/q/contents")
    api.post("/api/exchanges/%2F//publish", MESSAGE)
    assert api.found("/api/queues")[0]["head_message_timestamp"] is None


def test_how_long_a_queue_was_idle(api: Api) -> None:
    """Since the last sample before which something came, went, or was taken, with messages on it or not."""

    def sample() -> None:
        asyncio.run(api.stats.sample())
        api.node.now += 5_000

    assert "idle_since" not in api.found("/api/queues/%2F/q")
    sample()
    assert api.found("/api/queues/%2F/q")["idle_since"] == "2023-11-14T22:13:20.000+00:00"
    api.post("/api/exchanges/%2F//publish", MESSAGE)
    assert "idle_since" not in api.found("/api/queues/%2F/q")
    sample()
    sample()
    assert api.found("/api/queues/%2F/q")["idle_since"] == "2023-11-14T22:13:25.000+00:00"
