"""What clients and tools made for RabbitMQ rely on beside the specification, by pika, py-amqp and plain HTTP."""

import base64
import hashlib
from urllib.parse import quote

import amqp
import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.servers import BrokerProcess


def drained(channel: BlockingChannel, queue: str) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        assert body is not None
        bodies.append(body)


# -- queues and exchanges ---------------------------------------------------------------------------------------


def test_a_classic_queue_without_levels_is_fifo(channel: BlockingChannel) -> None:
    """Priorities of messages change nothing on a classic queue that was declared without x-max-priority."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    for priority in (1, 9, 0, 5):
        channel.basic_publish("", queue, b"%d" % priority, pika.BasicProperties(priority=priority))
    assert drained(channel, queue) == [b"1", b"9", b"0", b"5"]


def test_a_star_and_an_empty_key(channel: BlockingChannel) -> None:
    """An empty routing key has no word that `*` could match; `#` matches it."""
    star, hash_sign = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.queue_bind(star, "amq.topic", "*")
    channel.queue_bind(hash_sign, "amq.topic", "#")
    channel.basic_publish("amq.topic", "", b"no word")
    assert (drained(channel, star), drained(channel, hash_sign)) == ([], [b"no word"])


@pytest.mark.parametrize("argument", ["x-queue-leader-locator", "x-queue-mode"])
def test_an_unknown_value_of_an_argument(channel: BlockingChannel, name: str, argument: str) -> None:
    """A value that RabbitMQ does not know is refused with 406."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        channel.queue_declare(name, durable=True, arguments={argument: "nonsense"})
    assert refusal.value.reply_code == 406


def test_a_consumer_of_higher_priority_becomes_active(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """A quorum queue with a single active consumer goes over to a consumer of higher priority that comes later."""
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    channel.queue_declare(name, durable=True, arguments=arguments)
    got: list[str] = []
    for tag, priority in (("low", 0), ("high", 10)):
        channel.basic_consume(
            name,
            lambda _, method, *rest: got.append(method.consumer_tag),
            auto_ack=True,
            consumer_tag=tag,
            arguments={"x-priority": priority},
        )
    channel.basic_publish("", name, b"")
    while not got:
        connection.process_data_events(time_limit=1)
    assert got == ["high"]
    channel.queue_delete(name)


def test_line_ends_in_names(broker: BrokerProcess, name: str) -> None:
    """CR and LF are stripped from the names of a queue and an exchange that are declared."""
    # Not by pika: it waits for an answer with the name as it was sent.
    client = amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password="guest")
    client.connect()
    channel = client.channel()
    assert channel.queue_declare(f"{name}\r\n", exclusive=True).queue == name
    channel.exchange_declare(f"{name}\n", "fanout")
    channel.queue_bind(name, name)
    channel.exchange_delete(name)
    client.close()


def test_an_empty_filter_value_counts_as_none(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """A message of a stream whose x-stream-filter-value is empty goes to readers who want what has no value."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for value in ("other", "", "mine"):
        properties = pika.BasicProperties(headers={"x-stream-filter-value": value})
        channel.basic_publish("", name, value.encode() or b"none", properties)
    channel.basic_qos(prefetch_count=10)
    got: list[bytes] = []
    channel.basic_consume(
        name,
        lambda *delivery: got.append(delivery[3]),
        arguments={"x-stream-offset": "first", "x-stream-filter": "mine", "x-stream-match-unfiltered": True},
    )
    while b"mine" not in got:
        connection.process_data_events(time_limit=1)
    assert b"none" in got
    channel.queue_delete(name)


def test_a_passive_declaration_without_an_answer(broker: BrokerProcess) -> None:
    """py-amqp asks for a queue that is not there, and for no answer: in RabbitMQ's dialect that is a 404."""
    client = amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password="guest")
    client.connect()
    channel = client.channel()
    channel.queue_declare("not-there", passive=True, nowait=True)
    with pytest.raises(amqp.exceptions.NotFound):
        channel.queue_declare("", exclusive=True)
    client.close()


VOID = ["not-there", "", "others", "forbidden", "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.nobody"]


@pytest.mark.parametrize("what", VOID, ids=[each or "no name" for each in VOID])
def test_a_passive_declaration_without_an_answer_in_strict(
    broker: BrokerProcess, api: httpx.Client, strict: str, what: str
) -> None:
    """By py-amqp: nothing comes of it, whatever it names, and the queue that was declared last stays that."""
    limited = {"configure": "^mine$", "write": "^(mine|amq.default)$", "read": "^mine$"}
    assert api.put("/api/users/limited", json={"password": "limited", "tags": ""}).is_success
    assert api.put(f"/api/permissions/{strict}/limited", json=limited).is_success
    owner, client = (
        amqp.Connection(f"127.0.0.1:{broker.port}", userid=user, password=user, virtual_host=strict)
        for user in ("guest", "limited")
    )
    owner.connect()
    owner.channel().queue_declare("others", exclusive=True)
    client.connect()
    channel = client.channel()
    for _ in range(2):
        channel.exchange_declare(what, "direct", passive=True, nowait=True)
        channel.queue_declare(what, passive=True, nowait=True)
        channel.queue_declare("mine", auto_delete=False)
        channel.queue_declare(what, passive=True, nowait=True)
        assert channel.queue_purge() == 0
        channel.basic_publish(amqp.Message("m"), routing_key="mine")
        assert channel.basic_get("", no_ack=True).body == "m"
    client.close()
    owner.close()
    assert api.delete("/api/users/limited").is_success


