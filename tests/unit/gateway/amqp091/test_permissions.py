"""Which permissions each method needs: RabbitMQ's table, row by row."""

from dataclasses import dataclass

import pytest

from flintmq.base.errors import AmqpError
from flintmq.broker.dialect import STRICT
from flintmq.broker.message import Table
from flintmq.broker.ports import PermissionRecord, TopicPermissionRecord, UserRecord
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    LeaseExtend,
    LeaseFetch,
    LeaseOpen,
    LeaseOpenOk,
    LeaseQuery,
    LeaseRelease,
    LeaseSettle,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    StreamFetch,
    StreamQuery,
    StreamSpan,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

STREAM: Table = {"x-queue-type": "stream"}
DELAYED: Table = {"x-delayed-type": "direct"}


@dataclass(frozen=True)
class Row:
    """A method and what it needs: (action, kind, name) each."""

    method: Method
    needs: tuple[tuple[str, str, str], ...]


def row(method: Method, *needs: str) -> Row:
    """Needs are written as "configure queue q"."""
    return Row(method, tuple((action, kind, name) for action, kind, name in (need.split() for need in needs)))


# The first one of a lease whose id is 4.
EPOCH = (4 << 32) + 1
ROWS = [
    row(ExchangeDeclare(exchange="new", type="direct"), "configure exchange new"),
    row(ExchangeDeclare(exchange="x1", type="direct"), "configure exchange x1"),
    row(
        ExchangeDeclare(exchange="new", type="direct", arguments={"alternate-exchange": "x1"}),
        "configure exchange new",
        "read exchange new",
        "write exchange x1",
    ),
    row(ExchangeDelete(exchange="x1"), "configure exchange x1"),
    row(ExchangeDelete(exchange="missing"), "configure exchange missing"),
    row(ExchangeBind(destination="x1", source="x2"), "write exchange x1", "read exchange x2"),
    row(ExchangeUnbind(destination="x1", source="x2"), "write exchange x1", "read exchange x2"),
    row(QueueDeclare(queue="new"), "configure queue new"),
    row(QueueDeclare(queue="q"), "configure queue q"),
    row(QueueDelete(queue="q"), "configure queue q"),
    row(QueueDelete(queue="missing"), "configure queue missing"),
    row(QueueBind(queue="q", exchange="x1"), "write queue q", "read exchange x1"),
    row(QueueUnbind(queue="q", exchange="x1"), "write queue q", "read exchange x1"),
    row(QueuePurge(queue="q"), "read queue q"),
    row(BasicGet(queue="q"), "read queue q"),
    row(BasicConsume(queue="q"), "read queue q"),
    row(StreamQuery(queue="s"), "read queue s"),
    row(StreamSpan(queue="s"), "read queue s"),
    row(StreamFetch(queue="s"), "read queue s"),
    row(LeaseOpen(queue="leased", consumer="c"), "read queue leased"),
    row(LeaseExtend(queue="leased", consumer="c", epoch=EPOCH), "read queue leased"),
    row(LeaseFetch(queue="leased", consumer="c"), "read queue leased"),
    row(LeaseSettle(queue="leased", consumer="c", epoch=EPOCH), "read queue leased"),
    row(LeaseQuery(queue="leased", consumer="c"), "read queue leased"),
    row(LeaseRelease(queue="leased", consumer="c", epoch=EPOCH), "read queue leased"),
    row(LeaseRelease(queue="leased", consumer="c"), "read queue leased"),
]


def names(row: Row) -> str:
    return f"{row.method.name}-{'-'.join(name for _, _, name in row.needs)}"


