"""The server's side of AMQP 0-9-1 without sockets and disks: what a client is told, and when."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.values import Timestamp
from flintmq.broker.message import Entry, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.stream import StreamQueue
from flintmq.wire.amqp091.chunk import decode_chunk
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueueUnbind,
    StreamFetch,
    StreamFetchOk,
    StreamQuery,
    StreamQueryOk,
    StreamSpan,
    StreamSpanOk,
)
from flintmq.wire.amqp091.properties import headers
from tests.unit.broker.memory import Taker, got
from tests.unit.gateway.amqp091.pair import TRANSIENT, Client, ClientChannel, Server
from tests.unit.protocol.amqp091.pair import Recorder

DURABLE_Q = QueueDeclare(queue="q", durable=True)


def code_of(reason: object) -> tuple[int, str]:
    assert isinstance(reason, ClosedByPeer)
    return reason.code, reason.text


def opened(declare: QueueDeclare = DURABLE_Q, confirms: bool = False) -> tuple[Client, ClientChannel]:
    client = Client(Server())
    channel = client.channel()
    channel.call(declare)
    if confirms:
        channel.call(ConfirmSelect())
    return client, channel


# -- confirms and the disk ------------------------------------------------------------------------------------------


def test_confirm_waits_for_the_sync() -> None:
    """A persistent message on a durable queue is confirmed after its batch is durable, not before."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    channel.publish("b")
    client.tick()
    assert channel.acks == []
    client.durable()
    assert channel.acks == [(2, True)]


def test_confirms_that_need_no_sync_come_at_once() -> None:
    """Transient and unroutable messages are confirmed at the end of the tick."""
    client, channel = opened(confirms=True)
    channel.publish("a", properties=TRANSIENT)
    channel.publish("b", key="nowhere")
    client.tick()
    assert channel.acks == [(2, True)]


def test_confirms_of_one_channel_keep_their_order() -> None:
    """A transient message does not overtake a persistent one before it: acknowledging it would cover both."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    client.tick()
    channel.publish("b", properties=TRANSIENT)
    client.tick()
    assert channel.acks == []
    client.durable()
    assert channel.acks == [(2, True)]


def test_confirm_covers_only_what_is_durable() -> None:
    """What came after a sync began waits for the next one."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    client.tick()
    client.server.storage.sync()
    channel.publish("b")
    client.tick()
    client.server.gateway.on_durable()
    client.tick()
    assert channel.acks == [(1, False)]
    client.durable()
    assert channel.acks == [(1, False), (2, False)]


def test_delivery_does_not_wait_for_the_sync() -> None:
    """A consumer gets a message while its publisher still waits for the confirm."""
    client, channel = opened(confirms=True)
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("a")
    client.tick()
    assert channel.deliveries() == [(1, "a", False)]
    assert channel.acks == []


def test_failed_storage_nacks_what_it_could_not_keep() -> None:
    """When the disk fails, waiting confirms become nacks, and so do later persistent publishes."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    client.tick()
    client.server.storage.fence("disk failed")
    client.server.gateway.on_durable()
    client.tick()
    assert channel.came() == [BasicNack(delivery_tag=1, multiple=True, requeue=False)]
    channel.publish("b")
    client.tick()
    assert channel.came() == [BasicNack(delivery_tag=2, multiple=True, requeue=False)]
    assert client.server.vhost.queues["q"].message_count == 1
    channel.publish("c", properties=TRANSIENT)
    client.tick()
    assert channel.acks == [(3, False)]


def test_what_was_durable_before_the_storage_failed_is_confirmed() -> None:
    """Progress and failure may be reported at once: the durable publish is confirmed, and the later one refused."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    client.tick()
    client.server.storage.sync()
    channel.publish("b")
    client.tick()
    client.server.storage.fence("disk failed")
    client.server.gateway.on_durable()
    client.tick()
    assert channel.acks == [(1, False)]
    assert BasicNack(delivery_tag=2, multiple=True, requeue=False) in channel.came()


def test_failed_storage_closes_who_would_not_hear_otherwise() -> None:
    """A publisher without confirms, or a declare in flight, is closed with 506 and the reason."""
    client, channel = opened()
    client.server.storage.fence("disk full: no space left")
    channel.publish("a")
    client.tick()
    code, text = code_of(client.closed)
    assert code == 506
    assert "disk full: no space left" in text


