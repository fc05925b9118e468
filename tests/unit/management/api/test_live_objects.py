"""Queues, exchanges and bindings over HTTP: declared, listed, published to, taken from, deleted, as RabbitMQ does."""

import asyncio
from base64 import b64decode
from urllib.parse import quote

import pytest

from flintmq.broker.message import Address, Message
from flintmq.broker.ports import PermissionRecord
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.tracing import Tracing
from tests.unit.broker.memory import got
from tests.unit.management.fake_node import Api, refused

Q = "/api/queues/%2F/q"


@pytest.fixture
def api() -> Api:
    made = Api()
    assert made.put(Q, {"durable": True}).status_code == 201
    return made


def publish(api: Api, payload: str, key: str = "q", exchange: str = "amq.default", **properties: object) -> bool:
    body = {"routing_key": key, "payload": payload, "payload_encoding": "string", "properties": properties}
    response = api.post(f"/api/exchanges/%2F/{exchange}/publish", body)
    assert response.status_code == 200, response.text
    routed: bool = response.json()["routed"]
    return routed


def test_declaring_twice(api: Api) -> None:
    """An equal declaration changes nothing; a different one is refused with RabbitMQ's text."""
    assert api.put(Q, {"durable": True}).status_code == 204
    status, error, reason = refused(api.put(Q, {"durable": False}))
    assert (status, error) == (400, "bad_request")
    assert "inequivalent arg 'durable' for queue 'q' in vhost '/'" in reason


def test_what_is_said_of_a_queue(api: Api) -> None:
    """A queue's fields include ready messages, their bytes, the published messages, and the policy."""
    publish(api, "one")
    publish(api, "three")
    got(api.broker.vhosts["/"].queues["q"])
    shown = api.found(Q)
    assert (shown["messages"], shown["messages_ready"], shown["messages_unacknowledged"]) == (2, 1, 1)
    assert (shown["message_bytes_ready"], shown["message_bytes_unacknowledged"]) == (5, 3)
    assert (shown["message_stats"]["publish"], shown["message_stats"]["deliver_get"]) == (2, 1)
    assert (shown["type"], shown["state"], shown["node"], shown["policy"]) == (
        "classic",
        "running",
        "flintmq@test",
        None,
    )


def test_rates_are_made_of_two_looks(api: Api) -> None:
    """A rate is the growth between two rounds of sampling per second; idle objects have the rate 0."""

    def sample() -> None:
        asyncio.run(api.stats.sample())

    sample()
    for _ in range(10):
        publish(api, "m")
    api.node.now += 5_000
    sample()
    stats = api.found(Q)["message_stats"]
    assert (stats["publish"], stats["publish_details"]["rate"]) == (10, 2.0)
    assert api.found(Q)["messages_details"]["rate"] == 2.0
    assert api.found("/api/exchanges/%2F/amq.default")["message_stats"]["publish_in_details"]["rate"] == 2.0
    assert api.stats.total.rates[0] == 2.0
    api.node.now += 5_000
    sample()
    assert api.found(Q)["message_stats"]["publish_details"]["rate"] == 0.0


def test_getting_messages(api: Api) -> None:
    """Shown as RabbitMQ shows them; whether they stay is said by the ackmode."""
    publish(api, "text", content_type="text/plain", headers={"a": 1})
    request = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    ((got,),) = [api.post(f"{Q}/get", request).json()]
    assert (got["payload"], got["payload_encoding"], got["payload_bytes"], got["redelivered"]) == (
        *("text", "string", 4),
        False,
    )
    assert got["properties"] == {"content_type": "text/plain", "headers": {"a": 1}}
    (again,) = api.post(f"{Q}/get", {**request, "ackmode": "ack_requeue_false", "encoding": "base64"}).json()
    assert (again["payload"], again["payload_encoding"], again["redelivered"]) == ("dGV4dA==", "base64", True)
    assert api.found(Q)["messages"] == 0
    assert refused(api.post(f"{Q}/get", {**request, "ackmode": "perhaps"}))[0] == 400
    assert refused(api.post(f"{Q}/get", {**request, "count": 100_000}))[0] == 400


def test_what_is_no_text_is_shown_in_base64(api: Api) -> None:
    """A body that is not UTF-8 is shown in base64, also if the shown part would be text except its end."""
    body = {"routing_key": "q", "payload": "/w==", "payload_encoding": "base64", "properties": {}}
    assert api.post("/api/exchanges/%2F/amq.default/publish", body).json() == {"routed": True}
    publish(api, "äöü")
    request = {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 3}
    first, second = api.post(f"{Q}/get", request).json()
    assert (first["payload"], first["payload_encoding"]) == ("/w==", "base64")
    assert (second["payload"], second["payload_encoding"], second["payload_bytes"]) == ("ä", "string", 6)