# -- time to live, and turns ------------------------------------------------------------------------------------


def test_no_time_to_live_and_a_consumer_that_waits(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    """All messages with expiration 0 reach a consumer that waits; one that is given back has expired."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    got: list[bytes] = []
    tags: list[int] = []

    def take(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
        got.append(body)
        tags.append(method.delivery_tag)

    channel.basic_consume(queue, take)
    for number in range(100):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(expiration="0"))
    # Without a time to live, behind all of them: whatever was thrown away is missing before it.
    channel.basic_publish("", queue, b"last")
    while b"last" not in got:
        connection.process_data_events(time_limit=1)
    assert got == [*(b"%d" % number for number in range(100)), b"last"]
    channel.basic_nack(tags[-1], multiple=True, requeue=True)
    while len(got) < 102:
        connection.process_data_events(time_limit=1)
    assert got[101:] == [b"last"]


def test_queues_take_turns_at_a_shared_prefetch(connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
    """Consumers of three queues that share a prefetch of one get from each queue in turn."""
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        for _ in range(10):
            channel.basic_publish("", queue, b"")
    channel.basic_qos(prefetch_count=1, global_qos=True)
    got: list[str] = []

    def take(_: object, method: pika.spec.Basic.Deliver, *rest: object) -> None:
        got.append(method.routing_key)
        channel.basic_ack(method.delivery_tag)

    for queue in queues:
        channel.basic_consume(queue, take)
    while len(got) < 30:
        connection.process_data_events(time_limit=1)
    # The first queue was alone until the others had consumers.
    assert all(got.index(queue) < 15 for queue in queues), got
    assert set(got[-6:]) != {got[-1]}, got


# -- HTTP -------------------------------------------------------------------------------------------------------


def test_publishing_to_the_default_exchange_by_its_empty_name(api: httpx.Client, channel: BlockingChannel) -> None:
    """The empty name in a path is the default exchange; properties that are unknown are passed over."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    message = {"routing_key": queue, "payload": "x", "payload_encoding": "string", "properties": {"unknown": 1}}
    published = api.post("/api/exchanges/%2F//publish", json=message)
    assert (published.status_code, published.json()) == (200, {"routed": True})
    assert drained(channel, queue) == [b"x"]


def test_declarations_that_leave_something_out(api: httpx.Client, name: str) -> None:
    """Without `durable`, nothing is durable; an exchange without a type is direct; a null key is the empty one."""
    assert api.put(f"/api/queues/%2F/{name}", json={}).is_success
    assert api.put(f"/api/exchanges/%2F/{name}", json={}).is_success
    assert api.post(f"/api/bindings/%2F/e/{name}/q/{name}", json={"routing_key": None}).is_success
    queue, exchange = (api.get(f"/api/{kind}/%2F/{name}").json() for kind in ("queues", "exchanges"))
    assert (queue["durable"], exchange["durable"], exchange["type"]) == (False, False, "direct")
    for kind in ("queues", "exchanges"):
        assert api.delete(f"/api/{kind}/%2F/{name}").is_success


def test_a_hash_of_an_old_export(broker: BrokerProcess, api: httpx.Client) -> None:
    """A password hash without an algorithm that is as long as MD5's lets its user in."""
    salt = b"salt"
    # ruff thinks of safety; old exports have this.
    digest = hashlib.md5(salt + b"secret").digest()  # noqa: S324
    user = {"password_hash": base64.b64encode(salt + digest).decode(), "tags": ""}
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put("/api/users/old", json=user).is_success
    assert api.put("/api/permissions/%2F/old", json=everything).is_success
    pika.BlockingConnection(pika.URLParameters(broker.url.replace("guest:guest", "old:secret"))).close()
    assert api.delete("/api/users/old").is_success


def test_a_protected_user(api: httpx.Client) -> None:
    """Who has the tag `protected` is not deleted over HTTP."""
    assert api.put("/api/users/kept", json={"password": "x", "tags": "protected"}).is_success
    assert not api.delete("/api/users/kept").is_success
    assert api.get("/api/users/kept").is_success


def test_what_is_told_of_queues(api: httpx.Client, channel: BlockingChannel, name: str) -> None:
    """Exports have each queue's type; a queue tells how much of it is persistent."""
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"12345", pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("", name, b"1")
    queue = api.get(f"/api/queues/%2F/{quote(name)}").json()
    assert (queue["messages_persistent"], queue["message_bytes_persistent"]) == (1, 5)
    assert "head_message_timestamp" in queue
    (exported,) = [each for each in api.get("/api/definitions").json()["queues"] if each["name"] == name]
    assert exported["type"] == "classic"
    assert api.get("/api/overview", params={"lengths_age": -1, "lengths_incr": 0}).status_code == 400
    channel.queue_delete(name)


def test_totals_with_labels(broker: BrokerProcess) -> None:
    """Totals of the node that start with rabbitmq_global_ say which protocol they are of."""
    text = httpx.get(f"{broker.http_url}/metrics", auth=("guest", "guest"), timeout=60).text
    totals = [line for line in text.splitlines() if line.startswith("rabbitmq_global_messages_received_total")]
    assert totals
    assert all('protocol="' in line for line in totals), totals