def made() -> tuple[Server, Client]:
    """A server with the exchanges x1 and x2, the queue q, the stream s, and a queue that is leased."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    channel.call(ExchangeDeclare(exchange="x1", type="direct"), ExchangeDeclare(exchange="x2", type="direct"))
    channel.call(QueueDeclare(queue="q"), QueueDeclare(queue="s", durable=True, arguments=STREAM))
    channel.call(QueueDeclare(queue="leased", durable=True))
    assert channel.call(LeaseOpen(queue="leased", consumer="c")) == [LeaseOpenOk(epoch=EPOCH)]
    return server, client


def allow(server: Server, needs: tuple[tuple[str, str, str], ...]) -> None:
    """Allow this much and no more."""
    patterns = {
        action: "|".join(f"^{name}$" for what, _, name in needs if what == action)
        for action in ("configure", "write", "read")
    }
    server.allow(patterns["configure"], patterns["write"], patterns["read"])


def refusal(channel: ClientChannel) -> str:
    reason = channel.closed
    assert isinstance(reason, AmqpError) or reason is not None
    return str(reason)


@pytest.mark.parametrize("row", ROWS, ids=names)
def test_what_is_needed_is_enough(row: Row) -> None:
    """With the permissions of its row and no others, a method is done."""
    server, client = made()
    channel = client.channel()
    allow(server, row.needs)
    assert len(channel.call(row.method)) + len(channel.contents) == 1


@pytest.mark.parametrize(
    ("row", "lacking"),
    [pytest.param(row, need, id=f"{names(row)}-no-{'-'.join(need)}") for row in ROWS for need in row.needs],
)
def test_all_that_is_needed_is_needed(row: Row, lacking: tuple[str, str, str]) -> None:
    """Without one of them the channel ends, and the text says what was refused; the broker is as it was."""
    server, client = made()
    channel = client.channel()
    allow(server, tuple(need for need in row.needs if need != lacking))
    before = (sorted(server.vhost.queues), sorted(server.vhost.exchanges.by_name))
    channel.call(row.method)
    action, kind, name = lacking
    assert refusal(channel) == (
        f"403 ACCESS_REFUSED - {action} access to {kind} '{name}' in vhost '/' refused for user 'u'"
    )
    assert (sorted(server.vhost.queues), sorted(server.vhost.exchanges.by_name)) == before


@pytest.mark.parametrize(("exchange", "named"), [("x1", "x1"), ("", "amq.default"), ("missing", "missing")])
def test_publishing_needs_write(exchange: str, named: str) -> None:
    """Publishing needs write on the exchange, the default one as amq.default; before it is looked for."""
    server, client = made()
    channel = client.channel()
    channel.publish("m", exchange="x1")
    client.tick()
    server.allow(write=f"^(?!{named}$)")
    channel.publish("m", exchange=exchange)
    client.tick()
    assert refusal(channel) == (
        f"403 ACCESS_REFUSED - write access to exchange '{named}' in vhost '/' refused for user 'u'"
    )


def test_publishing_where_it_is_allowed() -> None:
    """A pattern for the default exchange is one for amq.default, and nothing else is needed there."""
    server, client = made()
    server.allow("", "^amq\\.default$", "")
    channel = client.channel()
    channel.publish("m", "q")
    client.tick()
    assert server.vhost.queues["q"].message_count == 1


def test_permissions_change_at_once() -> None:
    """A publisher that was allowed is refused from the moment it is not any more, and allowed again after that."""
    server, client = made()
    channel = client.channel()
    for body in ("a", "b"):
        channel.publish(body, "q")
    client.tick()
    server.allow(write="^x1$")
    channel.publish("c", "q")
    client.tick()
    assert "write access to exchange 'amq.default'" in refusal(channel)
    server.allow()
    again = client.channel()
    again.publish("d", "q")
    client.tick()
    assert server.vhost.queues["q"].message_count == 3


def test_each_user_has_its_own() -> None:
    """What one user was allowed another is not, on the same connection's bytes."""
    server, client = made()
    channel = client.channel()
    channel.publish("m", "q")
    client.tick()
    server.broker.put_user(UserRecord("other", ""))
    server.broker.put_rule(PermissionRecord("/", "other", "", "", ""))
    other = Client(server, user="other")
    channel = other.channel()
    channel.publish("m", "q")
    other.tick()
    assert "refused for user 'other'" in refusal(channel)


@pytest.mark.parametrize("permitted", ["configure", "write", "read"])
def test_any_permission_is_enough_for_passive(permitted: str) -> None:
    """A passive declaration asks for no particular permission, but for one."""
    server, client = made()
    server.allow(**{"configure": "", "write": "", "read": "", permitted: "^(q|x1)$"})
    channel = client.channel()
    assert len(channel.call(QueueDeclare(queue="q", passive=True))) == 1
    assert len(channel.call(ExchangeDeclare(exchange="x1", passive=True))) == 1


