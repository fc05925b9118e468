"""Few bytes that ask for much: how much is done of it before others have their turn."""

from itertools import pairwise

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import (
    ADDRESS_WORK_UNITS,
    ANSWER_BYTES_PER_UNIT,
    ASKED_CONSUMERS_PER_UNIT,
    DISPATCH_BURST_MESSAGES,
    FAILED_CHANNEL_UNITS,
    MESSAGE_WORK_UNITS,
    TICK_WORK_UNITS,
    UNACKED_TAGS_PER_UNIT,
)
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicRecover,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    TxSelect,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server


def spent(client: Client, channel: ClientChannel, *methods: Method) -> int:
    """What these methods, or what is in the output already, cost beyond being methods."""
    channel.send(*methods)
    client.connection.engine.refresh()
    before = client.connection.engine._work
    client.connection.engine.receive(client.side.sent(), 0.0)
    after = client.connection.engine._work
    client.durable()
    return before - after - 64 * len(methods)


def test_copies_are_counted() -> None:
    """A message to one queue costs its bytes alone, one to many queues as much as there are of them."""
    client = Client(Server())
    channel = client.channel()
    for number in range(30):
        queue = f"q{number}"
        channel.call(QueueDeclare(queue=queue), QueueBind(queue=queue, exchange="amq.fanout"))
    channel.publish("m", "q0")
    assert spent(client, channel) == ADDRESS_WORK_UNITS
    channel.publish("m", "q0")
    assert spent(client, channel) == 0
    channel.publish("m", "", "amq.fanout")
    channel.publish("m", "", "amq.fanout")
    # To find thirty bindings is some more, once.
    assert spent(client, channel) == ADDRESS_WORK_UNITS + 30 // 8 + 60


def test_comparisons_are_counted() -> None:
    """Where each message is compared with each binding, each comparison counts."""
    client = Client(Server())
    channel = client.channel()
    channel.call(ExchangeDeclare(exchange="h", type="headers"), QueueDeclare(queue="q"))
    for number in range(30):
        channel.call(QueueBind(queue="q", exchange="h", arguments={f"k{number}": 1}))
    channel.publish("m", "", "h")
    assert spent(client, channel) == ADDRESS_WORK_UNITS + 30


def test_settlements_are_counted() -> None:
    """One acknowledgement for many messages is as much work as they are, and so is giving them back."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for _ in range(10):
        channel.publish("m")
    channel.call(*[BasicGet(queue="q")] * 10)
    assert spent(client, channel, BasicNack(delivery_tag=0, multiple=True, requeue=True)) >= 10
    channel.call(*[BasicGet(queue="q")] * 10)
    assert spent(client, channel, BasicRecover(requeue=True)) >= 10
    channel.call(*[BasicGet(queue="q")] * 10)
    channel.channel.send_ack(0, True)
    assert spent(client, channel) == 10


def test_what_a_transaction_looks_through_is_counted() -> None:
    """To acknowledge all there is costs by what is unacknowledged, though none of it may be left to settle."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for _ in range(64):
        channel.publish("m")
    channel.call(TxSelect(), *[BasicGet(queue="q")] * 64)
    for _ in range(2):
        channel.channel.send_ack(0, True)
        assert spent(client, channel) == 64 // UNACKED_TAGS_PER_UNIT
    assert spent(client, channel, BasicRecover(requeue=True)) == 64 // UNACKED_TAGS_PER_UNIT


def test_a_shared_window_that_was_not_shut_lets_nobody_go_on() -> None:
    """Where consumers share a limit, all of them are work when they may have waited, and none otherwise."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), QueueDeclare(queue="idle"), BasicQos(prefetch_count=4, global_=True))
    for _ in range(2 * ASKED_CONSUMERS_PER_UNIT - 1):
        channel.send(BasicConsume(queue="idle"))
    channel.send(BasicConsume(queue="q"))
    for _ in range(5):
        channel.publish("m")
    channel.call()
    channel.channel.send_ack(1, False)
    assert spent(client, channel) == 2
    for tag in (2, 3, 4):
        channel.channel.send_ack(tag, False)
    assert spent(client, channel) == 2
    channel.channel.send_ack(5, False)
    assert spent(client, channel) == 0


def test_who_makes_a_full_queue_ask_its_consumers_pays_for_it() -> None:
    """A message to a queue that is full is work by the consumers that could make room, one to another queue is not."""
    client = Client(Server())
    channel, publisher = client.channel(), client.channel()
    channel.call(QueueDeclare(queue="q", arguments={"x-max-length": 1}), BasicQos(prefetch_count=1))
    channel.call(*[BasicConsume(queue="q")] * (2 * ASKED_CONSUMERS_PER_UNIT))
    for _ in range(2 * ASKED_CONSUMERS_PER_UNIT + 1):
        publisher.publish("m")
        publisher.call()
    publisher.publish("m")
    publisher.publish("m")
    assert spent(client, publisher) == 4
    publisher.publish("m", "no queue")
    assert spent(client, publisher) == ADDRESS_WORK_UNITS


def test_answers_are_counted_by_their_size() -> None:
    """A large message that is asked for again and again is sent a few times a tick."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    channel.publish("x" * 100_000)
    channel.call()
    assert spent(client, channel, BasicGet(queue="q")) == 100_000 // ANSWER_BYTES_PER_UNIT


