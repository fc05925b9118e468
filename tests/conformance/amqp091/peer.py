"""A client that does as a test says, frame by frame, and sorts what comes: answers, deliveries, returns, confirms."""

import itertools
from collections import deque
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEARTBEAT
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.sockets import NO_PROPERTIES, AmqpSocket, Stream, frame, header_frame, method_frame

M = TypeVar("M", bound=Method)
PERSISTENT: Final = encode_properties(Properties(delivery_mode=2))
_NUMBERS = itertools.count(1)
_ASIDE = (BasicAck, BasicNack, BasicCancel, ChannelFlow, ConnectionBlocked, ConnectionUnblocked)


def fresh(what: str) -> str:
    """A name nobody else has."""
    return f"{what}-{next(_NUMBERS)}"


@dataclass(frozen=True)
class Content:
    """A method with content."""

    channel: int
    method: Method
    properties: bytes
    body: bytes

    @property
    def delivery(self) -> BasicDeliver:
        assert isinstance(self.method, BasicDeliver)
        return self.method

    @property
    def tag(self) -> int:
        assert isinstance(self.method, BasicDeliver | BasicGetOk)
        return self.method.delivery_tag

    @property
    def redelivered(self) -> bool:
        assert isinstance(self.method, BasicDeliver | BasicGetOk)
        return self.method.redelivered


