"""Looking at a broker after a crash, without taking anything away."""

from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from flintmq.wire.amqp091.properties import headers
from tests.crash.clients import ADDRESSES, FANOUT, QUEUES, STREAM, TOPIC, Declarer, name_in
from tests.crash.ledger import Seen
from tests.sockets import AmqpSocket

# Of streams, which are acknowledged by halves of it.
PREFETCH = 10_000


class Inspector:
    """A connection that looks. `contents` shows a queue as the next consumer would get it."""

    def __init__(self, port: int) -> None:
        self._connection = AmqpSocket(port).open()
        self._connection.open_channel()

    def close(self) -> None:
        self._connection.close()

    def declare_all(self) -> None:
        call = self._connection.call
        call(1, ExchangeDeclare(exchange=FANOUT, type="fanout", durable=True), ExchangeDeclareOk)
        call(1, ExchangeDeclare(exchange=TOPIC, type="topic", durable=True), ExchangeDeclareOk)
        for queue in QUEUES:
            call(1, QueueDeclare(queue=queue, durable=True), QueueDeclareOk)
        call(1, QueueDeclare(queue=STREAM, durable=True, arguments={"x-queue-type": "stream"}), QueueDeclareOk)
        for exchange, key, queues in ADDRESSES:
            for queue in queues if exchange else ():
                pattern = "a.#" if key else ""
                call(1, QueueBind(queue=queue, exchange=exchange, routing_key=pattern), QueueBindOk)

    def contents(self, queue: str) -> list[Seen]:
        return [Seen(name_in(body), delivery.redelivered) for delivery, _, body in self._read(queue, {})]

    def stream_from(self, offset: int) -> list[str]:
        """The records of the stream from this offset on, which has to be the offset they say they have."""
        names: list[str] = []
        for _, properties, body in self._read(STREAM, {"x-stream-offset": offset}, offset):
            assert headers(properties)["x-stream-offset"] == offset + len(names)
            names.append(name_in(body))
        return names

    def _read(
        self, queue: str, arguments: dict[str, object], already: int = 0
    ) -> list[tuple[BasicDeliver, bytes, bytes]]:
        """Everything there is, on a channel whose end puts it back."""
        connection = self._connection
        connection.open_channel(2)
        count = connection.call(2, QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count - already
        if queue == STREAM:
            # Streams ask for a prefetch, and acknowledging takes nothing away from them.
            connection.call(2, BasicQos(prefetch_count=PREFETCH), BasicQosOk)
        connection.call(2, BasicConsume(queue=queue, arguments=arguments), BasicConsumeOk)
        read = []
        for _ in range(count):
            delivery = connection.expect(BasicDeliver, 2)
            read.append((delivery, *connection.read_content()))
            if queue == STREAM and delivery.delivery_tag % (PREFETCH // 2) == 0:
                connection.send_method(2, BasicAck(delivery_tag=delivery.delivery_tag, multiple=True))
        connection.call(2, ChannelClose(reply_code=200), ChannelCloseOk)
        return read

    def settle_declarations(self, declarer: Declarer) -> None:
        """What was declared is there, what was deleted is not; then all of it is deleted."""
        for queue in sorted(declarer.there | declarer.open | declarer.deleted):
            found = self.message_count(queue)
            if queue in declarer.filled:
                assert found == declarer.MESSAGES, f"{queue} has {found} messages"
            elif queue in declarer.there:
                assert found is not None, f"{queue} was declared and is lost"
            elif queue in declarer.deleted:
                assert found is None, f"{queue} was deleted and is back"
            self._connection.call(1, QueueDelete(queue=queue), QueueDeleteOk)

    def message_count(self, queue: str) -> int | None:
        """None when there is no such queue."""
        connection = self._connection
        connection.open_channel(2)
        connection.send_method(2, QueueDeclare(queue=queue, passive=True))
        answer = connection.read_frame().method
        if isinstance(answer, ChannelClose):
            assert answer.reply_code == 404, answer
            connection.send_method(2, ChannelCloseOk())
            return None
        assert isinstance(answer, QueueDeclareOk), answer
        connection.call(2, ChannelClose(reply_code=200), ChannelCloseOk)
        return answer.message_count