def test_a_get_looks_only_so_far() -> None:
    """What is behind very many messages whose group another consumer holds is found by a later basic.get."""
    client = Client(Server())
    channel, other = client.channel(), client.channel()
    channel.call(QueueDeclare(queue="q", arguments={"x-group-header": "g"}))
    for _ in range(DISPATCH_BURST_MESSAGES + 200):
        channel.publish("m", properties=encode_properties(Properties(headers={"g": "1"})))
    channel.publish("free", properties=encode_properties(Properties(headers={"g": "2"})))
    channel.call(BasicQos(prefetch_count=1), BasicConsume(queue="q"))
    assert spent(client, other, BasicGet(queue="q")) == DISPATCH_BURST_MESSAGES
    assert other.came() == [BasicGetEmpty()]
    other.call(BasicGet(queue="q"))
    assert [body for _, _, body in other.contents] == ["free"]


def test_a_flood_is_done_in_pieces_and_completely() -> None:
    """However much is asked for at once, all of it is done in the end, in its order."""
    client = Client(Server())
    channel = client.channel()
    count = 2 * TICK_WORK_UNITS // 64 + 7
    channel.send(*[QueueDeclare(queue=f"q{number}", exclusive=True) for number in range(count)])
    client.connection.engine.receive(client.side.sent(), 0.0)
    assert client.connection.engine.is_paused
    assert len(client.server.vhost.queues) < count
    came = channel.call()
    came += channel.call()
    assert [method.queue for method in came if hasattr(method, "queue")] == [f"q{n}" for n in range(count)]


def test_what_a_message_is_compared_with_is_paid_by_its_publisher() -> None:
    """A selector's work on a long value counts for the connection that published it, which then waits its turn."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for number in range(20):
        selector = f"a LIKE '%a_b%' OR b = {number}"
        channel.call(QueueBind(queue="q", exchange="amq.direct", routing_key="k", arguments={"x-selector": selector}))
    properties = encode_properties(Properties(headers={"a": "a" * 100_000}))
    channel.publish("m", "k", "amq.direct", properties)
    assert spent(client, channel) >= 20 * 100_000 // 16


def test_work_beyond_a_tick_is_paid_out_of_the_next() -> None:
    """A connection that had four ticks' work done for one message is not heard for as long."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    engine = client.connection.engine
    engine.refresh()
    engine.spend(4 * TICK_WORK_UNITS)
    channel.publish("m")
    up = client.side.sent()
    engine.receive(up, 0.0)
    turns = 0
    while client.server.vhost.queues["q"].message_count == 0:
        engine.refresh()
        engine.receive(b"", 0.0)
        turns += 1
    assert turns == 4


def test_a_message_that_is_too_much_work_costs_its_publisher() -> None:
    """The channel is closed with 406, and what was done before that is paid for."""
    client = Client(Server())
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    for number in range(50):
        selector = f"a LIKE '%a_b%' OR b = {number}"
        channel.call(QueueBind(queue="q", exchange="amq.direct", routing_key="k", arguments={"x-selector": selector}))
    properties = encode_properties(Properties(headers={"a": "a" * 100_000}))
    channel.publish("m", "k", "amq.direct", properties)
    assert spent(client, channel) > MESSAGE_WORK_UNITS
    reason = channel.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 406
    assert client.server.vhost.queues["q"].message_count == 0


def test_channels_that_fail_are_counted() -> None:
    """A client whose channels all fail at once has some of them closed in a tick, and the others in the next ones."""
    server = Server()
    client = Client(server)
    count = 2 * TICK_WORK_UNITS // FAILED_CHANNEL_UNITS
    channels = [client.channel() for _ in range(count)]
    for channel in channels:
        channel.send(QueueDeclare(queue="missing", passive=True))
    engine = client.connection.engine
    engine.refresh()
    engine.receive(client.side.sent(), 0.0)
    failed = [len(server.host.failed)]
    while engine.is_paused:
        engine.refresh()
        engine.receive(b"", 0.0)
        failed.append(len(server.host.failed))
    assert max(after - before for before, after in pairwise([0, *failed])) <= TICK_WORK_UNITS // FAILED_CHANNEL_UNITS
    assert failed[-1] == count
