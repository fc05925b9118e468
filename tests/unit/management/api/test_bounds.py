"""The API accepts only what AMQP 0-9-1 could carry: names, keys, properties and arguments have the same bounds."""

import pytest

from flintmq.base.limits import ARGUMENTS_MAX_BYTES
from flintmq.broker.message import Address, Message
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.management.fake_node import BODY_MAX_BYTES, Alarmed, Api, refused

LONG = "n" * 256
ENTERED = {"pattern": ".*", "definition": {"max-length": 1}, "apply-to": "queues"}
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put("/api/queues/%2F/q", {"durable": True})
    made.put("/api/exchanges/%2F/f", {"type": "fanout", "durable": True})
    made.post("/api/bindings/%2F/e/f/q/q", {})
    return made


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"/api/queues/%2F/{LONG}", {"durable": True}),
        ("PUT", f"/api/exchanges/%2F/{LONG}", {"type": "fanout"}),
        ("POST", "/api/bindings/%2F/e/f/q/q", {"routing_key": LONG}),
        ("POST", "/api/bindings/%2F/e/f/e/amq.topic", {"routing_key": LONG}),
        ("PUT", "/api/queues/%2F/p", {"arguments": {LONG: 1}}),
        ("PUT", "/api/queues/%2F/p", {"arguments": {"x": {LONG: 1}}}),
        ("PUT", "/api/exchanges/%2F/x", {"type": "fanout", "arguments": {LONG: 1}}),
        ("POST", "/api/bindings/%2F/e/f/q/q", {"arguments": {LONG: 1}}),
        ("PUT", f"/api/vhosts/{LONG}", {}),
        ("PUT", f"/api/users/{LONG}", {"password": "p", "tags": ""}),
        ("PUT", f"/api/policies/%2F/{LONG}", ENTERED),
        ("PUT", f"/api/operator-policies/%2F/{LONG}", ENTERED),
        ("PUT", f"/api/global-parameters/{LONG}", {"value": 1}),
        ("PUT", "/api/topic-permissions/%2F/admin", {"exchange": LONG, "write": ".*", "read": ".*"}),
        ("POST", "/api/definitions", {"queues": [{"name": LONG, "vhost": "/"}]}),
        ("POST", "/api/definitions", {"exchanges": [{"name": LONG, "vhost": "/", "type": "fanout"}]}),
        ("POST", "/api/definitions", {"vhosts": [{"name": LONG}]}),
        ("POST", "/api/definitions", {"users": [{"name": LONG, "password_hash": "", "tags": ""}]}),
        ("POST", "/api/definitions", {"queues": [{"name": "p", "vhost": "/", "arguments": {LONG: 1}}]}),
        ("POST", "/api/definitions", {"policies": [{**ENTERED, "name": LONG, "vhost": "/"}]}),
        ("POST", "/api/definitions", {"parameters": [{"name": LONG, "vhost": "/", "component": "c", "value": 1}]}),
        (
            "POST",
            "/api/definitions",
            {"bindings": [{"source": "f", "vhost": "/", "destination": "q", "routing_key": LONG}]},
        ),
    ],
)
def test_names_too_long(api: Api, method: str, path: str, body: object) -> None:
    """A name or a key of more than 255 bytes is refused with a reason."""
    before = api.found("/api/definitions")
    status, error, reason = refused(api.request(method, path, body))
    assert (status, error) == (400, "bad_request")
    assert "has 256 bytes in UTF-8" in reason
    assert api.found("/api/definitions") == before


@pytest.mark.parametrize("longest", ["n" * 255, "é" * 127])
def test_the_longest_names(api: Api, longest: str) -> None:
    """A name of 255 bytes is accepted."""
    assert api.put(f"/api/queues/%2F/{longest}", {"durable": True}).status_code == 201
    assert api.post(f"/api/bindings/%2F/e/f/q/{longest}", {"routing_key": longest}).status_code == 201
    message = {"routing_key": longest, "payload": "", "payload_encoding": "string"}
    assert api.post("/api/exchanges/%2F/f/publish", message).json() == {"routed": True}