def test_declare_is_answered_when_it_is_durable() -> None:
    """declare-ok of a durable queue waits for the disk, and answers behind it keep their order."""
    client = Client(Server())
    channel = client.channel()
    channel.send(DURABLE_Q, BasicQos(prefetch_count=3))
    client.tick()
    assert channel.came() == []
    client.durable()
    assert channel.came() == [QueueDeclareOk(queue="q"), BasicQosOk()]


def test_deliveries_wait_for_consume_ok() -> None:
    """A consumer that was set up in one go with its durable queue gets nothing before its consume-ok."""
    client = Client(Server())
    channel = client.channel()
    channel.send(DURABLE_Q, BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("a")
    client.tick()
    assert channel.deliveries() == []
    client.durable()
    assert channel.came() == [QueueDeclareOk(queue="q"), BasicConsumeOk(consumer_tag="c")]
    assert channel.deliveries() == [(1, "a", False)]


def test_fan_out_is_journaled_once() -> None:
    """One message on three durable queues is one record for the disk."""
    client = Client(Server())
    channel = client.channel()
    for name in ("a", "b", "c"):
        channel.call(QueueDeclare(queue=name, durable=True), QueueBind(queue=name, exchange="amq.fanout"))
    channel.publish("m", exchange="amq.fanout")
    client.tick()
    assert client.server.storage.memory_journal.appends == [(b"m", [1, 2, 3])]


# -- publishing -----------------------------------------------------------------------------------------------------


def test_mandatory_message_comes_back() -> None:
    """An unroutable mandatory message is returned whole with 312, before its confirm."""
    client, channel = opened(confirms=True)
    channel.publish("a", key="nowhere", mandatory=True)
    client.tick()
    ((method, properties, body),) = channel.contents
    assert method == BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="nowhere")
    assert (properties, body) == (b"\x10\x00\x02", "a")
    assert channel.acks == [(1, False)]


def test_route_follows_the_bindings() -> None:
    """A publisher's remembered route is thrown away when bindings, queues or exchanges change."""
    client, channel = opened()
    channel.call(QueueDeclare(queue="r"))
    channel.publish("1", key="k", exchange="amq.direct")
    channel.send(QueueBind(queue="q", exchange="amq.direct", routing_key="k"))
    channel.publish("2", key="k", exchange="amq.direct")
    channel.send(QueueBind(queue="r", exchange="amq.direct", routing_key="k"))
    channel.publish("3", key="k", exchange="amq.direct")
    channel.send(QueueUnbind(queue="q", exchange="amq.direct", routing_key="k"))
    channel.publish("4", key="k", exchange="amq.direct")
    channel.send(QueueDelete(queue="r"))
    channel.publish("5", key="k", exchange="amq.direct")
    client.tick()
    queue = client.server.vhost.queues["q"]
    entries = [got(queue), got(queue)]
    assert [entry.message.body for entry in entries if entry is not None] == [b"2", b"3"]
    assert got(queue) is None


# -- consuming ------------------------------------------------------------------------------------------------------


def test_global_prefetch_is_shared_by_the_channel() -> None:
    """global=true limits all consumers of the channel together (RabbitMQ's meaning)."""
    client, channel = opened()
    channel.call(QueueDeclare(queue="r"), BasicQos(prefetch_count=3, global_=True))
    channel.call(BasicConsume(queue="q", consumer_tag="c"), BasicConsume(queue="r", consumer_tag="d"))
    for body in "abc":
        channel.publish(body)
        channel.publish(body, key="r")
    client.tick()
    assert len(channel.deliveries()) == 3
    channel.channel.send_ack(2, True)
    client.tick()
    assert len(channel.deliveries()) == 2


def test_prefetch_of_clients_that_take_it_for_the_channels() -> None:
    """py-amqp's basic.qos limits what consumers of the channel have together, those included that were there before."""
    client = Client(Server(), properties={"product": "py-amqp"})
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), BasicQos(prefetch_count=2))
    channel.call(BasicConsume(queue="q", consumer_tag="c"), BasicConsume(queue="q", consumer_tag="d"))
    for body in "abcd":
        channel.publish(body)
    client.tick()
    assert len(channel.deliveries()) == 2
    channel.call(BasicQos(prefetch_count=3))
    assert len(channel.deliveries()) == 1


def test_acks_out_of_order_and_twice() -> None:
    """Single acks in any order settle each once; the second ack of one closes the channel."""
    client, channel = opened()
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    for body in "abcd":
        channel.publish(body)
    client.tick()
    for tag in (3, 1, 4, 2):
        channel.channel.send_ack(tag, False)
    client.tick()
    assert client.server.storage.memory_journal.kept == {}
    channel.channel.send_ack(3, False)
    client.tick()
    assert code_of(channel.closed)[0] == 406


