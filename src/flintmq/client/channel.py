"""A channel of AMQP 0-9-1 without its socket: requests, publishes, confirms, and deliveries with their settlement."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from flintmq.base.errors import FlintError, LocalProtocolError, SyntaxFault, UnexpectedFrame
from flintmq.client.confirms import Confirms
from flintmq.client.delivery import Delivery, Inbox, Returned
from flintmq.client.errors import ConsumerCancelled, PublishFailed, channel_error
from flintmq.client.publish import Body, Publish, Publishable, body_bytes, encode_publish, encoded
from flintmq.client.tags import Tags
from flintmq.client.waitable import Answer, M, Request, Waitable
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.output import Output
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.method_codec import decode_method
from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    Method,
)
from flintmq.wire.amqp091.properties import Properties
from flintmq.wire.amqp091.tables import encode_shortstr, pull_shortstr

# basic.deliver: method id (4 bytes), consumer tag, delivery tag (8) and redelivered (1), then the address.
_TAG_START: Final = 4
_TAG_AND_FLAG_BYTES: Final = 9


@final
class ClientChannel(ChannelOwner):
    """A channel. `ended` becomes ready when it is over and its number is free; `closed` has the reason for its end."""

    def __init__(self, output: Output) -> None:
        self.closed: FlintError | None = None
        self.ended: Waitable = Waitable()
        # Not ready while the server has stopped publishes (channel.flow).
        self.flow: Waitable = Waitable()
        self.flow.ready()
        self._confirms: Confirms | None = None
        self._returned: list[Returned] = []
        self._is_closing = False
        self._output = output
        self._channel: Channel | None = None
        self._requests: deque[Request[Any]] = deque()
        # Keys are encoded consumer tags.
        self._inboxes: dict[bytes, Inbox] = {}
        self._consumers = 0
        self._settled = Tags()
        # Decoded and encoded fields of the last delivery and publish, because the next one mostly has the same.
        self._inbox: Inbox | None = None
        self._inbox_tag = b""
        self._address = b""
        self._exchange = ""
        self._routing_key = ""
        self._publish_exchange = ""
        self._publish_key = ""
        self._publish_mandatory = False
        self._publish_method = encode_publish("", "", False)

    def attach(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def is_open(self) -> bool:
        return self.closed is None

    @property
    def channel(self) -> Channel:
        """The engine's channel. Raises what closed it."""
        if self.closed is not None:
            raise self.closed.with_traceback(None)
        channel = self._channel
        assert channel is not None
        return channel

    # -- requests -----------------------------------------------------------------------------------------------

    def ask(self, request: Request[M]) -> Request[M]:
        """Send a request, which becomes ready when its answer arrives. Answers arrive in the order of the requests."""
        self.channel.send(request.method)
        self._requests.append(request)
        return request

    def expect(self, request: Request[Any]) -> None:
        """Wait for the answer to a request that was sent already."""
        self._requests.append(request)

    def on_method(self, method: Method) -> None:
        if isinstance(method, BasicNack):
            self._confirmed(method.delivery_tag, method.multiple, False)
        elif isinstance(method, BasicCancel):
            self._cancelled(method)
        elif isinstance(method, ChannelFlow):
            self._flow(method.active)
        else:
            self._answer(Answer(method))

    def _answer(self, answer: Answer[Any]) -> None:
        method = answer.method
        requests = self._requests
        if not requests or type(method) not in requests[0].answers:
            raise UnexpectedFrame(f"{method.name} answers no request")
        request = requests.popleft()
        if isinstance(method, BasicGetOk) and isinstance(request.method, BasicGet) and request.method.no_ack:
            self._settled.add(method.delivery_tag, method.delivery_tag)
        if isinstance(request.method, ConfirmSelect):
            self._confirms = Confirms()
        request.answer(answer)

    def _flow(self, active: bool) -> None:
        if active:
            self.flow.ready()
        else:
            self.flow.is_ready = False
        self.channel.send(ChannelFlowOk(active=active))

    # -- publishing ---------------------------------------------------------------------------------------------

    def publish(
        self, exchange: str, routing_key: str, body: Body, properties: bytes | Properties | None, mandatory: bool
    ) -> None:
        """Write a message to the output. Raises TypeError or LocalProtocolError if it cannot be encoded."""
        channel = self.channel
        if (
            exchange != self._publish_exchange
            or routing_key != self._publish_key
            or mandatory != self._publish_mandatory
        ):
            self._publish_method = encode_publish(exchange, routing_key, mandatory)
            self._publish_exchange = exchange
            self._publish_key = routing_key
            self._publish_mandatory = mandatory
        channel.send_content(self._publish_method, encoded(properties), body_bytes(body))
        if self._confirms is not None:
            self._confirms.count()

    def publish_some(self, publishes: Iterator[Publishable], max_bytes: i64) -> bool:
        """Publish until the output holds `max_bytes`, about. False if there are no more messages."""
        output = self._output
        for given in publishes:
            exchange, routing_key, body, properties, mandatory = given if len(given) == 5 else Publish(*given)
            self.publish(exchange, routing_key, body, properties, mandatory)
            if output.backlog >= max_bytes:
                return True
        return False

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        self._confirmed(delivery_tag, multiple, True)

    def _confirmed(self, delivery_tag: i64, multiple: bool, taken: bool) -> None:
        confirms = self._confirms
        if confirms is None:
            raise UnexpectedFrame("a confirm for a channel without confirms")
        confirms.settle(delivery_tag, multiple, taken)

    @property
    def confirms(self) -> Confirms:
        """The publishes that wait for confirms. Raises LocalProtocolError if the channel has no confirms."""
        confirms = self._confirms
        if confirms is None:
            raise LocalProtocolError("this channel has no confirms; open it with channel(confirms=True)")
        return confirms

    def report(self) -> None:
        """Raise PublishFailed for what the server refused or returned. Call it when `confirms` is ready."""
        confirms = self.confirms
        confirms.check()
        nacked = confirms.report()
        returned = self.take_returned()
        if nacked or returned:
            raise PublishFailed(nacked, returned)

    @property
    def has_failures(self) -> bool:
        """Whether the server has refused or returned messages that were not reported yet."""
        return self.confirms.has_refusals or bool(self._returned)

    def take_returned(self) -> list[Returned]:
        returned = self._returned
        self._returned = []
        return returned

    # -- messages in --------------------------------------------------------------------------------------------

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        if read_i32_be(method, 0) == methods.BASIC_DELIVER:
            self._deliver(method, properties, body)
            return
        came = decode_method(method)
        if isinstance(came, BasicReturn):
            self._returned.append(
                Returned(came.reply_code, came.reply_text, came.exchange, came.routing_key, properties, body)
            )
        else:
            self._answer(Answer(came, properties, body))

    def _deliver(self, method: bytes, properties: bytes, body: bytes) -> None:
        size: i64 = len(method)
        stop: i64 = _TAG_START + 1 + method[_TAG_START] if size > _TAG_START else size
        start: i64 = stop + _TAG_AND_FLAG_BYTES
        if start >= size:
            raise SyntaxFault("basic.deliver: ends within its arguments")
        tag = method[_TAG_START:stop]
        inbox = self._inbox
        if inbox is None or tag != self._inbox_tag:
            inbox = self._inboxes.get(tag)
            if inbox is None:
                raise UnexpectedFrame(f"a delivery to consumer tag {tag[1:]!r}, which this channel does not have")
            self._inbox = inbox
            self._inbox_tag = tag
        address = method[start:]
        if address != self._address or not address:
            exchange, middle = pull_shortstr(address, 0)
            routing_key, end = pull_shortstr(address, middle)
            if end != len(address):
                raise SyntaxFault("basic.deliver: bytes are left after the last argument")
            self._address = address
            self._exchange = exchange
            self._routing_key = routing_key
        delivery_tag: i64 = read_i64_be(method, stop)
        if inbox.no_ack:
            self._settled.add(delivery_tag, delivery_tag)
        inbox.put(
            Delivery(
                delivery_tag,
                (method[stop + 8] & 1) != 0,
                self._exchange,
                self._routing_key,
                properties,
                body,
            )
        )

    # -- consuming ----------------------------------------------------------------------------------------------

    def subscribe(self, request: Request[Any]) -> Inbox:
        """Send basic.consume with a new consumer tag, and return the inbox for its deliveries."""
        method = request.method
        assert isinstance(method, BasicConsume)
        self._consumers += 1
        method.consumer_tag = f"c{self._consumers}"
        self.ask(request)
        inbox = Inbox(method.consumer_tag, method.no_ack)
        self._inboxes[encode_shortstr(inbox.consumer_tag)] = inbox
        return inbox

    def unsubscribed(self, inbox: Inbox) -> list[Delivery]:
        """End a subscription. Deliveries that were not taken go back to the queue. With no_ack, they are returned: the
        server has forgotten them.
        """
        self._inboxes.pop(encode_shortstr(inbox.consumer_tag), None)
        self._inbox = None
        left = inbox.empty()
        if inbox.no_ack:
            return left
        if self.closed is None:
            self.nack_all(left, True)
        return []

    def _cancelled(self, method: BasicCancel) -> None:
        if not method.no_wait:
            self.channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))
        inbox = self._inboxes.get(encode_shortstr(method.consumer_tag))
        if inbox is not None:
            inbox.fail(ConsumerCancelled(f"the server cancelled consumer '{inbox.consumer_tag}': its queue is gone"))

    # -- settling -----------------------------------------------------------------------------------------------

    def ack(self, delivery_tag: i64, multiple: bool) -> None:
        self.channel.send_ack(delivery_tag, multiple)
        self._note(delivery_tag, multiple)

    def nack(self, delivery_tag: i64, multiple: bool, requeue: bool) -> None:
        self.channel.send(BasicNack(delivery_tag=delivery_tag, multiple=multiple, requeue=requeue))
        self._note(delivery_tag, multiple)

    def ack_all(self, deliveries: list[Delivery]) -> None:
        """Acknowledge exactly these deliveries, with as few frames as possible. Those that are settled already are left
        out.
        """
        for tag, multiple in self._settlements(deliveries):
            self.ack(tag, multiple)

    def nack_all(self, deliveries: list[Delivery], requeue: bool) -> None:
        """Requeue or reject exactly these deliveries. Those that are settled already are left out."""
        for tag, multiple in self._settlements(deliveries):
            self.nack(tag, multiple, requeue)

    def _settlements(self, deliveries: list[Delivery]) -> Iterator[tuple[int, bool]]:
        """Yield a tag and the flag multiple for each frame. Send a frame before the next one is asked for, because it
        may be what allows the next one to be multiple.
        """
        settled = self._settled
        for first, last in self._runs(deliveries):
            if first == settled.floor + 1:
                yield last, True
            else:
                for tag in range(first, last + 1):
                    yield tag, False

    def _runs(self, deliveries: list[Delivery]) -> list[tuple[int, int]]:
        """Return the first and last tags of runs of neighbouring tags that are not settled."""
        settled = self._settled
        runs: list[tuple[int, int]] = []
        first: i64 = 0
        last: i64 = -1
        for delivery in deliveries:
            tag: i64 = delivery.delivery_tag
            if tag in settled:
                continue
            if tag != last + 1:
                if first > 0:
                    runs.append((first, last))
                first = tag
            last = tag
        if first > 0:
            runs.append((first, last))
        return runs

    def _note(self, delivery_tag: i64, multiple: bool) -> None:
        if multiple:
            self._settled.add_up_to(delivery_tag)
        else:
            self._settled.add(delivery_tag, delivery_tag)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask the server to close the channel; `ended` becomes ready when it agrees. No effect on a closed channel."""
        if self.closed is None:
            self._is_closing = True
            self.channel.close()

    def on_closed(self, error: FlintError | None) -> None:
        reason = channel_error(error)
        self.closed = reason
        requests = self._requests
        self._requests = deque()
        for request in requests:
            request.fail(reason)
        for inbox in self._inboxes.values():
            inbox.lose(reason)
        if self._confirms is not None:
            self._confirms.fail(reason)
        self.flow.fail(reason)
        if not self._is_closing:
            self.ended.ready()

    def on_released(self) -> None:
        self.ended.ready()