@pytest.mark.parametrize("truncate", [None, 100_001, 150_000])
@pytest.mark.parametrize(
    ("body", "encoding"),
    [('äöü\n"' * 30_000, "string"), (b"\x00\xff" * 70_001, "base64"), ("a" * 199_999 + "ä", "string")],
)
def test_large_payloads(api: Api, body: str | bytes, encoding: str, truncate: int | None) -> None:
    """Written piece by piece they are the same as in one piece."""
    data = body.encode() if isinstance(body, str) else body
    put_message(api, data)
    request = {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": truncate}
    (got,) = api.post(f"{Q}/get", request).json()
    assert (got["payload_bytes"], got["payload_encoding"]) == (len(data), encoding)
    part = data[:truncate]
    if encoding == "string":
        assert got["payload"] == part.decode(errors="ignore")
    else:
        assert b64decode(got["payload"]) == part
    (got,) = api.post(f"{Q}/get", {**request, "encoding": "base64"}).json()
    assert b64decode(got["payload"]) == part


def put_message(api: Api, body: bytes) -> None:
    vhost = api.broker.vhosts["/"]
    message = Message(Address("", "q"), CODEC_091, b"\0\0", body, CODEC_091.options(b"\0\0"), 0)
    vhost.deliver(message, [vhost.queues["q"]])


@pytest.mark.parametrize("mode", ["ack_requeue_false", "reject_requeue_false", "ack_requeue_true"])
def test_what_could_not_be_shown_stays(api: Api, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are settled only after the answer was built; if that fails, all of them go back."""
    for number in range(3):
        publish(api, str(number))

    def fail(properties: object) -> None:
        if api.broker.vhosts["/"].queues["q"].message_count == 0:
            raise ValueError("cannot be shown")

    monkeypatch.setattr("flintmq.management.api.queues.properties_shown", fail)
    request = {"count": 3, "ackmode": mode, "encoding": "auto"}
    assert api.post(f"{Q}/get", request).status_code == 500
    found = api.found(Q)
    assert (found["messages_ready"], found["messages_unacknowledged"]) == (3, 0)


@pytest.mark.parametrize(
    "change",
    [{"payload_encoding": "rot13"}, {"properties": {"expiration": "soon"}},
     {"properties": {"headers": {"n": 2**70}}}, {"payload": "?", "payload_encoding": "base64"}],
)  # fmt: skip
def test_messages_that_cannot_be(api: Api, change: dict[str, object]) -> None:
    """A message that says nonsense is refused with the reason, and nothing is published."""
    body = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}, **change}
    assert refused(api.post("/api/exchanges/%2F/amq.default/publish", body))[0] == 400
    assert api.found(Q)["messages"] == 0


def test_an_unroutable_message(api: Api) -> None:
    """An unroutable message is not an error; an exchange that does not exist is one."""
    assert not publish(api, "m", "nowhere")
    body = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    assert refused(api.post("/api/exchanges/%2F/none/publish", body))[0] == 404


def test_copies_by_headers(api: Api) -> None:
    """CC and BCC name further routing keys; nobody sees BCC."""
    api.put("/api/queues/%2F/other", {"durable": True})
    publish(api, "m", "nowhere", headers={"CC": ["q"], "BCC": ["other"]})
    request = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (got,) = api.post("/api/queues/%2F/other/get", request).json()
    assert got["properties"]["headers"] == {"CC": ["q"]}
    assert api.found(Q)["messages"] == 1


def test_deleting(api: Api) -> None:
    """Only if it is empty, where that is asked for; purging makes it so."""
    publish(api, "m")
    assert refused(api.delete(f"{Q}?if-empty=true"))[0] == 400
    assert api.delete(f"{Q}/contents").status_code == 204
    assert api.delete(f"{Q}?if-empty=true&if-unused=true").status_code == 204
    assert refused(api.get(Q))[0] == 404


def test_pausing(api: Api) -> None:
    """A paused queue says so, and gives nothing out."""
    publish(api, "m")
    assert api.post(f"{Q}/actions", {"action": "pause"}).status_code == 204
    assert api.found(Q)["paused"] is True
    assert api.post(f"{Q}/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}).json() == []
    assert api.post(f"{Q}/actions", {"action": "resume"}).status_code == 204
    assert api.found(Q)["paused"] is False
    assert refused(api.post(f"{Q}/actions", {"action": "dance"}))[0] == 400
    acts = [(act.action, act.name, bool(act.refusal)) for act in api.node.events if act.name == "q"]
    assert acts[-3:] == [("queue.pause", "q", False), ("queue.resume", "q", False), ("queue.action", "q", True)]


def test_a_queue_that_a_connection_has_for_itself(api: Api) -> None:
    """An exclusive queue is listed, but nothing else can be done with it over HTTP."""
    api.broker.vhosts["/"].declare_queue("mine", False, True, False, {}, object())
    assert api.found("/api/queues/%2F/mine")["exclusive"] is True
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for response in (
        api.delete("/api/queues/%2F/mine"),
        api.delete("/api/queues/%2F/mine/contents"),
        api.post("/api/queues/%2F/mine/get", get),
        api.put("/api/queues/%2F/mine", {"durable": False}),
    ):
        status, _, reason = refused(response)
        assert status == 400
        assert "cannot obtain exclusive access to locked queue 'mine'" in reason
    assert "mine" in api.broker.vhosts["/"].queues


def test_exchanges(api: Api) -> None:
    """Declared, listed, deleted; its type stays."""
    assert api.put("/api/exchanges/%2F/e", {"type": "fanout", "auto_delete": False}).status_code == 201
    assert refused(api.put("/api/exchanges/%2F/e", {"type": "direct"}))[0] == 400
    names = [each["name"] for each in api.found("/api/exchanges/%2F?columns=name")]
    assert names == ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic", "e"]
    assert api.delete("/api/exchanges/%2F/e").status_code == 204
    assert refused(api.delete("/api/exchanges/%2F/amq.direct"))[0] == 401


def test_bindings(api: Api) -> None:
    """Found from either end and by its properties_key, which has no slash and is quoted in paths; taken away by it.

    Terraform unquotes the last part of the location, looks for it among the properties_keys, and splits by slashes what
    it has put together of them.
    """
    between = "/api/bindings/%2F/e/amq.topic/q/q"
    response = api.post(between, {"routing_key": "a.~/b", "arguments": {"x": 1}})
    assert response.status_code == 201
    (binding,) = api.found(between)
    key = binding["properties_key"]
    assert key.startswith("a.%7E%2Fb~")
    assert response.headers["location"] == f"q/{quote(key, safe='')}"
    assert (binding["source"], binding["destination"], binding["destination_type"]) == ("amq.topic", "q", "queue")
    assert api.found(f"{between}/{quote(key, safe='')}") == binding
    default = {"source": "", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "q",
               "arguments": {}, "properties_key": "q"}  # fmt: skip
    assert (
        api.found(f"{Q}/bindings") == api.found("/api/bindings") == api.found("/api/bindings/%2F") == [default, binding]
    )
    assert api.found("/api/exchanges/%2F/amq.topic/bindings/source") == [binding]
    assert api.found("/api/exchanges/%2F/amq.default/bindings/source") == [default]
    assert api.delete(f"{between}/{quote(key, safe='')}").status_code == 204
    assert api.found(between) == []
    assert refused(api.delete(f"{between}/{quote(key, safe='')}"))[0] == 404


@pytest.mark.parametrize(
    ("routing_key", "properties_key"), [("a.#", "a.%23"), ("*.b c", "%2A.b+c"), ("ä", "%C3%A4"), ("", "~")]
)
def test_the_key_in_the_path_of_a_binding(api: Api, routing_key: str, properties_key: str) -> None:
    """Quoted once it is the routing key itself, which a script has at hand, and twice the properties_key."""
    between = "/api/bindings/%2F/e/amq.topic/q/q"
    for part in (properties_key, quote(properties_key, safe="")):
        response = api.post(between, {"routing_key": routing_key})
        assert response.headers["location"] == f"q/{quote(properties_key, safe='')}"
        assert api.found(f"{between}/{part}")["properties_key"] == properties_key
        assert api.get(f"{between}/{part}x").status_code == 404
        assert api.delete(f"{between}/{part}").status_code == 204


def test_an_empty_table_may_come_as_a_list(api: Api) -> None:
    """An empty list is accepted as an empty table, because PHP writes it so; a list with items is not."""
    assert api.put("/api/queues/%2F/other", {"durable": True, "arguments": []}).status_code == 201
    assert api.put("/api/exchanges/%2F/e", {"type": "fanout", "arguments": []}).status_code == 201
    assert api.post("/api/bindings/%2F/e/e/q/other", {"arguments": []}).status_code == 201
    assert api.found("/api/queues/%2F/other")["arguments"] == api.found("/api/exchanges/%2F/e")["arguments"] == {}
    body = {"routing_key": "", "payload": "", "payload_encoding": "string"}
    empty: tuple[object, ...] = ([], {"headers": []})
    for properties in empty:
        assert api.post("/api/exchanges/%2F/e/publish", {**body, "properties": properties}).json() == {"routed": True}
    assert refused(api.put("/api/queues/%2F/another", {"durable": True, "arguments": ["x-expires"]}))[0] == 400
    assert refused(api.post("/api/exchanges/%2F/e/publish", {**body, "properties": {"headers": [1]}}))[0] == 400


def test_bindings_between_exchanges(api: Api) -> None:
    """Bindings between exchanges have their own paths."""
    assert api.post("/api/bindings/%2F/e/amq.topic/e/amq.fanout", {}).status_code == 201
    (binding,) = api.found("/api/exchanges/%2F/amq.fanout/bindings/destination")
    assert (binding["destination_type"], binding["properties_key"]) == ("exchange", "~")
    assert api.delete("/api/bindings/%2F/e/amq.topic/e/amq.fanout/~").status_code == 204


def test_permissions_hold(api: Api) -> None:
    """The API refuses what the user's permissions do not allow over AMQP."""
    api.user("looker", "management")
    api.broker.put_rule(PermissionRecord("/", "looker", "^$", "^$", "^$"))
    body = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for response in (
        api.put("/api/queues/%2F/mine", {"durable": True}, by="looker"),
        api.delete(Q, by="looker"),
        api.delete(f"{Q}/contents", by="looker"),
        api.post(f"{Q}/get", get, by="looker"),
        api.post(f"{Q}/actions", {"action": "pause"}, by="looker"),
        api.post("/api/exchanges/%2F/amq.default/publish", body, by="looker"),
        api.put("/api/exchanges/%2F/mine", {"type": "direct"}, by="looker"),
        api.post("/api/bindings/%2F/e/amq.topic/q/q", {}, by="looker"),
    ):
        assert refused(response)[:2] == (401, "not_authorised"), response.text
    assert api.found(Q, by="looker")["name"] == "q"
    assert refused(api.get(Q, by="management"))[0] == 404
    assert api.found("/api/queues", by="management") == []


def test_messages_over_http_are_traced(api: Api) -> None:
    """The firehose gets a copy of them, with the other side of the connection and no channel."""
    api.put("/api/queues/%2F/copies", {"durable": True})
    api.post("/api/bindings/%2F/e/amq.rabbitmq.trace/q/copies", {"routing_key": "#"})
    broker = api.broker
    Tracing(broker, print).trace(broker.vhosts["/"], on=True)
    assert publish(api, "one", "q")
    broker.dispatch()
    (copy,) = api.post(
        "/api/queues/%2F/copies/get", {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}
    ).json()
    headers = copy["properties"]["headers"]
    assert (copy["routing_key"], copy["payload"], headers["routed_queues"]) == ("publish.", "one", ["q"])
    assert (headers["user"], headers["connection"], headers["channel"]) == ("admin", "127.0.0.1:1", 0)


def test_properties_mean_the_same_as_over_amqp(api: Api) -> None:
    """Further keys are a list, only an impersonator names another user, and no channel takes replies."""
    api.user("actor", "management", "impersonator", vhosts=("/",))
    body = {"routing_key": "q", "payload": "", "payload_encoding": "string"}
    path = "/api/exchanges/%2F/amq.default/publish"
    for properties, reason in (
        ({"headers": {"CC": "q"}}, "unacceptable_type_in_header"),
        ({"user_id": "other"}, "user_id property set to 'other'"),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "fast reply consumer does not exist"),
    ):
        assert reason in refused(api.post(path, {**body, "properties": properties}))[2]
    assert api.post(path, {**body, "properties": {"user_id": "other"}}, by="actor").json() == {"routed": True}


def test_pages_of_queues(api: Api) -> None:
    """A page says which part of the whole it is; a name may be looked for."""
    for number in range(7):
        api.put(f"/api/queues/%2F/n{number}", {"durable": True})
    page = api.found("/api/queues/%2F?page=2&page_size=3&name=n&columns=name")
    assert (page["total_count"], page["filtered_count"], page["page_count"], page["item_count"]) == (8, 7, 3, 3)
    assert page["items"] == [{"name": "n3"}, {"name": "n4"}, {"name": "n5"}]


def test_a_message_larger_than_any_may_be() -> None:
    """A message beyond the node's size limits is refused, as over AMQP."""
    body = {"properties": {}, "routing_key": "q", "payload": "x" * 1_000, "payload_encoding": "string"}
    assert Api().post("/api/exchanges/%2F/amq.default/publish", body).status_code == 200
    body["payload"] = "x" * 1_001
    assert refused(Api().post("/api/exchanges/%2F/amq.default/publish", body)) == (
        400,
        "bad_request",
        "message size 1001 is larger than max size 1000",
    )