@pytest.mark.parametrize(
    ("method", "what"),
    [
        (QueueDeclare(queue="q", passive=True), "queue 'q'"),
        (ExchangeDeclare(exchange="x1", passive=True), "exchange 'x1'"),
    ],
)
def test_passive_without_any(method: Method, what: str) -> None:
    """Without any, it says the same as a declaration that is not passive."""
    server, client = made()
    server.allow("other", "other", "other")
    channel = client.channel()
    channel.call(method)
    assert refusal(channel) == f"403 ACCESS_REFUSED - configure access to {what} in vhost '/' refused for user 'u'"


def test_names_the_server_makes_up() -> None:
    """They are checked as others are."""
    server, client = made()
    channel = client.channel()
    server.allow(configure="^amq\\.gen-")
    assert len(channel.call(QueueDeclare(queue=""))) == 1
    server.allow(configure="^mine")
    channel.call(QueueDeclare(queue=""))
    assert "configure access to queue 'amq.gen-" in refusal(channel)
    assert len([name for name in server.vhost.queues if name.startswith("amq.gen-")]) == 1


def test_the_last_declared_queue_is_meant() -> None:
    """An empty name is checked as the queue it means."""
    server, client = made()
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    server.allow(read="^other$")
    channel.call(BasicGet(queue=""))
    assert "read access to queue 'q'" in refusal(channel)


def test_dead_letters_are_written() -> None:
    """A queue that sends to an exchange needs that exchange's write permission, and its own read."""
    server, client = made()
    method = QueueDeclare(queue="new", arguments={"x-dead-letter-exchange": "x1"})
    for patterns, words in (
        (("new", "x2", "new"), "write access to exchange 'x1'"),
        (("new", "x1", "q"), "read access to queue 'new'"),
    ):
        channel = client.channel()
        server.allow(*patterns)
        channel.call(method)
        assert words in refusal(channel)


# -- topics -------------------------------------------------------------------------------------------------------


def allow_topics(server: Server, write: str, read: str, exchange: str = "amq.topic") -> None:
    server.broker.put_rule(TopicPermissionRecord("/", "u", exchange, write, read))


def test_topics_of_publishes() -> None:
    """Routing keys at a topic exchange are restricted once there is a topic permission for it, and there only."""
    server, client = made()
    allow_topics(server, "^{username}\\.", ".*")
    channel = client.channel()
    for exchange, key in (("amq.topic", "u.a"), ("amq.direct", "other.a")):
        channel.publish("m", key, exchange)
    client.tick()
    channel.publish("m", "other.a", "amq.topic")
    client.tick()
    assert refusal(channel) == (
        "403 ACCESS_REFUSED - write access to topic 'other.a' in exchange topic 'amq.topic' in vhost '/' refused for "
        "user 'u'"
    )


@pytest.mark.parametrize(
    "method",
    [
        QueueBind(queue="q", exchange="amq.topic"),
        QueueUnbind(queue="q", exchange="amq.topic"),
        ExchangeBind(destination="x1", source="amq.topic"),
        ExchangeUnbind(destination="x1", source="amq.topic"),
    ],
)
def test_topics_of_bindings(method: QueueBind | QueueUnbind | ExchangeBind | ExchangeUnbind) -> None:
    """So are those of bindings, by the read pattern."""
    server, client = made()
    allow_topics(server, ".*", "^in\\.{vhost}\\.")
    channel = client.channel()
    method.routing_key = "in./.a"
    assert len(channel.call(method)) == 1
    method.routing_key = "in.a"
    channel.call(method)
    assert "read access to topic 'in.a' in exchange topic 'amq.topic'" in refusal(channel)


def test_topics_of_copies() -> None:
    """Further keys, by CC and BCC, are restricted like the first one."""
    server, client = made()
    allow_topics(server, "^a$", "")
    for header in ("CC", "BCC"):
        channel = client.channel()
        channel.publish("m", "a", "amq.topic", encode_properties(Properties(headers={header: ["a"]})))
        client.tick()
        channel.publish("m", "a", "amq.topic", encode_properties(Properties(headers={header: ["a", "b"]})))
        client.tick()
        assert "write access to topic 'b'" in refusal(channel)