def test_cancel_stops_deliveries_and_keeps_what_is_held() -> None:
    """After cancel-ok nothing more comes; what was delivered can still be acknowledged."""
    client, channel = opened()
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    channel.publish("a")
    client.tick()
    assert channel.call(BasicCancel(consumer_tag="c")) == [BasicCancelOk(consumer_tag="c")]
    channel.publish("b")
    client.tick()
    assert channel.deliveries() == [(1, "a", False)]
    channel.channel.send_ack(1, False)
    client.tick()
    assert channel.call(DURABLE_Q) == [QueueDeclareOk(queue="q", message_count=1)]


def test_own_consumers_are_cancelled_behind_delete_ok() -> None:
    """A client that waits for delete-ok does not meet a cancel before it, be the queue durable or not."""
    client, channel = opened()
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    assert channel.call(QueueDelete(queue="q")) == [QueueDeleteOk(), BasicCancel(consumer_tag="c", no_wait=True)]
    channel.send(DURABLE_Q, BasicConsume(queue="q", consumer_tag="d"), QueueDelete(queue="q"))
    client.tick()
    client.durable()
    assert channel.came()[-2:] == [QueueDeleteOk(), BasicCancel(consumer_tag="d", no_wait=True)]


def test_get_takes_one() -> None:
    """get-ok carries the message and how many are left; get-empty says that there is none."""
    client, channel = opened()
    assert channel.call(BasicGet(queue="q")) == [BasicGetEmpty()]
    channel.publish("a")
    channel.publish("b")
    channel.send(BasicGet(queue="q"), BasicGet(queue="q", no_ack=True))
    client.tick()
    (first, _, a), (second, _, b) = channel.contents
    assert first == BasicGetOk(delivery_tag=1, routing_key="q", message_count=1)
    assert second == BasicGetOk(delivery_tag=2, routing_key="q", message_count=0)
    assert (a, b) == ("a", "b")
    assert list(client.server.storage.memory_journal.kept.values()) == [b"a"]


@pytest.mark.parametrize(("kind", "is_allowed"), [("classic", True), ("quorum", False)])
def test_get_beside_a_single_active_consumer(kind: str, is_allowed: bool) -> None:
    """Not from quorum queues, in RabbitMQ's words: whether anybody consumes or not."""
    arguments: Table = {"x-queue-type": kind, "x-single-active-consumer": True}
    _, channel = opened(QueueDeclare(queue="q", durable=True, arguments=arguments))
    answers = channel.call(BasicGet(queue="q"))
    if is_allowed:
        assert answers == [BasicGetEmpty()]
    else:
        code, text = code_of(channel.closed)
        assert code == 405
        assert text == (
            "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not "
            "supported by quorum queues with single active consumer"
        )


def test_slow_reader_gets_no_more_than_fits() -> None:
    """When a connection's output is full, messages stay in the queue until there is room."""
    client, channel = opened()
    channel.call(BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    for _ in range(10):
        channel.channel.send_content(bytes.fromhex("003c0028 0000 00 0171 00"), TRANSIENT, bytes(1_000_000))
    client.connection.engine.receive(client.side.sent(), 0.0)
    client.server.gateway.end_tick()
    assert client.server.vhost.queues["q"].message_count == 5
    client.output.take()
    assert client.output.backlog_is(0)
    client.connection.resume()
    client.server.gateway.end_tick()
    assert client.server.vhost.queues["q"].message_count == 0


# -- declaring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (QueueDeclare(queue="nope", passive=True), 404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
        (QueueDeclare(queue="amq.mine"), 403, "reserved prefix"),
        (
            QueueDeclare(queue="q"),
            406,
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "stream"}),
            406,
            "inequivalent arg 'x-queue-type'",
        ),
        (QueueDeclare(queue="new", arguments={"x-queue-type": "odd"}), 406, "x-queue-type"),
        (ExchangeDeclare(exchange="nope", passive=True), 404, "no exchange 'nope'"),
        (ExchangeDeclare(exchange="amq.mine"), 403, "reserved prefix"),
        (ExchangeDeclare(exchange=""), 403, "default exchange"),
        (ExchangeDeclare(exchange="amq.direct", type="fanout", durable=True), 406, "inequivalent arg 'type'"),
        (ExchangeDelete(exchange="amq.topic"), 403, "reserved prefix"),
        (QueueBind(queue="q", exchange=""), 403, "default exchange"),
        (QueueBind(queue="q", exchange="nope"), 404, "no exchange 'nope'"),
        (QueueBind(queue="nope", exchange="amq.direct"), 404, "no queue 'nope'"),
        (QueueBind(queue="q", exchange="amq.headers", arguments={"x-match": "odd"}), 406, "x-match"),
        (BasicConsume(queue="nope"), 404, "no queue 'nope'"),
        (BasicGet(queue="nope"), 404, "no queue 'nope'"),
        (StreamQuery(queue="q"), 406, "not a stream"),
        (StreamSpan(queue="q"), 406, "not a stream"),
    ],
)
def test_soft_errors(method: Method, code: int, text: str) -> None:
    """What a client may get wrong closes its channel with RabbitMQ's code and words, and no more."""
    client, channel = opened()
    channel.call(method)
    found, words = code_of(channel.closed)
    assert found == code
    assert text in words
    assert client.channel().call(DURABLE_Q) == [QueueDeclareOk(queue="q")]