class Peer(AmqpSocket):
    """Channel 1 is open from the start. `aside` holds what the server says unasked."""

    def __init__(self, to: int | Stream, **capabilities: bool) -> None:
        super().__init__(to)
        self.delivered: deque[Content] = deque()
        self.returned: deque[Content] = deque()
        self.aside: deque[Method] = deque()
        self._capabilities = capabilities
        self._answers: deque[tuple[int, Method]] = deque()

    def start(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> Self:
        self.enter(vhost, user, password)
        self.expect(ConnectionOpenOk)
        self.open_channel()
        return self

    def enter(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> None:
        """The handshake up to connection.open, whose answer is still to come."""
        self.begin()
        response = f"\0{user}\0{password}".encode()
        start_ok = ConnectionStartOk(client_properties={"capabilities": self._capabilities}, response=response)
        tune = self.call(0, start_ok, ConnectionTune)
        self.send_method(0, ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max, heartbeat=0))
        self.send_method(0, ConnectionOpen(virtual_host=vhost))

    # -- in -----------------------------------------------------------------------------------------------------

    def answer(self) -> tuple[int, Method]:
        """The next method that is an answer, or a close, and its channel."""
        while not self._answers:
            self._sort()
        return self._answers.popleft()

    def _sort(self) -> None:
        """Read one method, with its content where it has one, and put it where it belongs."""
        found = self.read_frame()
        if found.kind == FRAME_HEARTBEAT:
            return
        method = found.method
        if isinstance(method, BasicDeliver):
            self.delivered.append(Content(found.channel, method, *self.read_content()))
        elif isinstance(method, BasicReturn):
            self.returned.append(Content(found.channel, method, *self.read_content()))
        elif isinstance(method, _ASIDE):
            self.aside.append(method)
        else:
            self._answers.append((found.channel, method))

    def ask(self, method: Method, kind: type[M], channel: int = 1) -> M:
        """Send a method; its answer has to be of that kind."""
        self.send_method(channel, method)
        number, answer = self.answer()
        assert isinstance(answer, kind), f"{kind.__name__} was due, not {answer}"
        assert number == channel
        return answer

    def refused(self, method: Method | None, code: int, channel: int = 1) -> str:
        """This closes the channel with that code; agrees, opens it again, and returns the text."""
        if method is not None:
            self.send_method(channel, method)
        number, close = self.answer()
        assert isinstance(close, ChannelClose), f"channel.close {code} was due, not {close}"
        assert (number, close.reply_code) == (channel, code), close
        self.send_method(channel, ChannelCloseOk())
        self.ask(ChannelOpen(), ChannelOpenOk, channel)
        return close.reply_text

    def ended(self, method: Method | None, code: int, channel: int = 1) -> str:
        """This closes the connection with that code; agrees, sees the server hang up, and returns the text."""
        if method is not None:
            self.send_method(channel, method)
        number, close = self.answer()
        assert isinstance(close, ConnectionClose), f"connection.close {code} was due, not {close}"
        assert (number, close.reply_code) == (0, code), close
        self.send_method(0, ConnectionCloseOk())
        self.expect_end()
        return close.reply_text

    def sync(self, channel: int = 1) -> None:
        """Everything sent so far has had its effect, and what the server has to say of it is here.

        The second answer is written behind all that the tick of the first one delivered.
        """
        for _ in range(2):
            self.ask(QueueDeclare(queue="", exclusive=True, auto_delete=True), QueueDeclareOk, channel)

    def deliveries(self, count: int) -> list[Content]:
        """That many deliveries, waited for."""
        while len(self.delivered) < count:
            self._sort()
        return [self.delivered.popleft() for _ in range(count)]

    def bodies(self, count: int) -> list[bytes]:
        return [content.body for content in self.deliveries(count)]

    def waits(self, kind: type[M]) -> M:
        """The next unasked method of this kind, waited for."""
        while True:
            for method in self.aside:
                if isinstance(method, kind):
                    self.aside.remove(method)
                    return method
            self._sort()

    def silent(self, channel: int = 1) -> bool:
        """No delivery has come, and none is on its way."""
        self.sync(channel)
        return not self.delivered

    # -- out ----------------------------------------------------------------------------------------------------

    def queue(self, name: str = "", channel: int = 1, **declaration: object) -> str:
        """Declare a queue, an exclusive one unless told otherwise; returns its name."""
        declaration.setdefault("exclusive", True)
        method = QueueDeclare(queue=name, **declaration)  # type: ignore[arg-type]
        return self.ask(method, QueueDeclareOk, channel).queue

    def count(self, queue: str) -> int:
        """How many messages are ready."""
        return self.ask(QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count

    def exchange(self, type: str = "direct", name: str = "", **declaration: object) -> str:
        """Declare an exchange; returns its name."""
        name = name or fresh("exchange")
        self.ask(ExchangeDeclare(exchange=name, type=type, **declaration), ExchangeDeclareOk)  # type: ignore[arg-type]
        return name

    def bind(self, queue: str, exchange: str, key: str = "") -> None:
        self.ask(QueueBind(queue=queue, exchange=exchange, routing_key=key), QueueBindOk)

    def publish(
        self,
        body: bytes,
        key: str = "",
        exchange: str = "",
        properties: bytes = NO_PROPERTIES,
        channel: int = 1,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        method = BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate)
        room = 100_000
        parts = [frame(FRAME_BODY, channel, body[start : start + room]) for start in range(0, len(body), room)]
        self.send(method_frame(channel, method), header_frame(channel, len(body), properties), *parts)

    def confirms(self, channel: int = 1) -> None:
        self.ask(ConfirmSelect(), ConfirmSelectOk, channel)

    def confirmed(self, upto: int) -> None:
        """Wait until all publishes up to this one are confirmed."""
        while self.waits(BasicAck).delivery_tag < upto:
            pass

    def prefetch(self, count: int, size: int = 0, channel: int = 1) -> None:
        self.ask(BasicQos(prefetch_count=count, prefetch_size=size), BasicQosOk, channel)

    def consume(self, queue: str, tag: str = "", channel: int = 1, **subscription: object) -> str:
        method = BasicConsume(queue=queue, consumer_tag=tag, **subscription)  # type: ignore[arg-type]
        return self.ask(method, BasicConsumeOk, channel).consumer_tag

    def get(self, queue: str, no_ack: bool = True, channel: int = 1) -> Content | None:
        self.send_method(channel, BasicGet(queue=queue, no_ack=no_ack))
        _, answer = self.answer()
        if isinstance(answer, BasicGetEmpty):
            return None
        assert isinstance(answer, BasicGetOk), answer
        return Content(channel, answer, *self.read_content())

    def body(self, queue: str) -> bytes | None:
        """The next message's body, taken; None when there is none."""
        found = self.get(queue)
        return None if found is None else found.body

    def ack(self, tag: int, multiple: bool = False, channel: int = 1) -> None:
        self.send_method(channel, BasicAck(delivery_tag=tag, multiple=multiple))