def test_an_exchange_that_becomes_a_topic_exchange() -> None:
    """What was published before there was a topic exchange of the name is checked anew."""
    server, client = made()
    allow_topics(server, "^never$", "", "x1")
    channel = client.channel()
    channel.publish("m", "key", "x1")
    client.tick()
    channel.call(ExchangeDelete(exchange="x1"), ExchangeDeclare(exchange="x1", type="topic"))
    channel.publish("m", "key", "x1")
    client.tick()
    assert "write access to topic 'key'" in refusal(channel)


def test_topic_permissions_are_withdrawn() -> None:
    """Without its topic permission any key may be used again."""
    server, client = made()
    allow_topics(server, "^a$", "^a$")
    server.broker.delete_rule(server.storage.memory_definitions.rules[-1])
    channel = client.channel()
    channel.publish("m", "b", "amq.topic")
    assert len(channel.call(QueueBind(queue="q", exchange="amq.topic", routing_key="b"))) == 1


def test_answers_need_no_permission() -> None:
    """Direct reply-to is the channel's own: consuming from it is for everybody."""
    server, client = made()
    server.allow("", "", "")
    channel = client.channel()
    (answer,) = channel.call(BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True))
    assert isinstance(answer, BasicConsumeOk)


# -- names of others ----------------------------------------------------------------------------------------------


def test_publishing_as_somebody_else() -> None:
    """The user-id of a message is its publisher, or what an impersonator says."""
    server, client = made()
    claimed = encode_properties(Properties(user_id="other"))
    channel = client.channel()
    channel.publish("m", "q", properties=claimed)
    client.tick()
    assert refusal(channel) == (
        "406 PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'u'"
    )
    server.broker.put_user(UserRecord("u", "", ("impersonator",)))
    channel = client.channel()
    channel.publish("m", "q", properties=claimed)
    client.tick()
    assert server.vhost.queues["q"].message_count == 1
    server.broker.put_user(UserRecord("u", ""))
    channel.publish("m", "q", properties=claimed)
    client.tick()
    assert refusal(channel).startswith("406 PRECONDITION_FAILED - user_id property set to 'other'")
    assert server.vhost.queues["q"].message_count == 1


# -- virtual hosts and users --------------------------------------------------------------------------------------


def test_a_vhost_without_permissions_is_closed() -> None:
    """Who has no permissions in a virtual host does not get in; one who has empty ones does."""
    server = Server()
    server.broker.add_vhost("other", STRICT)
    assert str(Client(server, vhost="other").closed) == (
        "530 NOT_ALLOWED - access to vhost 'other' refused for user 'u'"
    )
    server.allow("", "", "", vhost="other")
    assert Client(server, vhost="other").side.closed == []


def test_permissions_that_are_withdrawn() -> None:
    """Whoever is in stays, and may do nothing."""
    server, client = made()
    channel = client.channel()
    server.broker.delete_rule(PermissionRecord("/", "u", "", "", ""))
    channel.call(BasicGet(queue="q"))
    assert "read access to queue 'q' in vhost '/' refused" in refusal(channel)
    assert "access to vhost '/' refused for user 'u'" in str(Client(server).closed)


def test_a_deleted_user_is_out() -> None:
    """Deleting a user ends its connections."""
    server, client = made()
    server.broker.delete_user("u")
    client.tick()
    assert str(client.closed) == "320 CONNECTION_FORCED - user 'u' is deleted"
    assert server.vhost.connections == {}
    assert "access to vhost '/' refused" in str(Client(server).closed)


def test_a_deleted_vhost_takes_all_along() -> None:
    """Deleting a virtual host ends its connections and queues; one of that name that comes later is new."""
    server, client = made()
    channel = client.channel()
    channel.call(BasicConsume(queue="q"))
    channel.publish("m", "q")
    channel.call(ExchangeDeclare(exchange="later", type="x-delayed-message", durable=True, arguments=DELAYED))
    channel.publish("m", "q", "later", encode_properties(Properties(delivery_mode=2, headers={"x-delay": 60_000})))
    client.durable()
    server.broker.delete_vhost("/")
    client.durable()
    assert str(client.closed) == "320 CONNECTION_FORCED - vhost '/' is deleted"
    assert server.storage.memory_journal.kept == {}
    assert server.storage.streams == {}
    assert str(Client(server).closed) == "530 NOT_ALLOWED - vhost / not found"
    vhost = server.broker.add_vhost("/")
    assert vhost.queues == {}
    assert "access to vhost '/' refused for user 'u'" in str(Client(server).closed)