def test_unknown_vhost_and_wrong_password() -> None:
    """Both end the connection, with 530 and 403."""
    server = Server()
    assert code_of(Client(server, vhost="nope").closed) == (530, "NOT_ALLOWED - vhost nope not found")
    code, text = code_of(Client(server, password="wrong").closed)
    assert code == 403
    assert "Login was refused using authentication mechanism PLAIN" in text


def test_no_wait_is_not_answered() -> None:
    """Methods with no-wait do their work and answer nothing."""
    client = Client(Server())
    channel = client.channel()
    answers = channel.call(
        QueueDeclare(queue="q", durable=True, no_wait=True),
        ExchangeDeclare(exchange="x", no_wait=True),
        QueueBind(queue="q", exchange="x", routing_key="k", no_wait=True),
        ConfirmSelect(no_wait=True),
        BasicConsume(queue="q", consumer_tag="c", no_wait=True),
    )
    assert answers == []
    channel.publish("a", exchange="x", key="k")
    client.tick()
    client.durable()
    assert channel.acks == [(1, False)]
    assert channel.deliveries() == [(1, "a", False)]


def test_an_exclusive_queue_that_is_gone_is_forgotten() -> None:
    """However it ended: deleted, without consumers, unused for long, or with its connection."""
    server = Server()
    client = Client(server)
    channel = client.channel()
    for name in ("deleted", "expired", "kept"):
        arguments: Table = {"x-expires": 1} if name == "expired" else {}
        channel.call(QueueDeclare(queue=name, exclusive=True, arguments=arguments))
    channel.call(QueueDeclare(queue="left", exclusive=True, auto_delete=True))
    channel.call(BasicConsume(queue="left", consumer_tag="t"), BasicCancel(consumer_tag="t"))
    channel.call(QueueDelete(queue="deleted"))
    server.broker.now_ms += 10
    client.tick()
    (owned,) = server.vhost._exclusive.values()
    assert [queue.name for queue in owned] == ["kept"] == list(server.vhost.queues)
    client.connection.engine.lost(None)
    assert server.vhost._exclusive == {}


