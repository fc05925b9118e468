"""BCC and time: its keys count when a delayed exchange lets go of a message, and nobody who gets it sees them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flintmq.broker.broker import Broker
from flintmq.broker.message import Message, Table
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.storage.node import NodeStorage
from flintmq.wire.amqp091.methods import (
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

START = 1_000_000
DELAYED: Table = {"x-delayed-type": "direct"}
DELAYED_X = ExchangeDeclare(exchange="x", type="x-delayed-message", durable=True, arguments=DELAYED)


def headed(**headers: object) -> bytes:
    table = {name.replace("_", "-"): value for name, value in headers.items()}
    return encode_properties(Properties(headers=table, delivery_mode=2))


def opened(server: Server) -> tuple[Client, ClientChannel]:
    """A delayed exchange x with a queue for each of three keys."""
    server.broker.now_ms = START
    client = Client(server)
    channel = client.channel()
    channel.call(DELAYED_X)
    for name in ("to", "cc", "bcc"):
        channel.call(QueueDeclare(queue=name, durable=True), QueueBind(queue=name, exchange="x", routing_key=name))
    return client, channel


def after(client: Client, milliseconds: int) -> None:
    client.server.broker.now_ms = START + milliseconds
    client.tick()


def headers_on(client: Client, *queues: str) -> list[Table | None]:
    """What the next message of each queue has as headers; None where there is no message."""
    found: list[Table | None] = []
    for name in queues:
        channel = client.channel()
        channel.call(BasicGet(queue=name, no_ack=True))
        found.append(decode_properties(channel.contents[0][1]).headers if channel.contents else None)
    return found


def test_hidden_keys_count_when_the_time_has_come() -> None:
    """The message goes to the keys of BCC, too, and shows those of CC alone."""
    client, channel = opened(Server())
    channel.publish("m", "to", "x", headed(CC=["cc"], BCC=["bcc"], x_delay=10))
    channel.call()
    assert headers_on(client, "to", "cc", "bcc") == [None] * 3
    after(client, 10)
    assert headers_on(client, "to", "cc", "bcc") == [{"CC": ["cc"], "x-delay": -10}] * 3


def test_other_queues_do_not_see_them() -> None:
    """Where a message goes to a delayed exchange and past it, what is past it has no BCC."""
    client, channel = opened(Server())
    channel.call(ExchangeDeclare(exchange="all", type="fanout"), QueueDeclare(queue="past", durable=True))
    channel.call(ExchangeBind(destination="x", source="all"), QueueBind(queue="past", exchange="all"))
    channel.publish("m", "to", "all", headed(BCC=["bcc"], x_deliver_at=START + 10))
    channel.call()
    after(client, 10)
    assert headers_on(client, "past", "to", "bcc") == [{"x-deliver-at": START + 10}] * 3


def test_a_second_delayed_exchange_holds_them_too() -> None:
    """One behind the other, both at the same moment: the keys are there at the end."""
    client, channel = opened(Server())
    channel.call(ExchangeDeclare(exchange="first", type="x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    channel.call(ExchangeBind(destination="x", source="first"))
    channel.publish("m", "to", "first", headed(BCC=["bcc"], x_deliver_at=START + 10))
    channel.call()
    for milliseconds in (10, 11, 12):
        after(client, milliseconds)
    assert headers_on(client, "to", "bcc") == [{"x-deliver-at": START + 10}] * 2


def test_confirmed_and_committed_as_any_other() -> None:
    """The journal has the message once, in the transaction's group, and it is gone from there in the end."""
    server = Server()
    client, channel = opened(server)
    channel.call(TxSelect())
    before = server.storage.memory_journal.group_count
    channel.publish("m", "to", "x", headed(BCC=["bcc"], x_delay=10))
    channel.call(TxCommit())
    assert (len(server.storage.memory_journal.kept), server.storage.memory_journal.group_count) == (1, before + 1)
    after(client, 10)
    assert headers_on(client, "to", "bcc") == [{"x-delay": -10}] * 2
    assert server.storage.memory_journal.kept == {}


@contextmanager
def node(directory: Path) -> Iterator[Broker]:
    """A broker on a real disk; what is staged at the end is synced."""
    storage = NodeStorage(directory, {CODEC_091.format: CODEC_091}, lambda: None)
    try:
        broker = Broker(storage)
        broker.now_ms = START
        broker.recover(storage.definitions.load())
        yield broker
        storage.commit()
    finally:
        storage.close()


def test_a_restart_keeps_them(tmp_path: Path) -> None:
    """What waits with hidden keys is routed by them after a restart."""
    with node(tmp_path) as broker:
        server = Server()
        server.broker = broker
        broker.add_vhost("/")
        broker.put_user(UserRecord("u", ""))
        broker.put_rule(PermissionRecord("/", "u", ".*", ".*", ".*"))
        server.gateway.broker = broker
        server.gateway.tick = broker.tick
        vhost = broker.vhosts["/"]
        vhost.exchanges.declare("x", "x-delayed-message", True, False, False, DELAYED)
        for name in ("to", "bcc"):
            queue = vhost.declare_queue(name, True, False, False, {}, None)
            vhost.exchanges.bind_queue(queue, "x", name, {})
        channel = Client(server).channel()
        channel.publish("m", "to", "x", headed(BCC=["bcc"], x_delay=10))
        channel.call()
        assert [queue.message_count for queue in vhost.queues.values()] == [0, 0]
    with node(tmp_path) as broker:
        broker.now_ms = START + 10
        broker.dispatch()
        messages: list[Message] = []
        for name in ("to", "bcc"):
            entry = got(broker.vhosts["/"].queues[name])
            assert entry is not None
            messages.append(entry.message)
        assert [CODEC_091.headers(message.properties) for message in messages] == [{"x-delay": -10}] * 2