@pytest.mark.parametrize(
    "changed",
    [
        {"routing_key": LONG},
        {"properties": {"headers": {LONG: 1}}},
        {"properties": {"headers": {"h": "x" * 1000}}},
        {"properties": {"content_type": LONG}},
        {"properties": {"headers": {"h": 2**64}}},
        {"properties": {"delivery_mode": 256}},
    ],
)
def test_messages_that_nobody_could_be_sent(api: Api, changed: dict[str, object]) -> None:
    """A message whose properties do not fit into a frame is refused, and no queue gets it."""
    message = {"routing_key": "", "payload": "", "payload_encoding": "string", **changed}
    assert refused(api.post("/api/exchanges/%2F/f/publish", message))[:2] == (400, "bad_request")
    assert api.found("/api/queues/%2F/q")["messages"] == 0


def test_arguments_too_large() -> None:
    """No more than a frame holds, which is what a client of AMQP 0-9-1 could send: of a queue, an exchange, a binding,
    a policy, a parameter, and a virtual host.
    """
    api = Api(body_max_bytes=4 * BODY_MAX_BYTES)
    api.put("/api/queues/%2F/q", {"durable": True})
    large = {"x-large": "x" * ARGUMENTS_MAX_BYTES}
    for method, path, body in (
        ("PUT", "/api/queues/%2F/p", {"arguments": large}),
        ("PUT", "/api/exchanges/%2F/x", {"type": "fanout", "arguments": large}),
        ("POST", "/api/bindings/%2F/e/amq.topic/q/q", {"arguments": large}),
        ("PUT", "/api/global-parameters/n", {"value": large}),
        ("PUT", "/api/vhosts/v", {"description": large["x-large"]}),
        ("PUT", "/api/policies/%2F/p", {**ENTERED, "definition": {"ha-params": large["x-large"]}}),
        ("POST", "/api/definitions", {"queues": [{"name": "p", "vhost": "/", "arguments": large}]}),
        ("POST", "/api/definitions", {"parameters": [{"name": "p", "vhost": "/", "component": "c", "value": large}]}),
    ):
        status, _, reason = refused(api.request(method, path, body))
        assert (status, "larger than the limit of" in reason) == (400, True), (path, reason)
    assert set(api.broker.vhosts["/"].queues) == {"q"}


def test_a_history_that_a_publisher_wrote(api: Api) -> None:
    """A dead letter whose history names a longer key than there may be is driven back without it."""
    vhost = api.broker.vhosts["/"]
    api.put("/api/queues/%2F/d", {"durable": True, "arguments": {"x-dead-letter-exchange": "f"}})
    api.post("/api/bindings/%2F/e/f/q/d", {})
    death = {"queue": "d", "reason": "rejected", "exchange": "f", "routing-keys": [LONG]}
    encoded = encode_properties(Properties(headers={"x-death": [death]}))
    vhost.deliver(
        Message(Address("f", ""), CODEC_091, encoded, b"m", CODEC_091.options(encoded), 0), [vhost.queues["q"]]
    )
    assert api.post("/api/queues/%2F/q/redrive", {}).json()["redriven"] == 1
    (shown,) = api.found("/api/queues/%2F/d/messages")["messages"]
    assert (shown["exchange"], shown["routing_key"]) == ("", "d")


def test_declarations_wait_for_room(api: Api) -> None:
    """While an alarm is on, what is new is refused with a 503; what is there already may be declared again, policies
    may be made that give room, and all may be deleted.
    """
    api.node.alarms = [Alarmed("memory")]
    for method, path, body in (
        ("PUT", "/api/queues/%2F/p", {"durable": True}),
        ("PUT", "/api/exchanges/%2F/x", {"type": "fanout"}),
        ("POST", "/api/bindings/%2F/e/f/q/q", {"routing_key": "another"}),
        ("POST", "/api/bindings/%2F/e/f/e/amq.topic", {}),
        ("POST", "/api/definitions", {"queues": []}),
        ("POST", "/api/definitions/%2F", {"queues": []}),
    ):
        status, error, reason = refused(api.request(method, path, body))
        assert (status, error) == (503, "service_unavailable")
        assert reason.startswith("the memory alarm is on")
    assert api.put("/api/queues/%2F/q", {"durable": True}).status_code == 204
    assert api.put("/api/exchanges/%2F/f", {"type": "fanout", "durable": True}).status_code == 204
    assert api.post("/api/bindings/%2F/e/f/q/q", {}).status_code == 201
    assert api.put("/api/policies/%2F/p", ENTERED).status_code == 201
    assert api.delete("/api/queues/%2F/q").status_code == 204
    api.node.alarms = []
    assert api.put("/api/queues/%2F/p", {"durable": True}).status_code == 201