def test_nothing_of_an_exclusive_queue_is_stored() -> None:
    """It ends with its connection: no restart would find it or its messages, also where it was declared as durable."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="x", exclusive=True, durable=True))
    channel.publish("a", key="x")
    client.tick()
    assert client.server.storage.memory_definitions.queues == {}
    assert client.server.storage.memory_journal.kept == {}


def test_restart_restores_what_is_durable() -> None:
    """Durable exchanges, queues, bindings and persistent messages are there again; everything else is not."""
    server = Server()
    channel = Client(server).channel()
    assert (
        channel.call(
            ExchangeDeclare(exchange="x", type="topic", durable=True),
            ExchangeDeclare(exchange="y", type="topic"),
            DURABLE_Q,
            QueueDeclare(queue="r"),
            QueueBind(queue="q", exchange="x", routing_key="a.#"),
            QueueBind(queue="r", exchange="x", routing_key="a.#"),
        )
        == [ExchangeDeclareOk(), ExchangeDeclareOk(), QueueDeclareOk(queue="q"), QueueDeclareOk(queue="r")]
        + [QueueBindOk()] * 2
    )
    for body in "abc":
        channel.publish(body, exchange="x", key="a.b")
    channel.publish("transient", properties=TRANSIENT)
    channel.call(BasicGet(queue="q", no_ack=True))

    again = Server()
    again.storage.memory_journal.kept = server.storage.memory_journal.kept
    again.storage.memory_definitions = server.storage.memory_definitions
    again.broker.vhosts.clear()
    assert again.broker.recover(again.storage.definitions.load()) == 2
    vhost = again.broker.vhosts["/"]
    assert set(vhost.queues) == {"q"}
    assert "x" in vhost.exchanges.by_name
    assert "y" not in vhost.exchanges.by_name
    again.vhost = vhost
    channel = Client(again).channel()
    channel.publish("d", exchange="x", key="a.z")
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    assert channel.deliveries() == [(1, "b", True), (2, "c", True), (3, "d", False)]


# -- streams --------------------------------------------------------------------------------------------------------

STREAM = QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"})


def with_stream(count: int) -> tuple[Client, ClientChannel]:
    client, channel = opened(STREAM)
    for number in range(count):
        client.server.broker.now_ms = 1000 * number
        channel.publish(str(number), key="s", properties=TRANSIENT)
        client.tick()
    return client, channel


@pytest.mark.parametrize(
    ("offset", "first"),
    [("first", 0), ("last", 9), (4, 4), (-5, 0), (Timestamp(6), 6), (Timestamp(0), 0)],
)
def test_stream_is_read_from_anywhere(offset: object, first: int) -> None:
    """A consumer starts where x-stream-offset says, and each message carries its offset."""
    _client, channel = with_stream(10)
    channel.call(
        BasicQos(prefetch_count=100),
        BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": offset}),
    )
    found = [(headers(properties)["x-stream-offset"], body) for _, properties, body in channel.contents]
    assert found == [(number, str(number)) for number in range(first, 10)]


def test_stream_next_sees_only_what_comes() -> None:
    """Without an offset a consumer gets what is published from now on."""
    client, channel = with_stream(3)
    channel.call(BasicQos(prefetch_count=100), BasicConsume(queue="s", consumer_tag="c"))
    channel.publish("new", key="s")
    client.tick()
    client.durable()
    assert [body for _, body, _ in channel.deliveries()] == ["new"]


def test_stream_consumer_sees_durable_records_only() -> None:
    """A record is delivered once no crash can take it: its offset would belong to another message afterwards."""
    client, channel = with_stream(0)
    channel.call(
        BasicQos(prefetch_count=100),
        BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}),
    )
    channel.publish("a", key="s")
    client.tick()
    assert channel.deliveries() == []
    client.durable()
    channel.publish("b", key="s")
    client.tick()
    assert [body for _, body, _ in channel.deliveries()] == ["a"]
    client.durable()
    assert [body for _, body, _ in channel.deliveries()] == ["b"]


def test_stream_serves_many_readers() -> None:
    """Each reader has its own place and its own credit, and settling removes nothing."""
    client, channel = with_stream(5)
    other = client.channel()
    for each, credit in ((channel, 2), (other, 5)):
        each.call(
            BasicQos(prefetch_count=credit),
            BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}),
        )
    assert [body for _, body, _ in channel.deliveries()] == ["0", "1"]
    assert [body for _, body, _ in other.deliveries()] == ["0", "1", "2", "3", "4"]
    channel.channel.send_ack(2, True)
    client.tick()
    assert [body for _, body, _ in channel.deliveries()] == ["2", "3"]
    assert client.server.vhost.queues["s"].message_count == 5


def test_stream_deliveries_hold_no_messages() -> None:
    """However large a message is, a consumer that does not acknowledge it has its offset in the broker's memory."""
    client, channel = opened(STREAM)
    for number in range(3):
        channel.publish(str(number) * 100_000, key="s")
    client.tick()
    client.durable()
    channel.call(
        BasicQos(prefetch_count=2),
        BasicConsume(queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}),
    )
    assert [body[0] for _, body, _ in channel.deliveries()] == ["0", "1"]
    (server_channel,) = client.connection.channels.values()
    held = server_channel.deliveries.unacked.outstanding()
    assert [(delivery.entry.seq, delivery.entry.message.body, delivery.size) for delivery in held] == [
        (0, b"", 100_000),
        (1, b"", 100_000),
    ]
    assert (server_channel.deliveries.window.messages, server_channel.deliveries.window.bytes) == (2, 200_000)
    channel.send(BasicRecover(requeue=False))
    client.tick()
    assert [(tag, body, again) for tag, body, again in channel.deliveries()] == [
        (3, "0" * 100_000, True),
        (4, "1" * 100_000, True),
    ]
    channel.channel.send_ack(4, True)
    client.tick()
    assert [body[0] for _, body, _ in channel.deliveries()] == ["2"]
    assert server_channel.deliveries.window.bytes == 100_000


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (BasicConsume(queue="s", no_ack=True), 540),
        (BasicGet(queue="s"), 540),
        (QueuePurge(queue="s"), 540),
    ],
)
def test_stream_refuses_what_makes_no_sense(method: Method, code: int) -> None:
    """get, purge and no-ack are refused on a stream, as in RabbitMQ."""
    client, channel = with_stream(1)
    channel.call(method)
    assert code_of(client.closed)[0] == code


