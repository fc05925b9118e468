"""Sessions as well-behaved clients have them, recorded: what fuzzing begins with."""

from collections.abc import Callable
from typing import Final

from flintmq.base.values import Timestamp
from flintmq.wire.amqp091 import methods as m
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, ClientChannel, Server

RICH: Final = encode_properties(
    Properties(
        content_type="text/plain",
        headers={"a": 1, "b": [True, None, {"c": "d"}], "CC": ["other"], "x-match": "all", "bytes": b"\xff"},
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="q",
        expiration="60000",
        message_id="m",
        timestamp=1,
        user_id="u",
    )
)


class Recording(Client):
    """Remembers all that went over the wire, either way."""

    up = b""
    down = b""

    def tick(self) -> None:
        while True:
            up = self.side.sent()
            self.connection.engine.refresh()
            if up:
                self.connection.engine.receive(up, 0.0)
            while self.server.gateway.end_tick():
                pass
            down = b"".join(self.output.take())
            if down:
                self.side.engine.receive(down, 0.0)
            self.up += up
            self.down += down
            if not up and not down:
                return


def _publisher(channel: ClientChannel) -> None:
    channel.call(
        m.QueueDeclare(queue="q", durable=True, arguments={"x-message-ttl": 1000, "x-max-length": 10}),
        m.ExchangeDeclare(exchange="x", type="topic", durable=True, arguments={"alternate-exchange": "amq.fanout"}),
        m.QueueBind(queue="q", exchange="x", routing_key="a.*.#"),
        m.ConfirmSelect(),
    )
    for number in range(3):
        channel.publish("body" * number, "a.b", "x", RICH, mandatory=True)
    channel.publish("lost", "none", "x", mandatory=True)
    channel.publish("x" * 5000, "q")
    channel.call(m.QueuePurge(queue="q"), m.QueueUnbind(queue="q", exchange="x", routing_key="a.*.#"))


# True of RICH, and of much that a spoiled byte makes of either.
SELECTOR: Final = "JMSPriority BETWEEN -.5 AND 2 + 0x7F AND (none IS NULL OR \"x-n\" NOT LIKE '%!%_' ESCAPE '!')"


def _consumer(channel: ClientChannel) -> None:
    channel.call(
        m.QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": "amq.direct", "x-max-priority": 5}),
        m.BasicQos(prefetch_count=3),
        m.BasicConsume(queue="q", consumer_tag="c", arguments={"x-priority": 3, "x-selector": SELECTOR}),
    )
    for number in range(6):
        channel.publish(str(number), properties=RICH)
    channel.call()
    channel.channel.send_ack(1, False)
    channel.call(m.BasicNack(delivery_tag=2, requeue=True), m.BasicReject(delivery_tag=3, requeue=False))
    channel.call(m.BasicRecover(requeue=True), m.BasicCancel(consumer_tag="c"), m.BasicGet(queue="q"))
    channel.call(m.QueueDelete(queue="q"))


def _letters(channel: ClientChannel) -> None:
    """With a history that no broker wrote, in headers that brokers read."""
    channel.call(
        m.QueueDeclare(queue="dead", arguments={"x-dead-letter-exchange": "", "x-message-ttl": 0}),
        m.QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
        m.ExchangeDeclare(exchange="later", type="x-delayed-message", arguments={"x-delayed-type": "direct"}),
        m.BasicConsume(queue="q", consumer_tag="c"),
    )
    death = {"queue": "q", "reason": "rejected", "count": 5, "routing-keys": ["k"], "time": Timestamp(1)}
    history = {"x-death": [death, 7], "x-first-death-queue": "q", "CC": ["none"], "BCC": ["dead"], "x-delay": -1}
    for number in range(3):
        channel.publish(str(number), properties=encode_properties(Properties(headers={**history, "n": number})))
    channel.publish("later", "q", "later", encode_properties(Properties(headers={**history, "x-delay": 5})))
    channel.call()
    channel.call(
        m.BasicReject(delivery_tag=1, requeue=False), m.BasicNack(delivery_tag=3, multiple=True, requeue=False)
    )


def _transactions(channel: ClientChannel) -> None:
    channel.call(m.QueueDeclare(queue="q", durable=True), m.TxSelect())
    channel.publish("one")
    channel.call(m.TxCommit(), m.BasicGet(queue="q"))
    channel.channel.send_ack(1, True)
    channel.publish("two")
    channel.call(m.TxRollback(), m.TxCommit(), m.ChannelFlow(active=True), m.AccessRequest())


def _streams(channel: ClientChannel) -> None:
    channel.call(m.QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    for number in range(4):
        channel.publish(str(number), "s", properties=RICH)
    channel.call()
    channel.call(
        m.StreamQuery(queue="s", timestamp=1),
        m.StreamSpan(queue="s", offset=0, end_offset=4, max_bytes=1000),
        m.StreamFetch(queue="s", offset=0, end_offset=4, max_bytes=1000),
        m.BasicQos(prefetch_count=2),
        m.BasicConsume(queue="s", consumer_tag="r", arguments={"x-stream-offset": "first"}),
    )


def _exchanges(channel: ClientChannel) -> None:
    channel.call(
        m.ExchangeDeclare(exchange="e", type="fanout", auto_delete=True, internal=True),
        m.ExchangeDeclare(exchange="h", type="headers"),
        m.ExchangeBind(destination="e", source="h", arguments={"x-match": "any", "a": 1}),
        m.QueueDeclare(queue="", exclusive=True, auto_delete=True),
        m.QueueBind(queue="", exchange="e"),
    )
    channel.publish("m", "k", "h", RICH)
    channel.call(
        m.ExchangeUnbind(destination="e", source="h", arguments={"x-match": "any", "a": 1}),
        m.ExchangeDelete(exchange="h"),
    )
    channel.channel.close()


_SESSIONS: Final[tuple[Callable[[ClientChannel], None], ...]] = (
    _publisher,
    _consumer,
    _letters,
    _transactions,
    _streams,
    _exchanges,
)


def record() -> list[tuple[bytes, bytes]]:
    """What each session's client sent, and what its server answered, the handshake first."""
    recorded = []
    for session in _SESSIONS:
        client = Recording(Server())
        session(client.channel())
        client.tick()
        recorded.append((client.up, client.down))
    return recorded