@pytest.mark.parametrize(
    ("argument", "value", "fault"),
    [
        ("x-stream-offset", "odd", '{invalid_stream_offset_arg,{longstr,<<"odd">>}}'),
        ("x-stream-offset", "0s", '{invalid_stream_offset_arg,{longstr,<<"0s">>}}'),
        ("x-stream-offset", 1.5, "{invalid_stream_offset_arg,{double,1.5}}"),
        ("x-stream-offset", True, "{invalid_stream_offset_arg,{bool,true}}"),
        ("x-stream-filter", 1, "{unacceptable_type,signedint}"),
        ("x-stream-filter", ["a", False], "{unacceptable_type,bool}"),
        ("x-stream-match-unfiltered", "yes", "{unacceptable_type,longstr}"),
        ("x-stream-reader", "", "expected a name of at most 255 bytes"),
    ],
)
def test_stream_refuses_what_cannot_be_meant(argument: str, value: object, fault: str) -> None:
    """Arguments of another kind are 406, in RabbitMQ's words where it has some."""
    _client, channel = with_stream(1)
    channel.call(BasicConsume(queue="s", arguments={argument: value}))
    words = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 's' in vhost '/': {fault}"
    assert code_of(channel.closed) == (406, words)


@pytest.mark.parametrize(
    ("start", "stop", "size", "end"), [(3, 9, 2, 5), (3, 9, 0, 4), (3, 4, 9, 4), (7, 99, 99, 10), (10, 99, 9, 10)]
)
def test_stream_spans(start: int, stop: int, size: int, end: int) -> None:
    """stream.span tells where so many bytes end: within the range and what is durable, and behind one message."""
    client, channel = with_stream(10)
    client.durable()
    asked = StreamSpan(queue="s", offset=start, end_offset=stop, max_bytes=size)
    assert channel.call(asked) == [StreamSpanOk(end_offset=end)]


def test_stream_ranges() -> None:
    """stream.query tells the bounds, stream.fetch gives the records of a range, packed."""
    client, channel = with_stream(10)
    client.durable()
    assert channel.call(StreamQuery(queue="s", timestamp=4500)) == [
        StreamQueryOk(first_offset=0, next_offset=10, offset_at=5, stream=1)
    ]
    channel.send(StreamFetch(queue="s", offset=3, end_offset=6), StreamFetch(queue="s", offset=10, end_offset=99))
    client.tick()
    (some, _, _), (none, _, _) = channel.contents
    assert some == StreamFetchOk(first_offset=3, next_offset=6, record_count=3)
    assert none == StreamFetchOk(first_offset=10, next_offset=10, record_count=0)
    records = decode_chunk(channel._recorder.contents[0][2])
    assert [(record.offset, record.body, record.routing_key) for record in records] == [
        (3, b"3", "s"),
        (4, b"4", "s"),
        (5, b"5", "s"),
    ]
    assert [record.timestamp_ms for record in records] == [3000, 4000, 5000]


def test_what_is_read_by_ranges_was_delivered() -> None:
    """It counts for the stream and its reader's channel, and how far it went is known; empty ranges do not."""
    client, channel = with_stream(10)
    client.durable()
    stream = client.server.vhost.queues["s"]
    assert isinstance(stream, StreamQueue)
    for start, end in ((0, 4), (6, 9), (2, 4), (10, 99)):
        channel.send(StreamFetch(queue="s", offset=start, end_offset=end))
        client.tick()
    assert (stream.delivered_no_ack, stream.fetched_offset) == (9, 9)
    (served,) = client.connection.channels.values()
    assert served.deliveries.delivered_no_ack == 9


def test_stream_publish_is_stored_persistent_or_not() -> None:
    """Every message of a stream is kept, so its confirm waits for the disk whatever its delivery mode."""
    client, channel = opened(STREAM, confirms=True)
    channel.publish("a", key="s", properties=TRANSIENT)
    client.tick()
    assert channel.acks == []
    client.durable()
    assert channel.acks == [(1, False)]


def test_answers_that_waited_do_not_reach_a_closed_channel() -> None:
    """A channel that closes while its declare waits for the disk hears no more of it."""
    client = Client(Server())
    channel = client.channel()
    channel.send(DURABLE_Q)
    client.tick()
    channel.channel.close()
    client.tick()
    client.durable()
    assert channel.came() == []
    assert client.side.closed == []


def test_confirms_that_waited_do_not_reach_the_next_channel_of_that_number() -> None:
    """A channel closed before its confirm, and opened again, starts with a clean slate."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    channel.channel.close()
    client.tick()
    again = client.channel()
    assert again.channel.number == channel.channel.number
    client.durable()
    assert again.acks == []
    assert channel.acks == []


def test_every_answer_waits_its_turn() -> None:
    """A get behind a declare that waits for the disk is answered behind it, with content as without."""
    client, channel = opened()
    channel.publish("a")
    channel.send(QueueDeclare(queue="r", durable=True), BasicGet(queue="r"), BasicGet(queue="q"))
    client.tick()
    assert channel.came() == []
    assert channel.contents == []
    client.durable()
    assert channel.came() == [QueueDeclareOk(queue="r"), BasicGetEmpty()]
    assert [body for _, _, body in channel.contents] == ["a"]


def test_cancel_by_the_server_comes_behind_consume_ok() -> None:
    """A queue that goes while its consume-ok waits for the disk cancels a consumer that its client knows."""
    client, channel = opened()
    channel.send(QueueDeclare(queue="r", durable=True), BasicConsume(queue="q", consumer_tag="c"))
    client.tick()
    other = client.channel()
    other.call(QueueDelete(queue="q"))
    assert channel.came() == [
        QueueDeclareOk(queue="r"),
        BasicConsumeOk(consumer_tag="c"),
        BasicCancel(consumer_tag="c", no_wait=True),
    ]


def test_consumer_that_starts_at_the_end_of_a_tick_is_served_in_the_next() -> None:
    """The batch becomes durable before the tick of a consume behind it ends: nothing else has to happen."""
    client, channel = opened(confirms=True)
    channel.publish("a")
    client.tick()
    client.server.storage.sync()
    channel.send(BasicConsume(queue="q", consumer_tag="c"))
    client.connection.engine.receive(client.side.sent(), 0.0)
    client.server.gateway.on_durable()
    client.server.storage.synced += 10
    client.tick()
    assert channel.deliveries() == [(1, "a", False)]


def test_equal_declare_of_another_client_waits_for_the_disk_too() -> None:
    """Nobody is told of a queue that a crash could still take away."""
    server = Server()
    first, second = Client(server).channel(), Client(server)
    first.send(DURABLE_Q)
    first._client.tick()
    channel = second.channel()
    channel.send(DURABLE_Q)
    second.tick()
    assert channel.came() == []
    second.durable()
    assert channel.came() == [QueueDeclareOk(queue="q")]


def test_failed_storage_leaves_transient_work_alone() -> None:
    """A durable declare costs its connection; afterwards transient ones of others are served."""
    server = Server()
    client = Client(server)
    client.channel()
    server.storage.fence("disk failed")
    client.side.engine.open_channel(Recorder()).send(DURABLE_Q)
    client.tick()
    assert code_of(client.closed)[0] == 506
    assert Client(server).channel().call(QueueDeclare(queue="t")) == [QueueDeclareOk(queue="t")]


class Breaking(Taker):
    """A consumer that cannot be delivered to."""

    def deliver(self, queue: Queue, entry: Entry) -> None:
        raise OSError("broken")


def test_stream_asks_for_a_prefetch() -> None:
    """Without one a consumer would be sent all there is, and have to acknowledge it: 406, as in RabbitMQ."""
    _, channel = with_stream(1)
    channel.call(BasicConsume(queue="s"))
    code, text = code_of(channel.closed)
    assert code == 406
    assert "prefetch count is not set" in text


def test_queue_that_fails_does_not_take_others_along() -> None:
    """When one queue cannot be dispatched, those behind it in the tick are served in the next."""
    client, channel = opened()
    channel.call(BasicConsume(queue="q", consumer_tag="c"))
    taker = Breaking()
    client.server.vhost.declare_queue("broken", False, False, False, {}, client.connection).subscribe(taker, {})
    channel.publish("x", key="broken", properties=TRANSIENT)
    channel.publish("a")
    client.connection.engine.receive(client.side.sent(), 0.0)
    with pytest.raises(OSError, match="broken"):
        client.server.gateway.end_tick()
    client.tick()
    assert channel.deliveries() == [(1, "a", False)]


def test_confirm_select_is_answered() -> None:
    """confirm.select-ok comes, also when it is asked for twice."""
    client = Client(Server())
    assert client.channel().call(ConfirmSelect(), ConfirmSelect()) == [ConfirmSelectOk(), ConfirmSelectOk()]


def test_stream_ranges_end_with_what_is_durable() -> None:
    """What a crash could still take is neither counted nor given out: its offset may come to belong to another."""
    client, channel = with_stream(3)
    client.durable()
    channel.publish("staged", key="s")
    channel.send(StreamQuery(queue="s", timestamp=999_999), StreamFetch(queue="s", offset=0, end_offset=99))
    client.tick()
    assert channel.came() == [StreamQueryOk(first_offset=0, next_offset=3, offset_at=3, stream=1)]
    ((answer, _, _),) = channel.contents
    assert answer == StreamFetchOk(first_offset=0, next_offset=3, record_count=3)


@pytest.mark.parametrize(
    ("damaged", "next_offset", "count"), [({4, 5}, 6, 1), ({3, 4, 5}, 6, 0), ({4}, 6, 2), ({3, 4, 5, 6, 7, 8, 9}, 3, 0)]
)
def test_stream_range_with_a_gap(damaged: set[int], next_offset: int, count: int) -> None:
    """Records that cannot be read are left out, and none from behind the range come in their place."""
    client, channel = with_stream(10)
    client.durable()
    (log,) = client.server.storage.streams.values()
    log.damaged = damaged
    channel.send(StreamFetch(queue="s", offset=3, end_offset=6))
    client.tick()
    ((answer, _, _),) = channel.contents
    assert answer == StreamFetchOk(first_offset=3, next_offset=next_offset, record_count=count)


def test_exchanges_are_bound_to_exchanges() -> None:
    """exchange.bind and exchange.unbind are answered once durable, and messages go by them."""
    client, channel = opened()
    channel.call(
        ExchangeDeclare(exchange="x", type="direct", durable=True, arguments={"alternate-exchange": "amq.fanout"}),
        QueueDeclare(queue="q", durable=True),
        QueueBind(queue="q", exchange="amq.topic", routing_key="a.#"),
    )
    assert channel.call(ExchangeBind(destination="amq.topic", source="x", routing_key="a.b")) == [ExchangeBindOk()]
    assert channel.call(ExchangeBind(destination="amq.topic", source="x", routing_key="a.c", no_wait=True)) == []
    channel.publish("1", key="a.b", exchange="x")
    channel.publish("2", key="a.c", exchange="x")
    channel.publish("3", key="a.d", exchange="x", mandatory=True)
    client.tick()
    assert [body for _, _, body in channel.contents] == ["3"]
    assert client.server.vhost.queues["q"].message_count == 2
    assert channel.call(QueueBind(queue="q", exchange="amq.fanout")) == [QueueBindOk()]
    channel.publish("3", key="a.d", exchange="x", mandatory=True)
    client.tick()
    assert client.server.vhost.queues["q"].message_count == 3
    unbind = ExchangeUnbind(destination="amq.topic", source="x", routing_key="a.b")
    assert channel.call(unbind, unbind) == [ExchangeUnbindOk(), ExchangeUnbindOk()]
    assert len(client.server.storage.memory_definitions.bindings) == 3


def test_deliveries_do_not_overtake_a_get_that_waits() -> None:
    """Tags go out in order: who acknowledges all up to one has seen what it acknowledges."""
    client = Client(Server())
    channel = client.channel()
    channel.call(DURABLE_Q, QueueDeclare(queue="other"), BasicConsume(queue="other", consumer_tag="c"))
    channel.publish("got")
    channel.call()
    channel.send(QueueDeclare(queue="r", durable=True), BasicGet(queue="q"))
    channel.publish("delivered", "other")
    client.tick()
    assert channel.contents == []
    client.durable()
    assert [body for _, _, body in channel.contents] == ["got", "delivered"]
