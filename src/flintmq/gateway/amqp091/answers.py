"""What a channel owes its client: replies and confirms, in order, each once what it speaks of is safe."""

from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.broker.counters.traffic import Traffic
from flintmq.gateway.amqp091.consumer import ChannelConsumer
from flintmq.protocol.amqp091.channel import Channel
from flintmq.wire.amqp091.methods import BasicNack, Method, encode_method

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.deliveries import Deliveries


@final
class Reply:
    """An encoded answer, the consumer that may start once it is out, and the content that goes with it.

    `got_by` are deliveries that wait until it is out, where it is one itself.
    """

    def __init__(
        self,
        payload: bytes,
        consumer: ChannelConsumer | None,
        properties: bytes | None = None,
        pieces: list[bytes] | None = None,
    ) -> None:
        self.payload = payload
        self.consumer = consumer
        self.properties = properties
        self.pieces = pieces if pieces is not None else []
        self.got_by: Deliveries | None = None


@final
class _Promise:
    """What may be said once a batch is durable: replies, and confirms up to a publish but for those turned away."""

    def __init__(self, batch: int, confirm: i64, turned_away: list[int], replies: list[Reply]) -> None:
        self.batch = batch
        self.confirm: i64 = confirm
        self.turned_away = turned_away
        self.replies = replies
        # Whether a confirm is all there is to say.
        self.is_confirm = not turned_away and not replies


@final
class Answers:
    """`published` counts publishes since confirm.select, of which all up to `confirmed` are answered; `stored` says
    that something of this tick must be durable.
    """

    def __init__(self, channel: Channel, traffic: Traffic) -> None:
        self.is_confirming = False
        self.published: i64 = 0
        self.stored = False
        self.confirmed: i64 = 0
        self._channel = channel
        self._traffic = traffic
        self._turned_away: list[int] = []
        self._replies: list[Reply] = []
        self._promises: deque[_Promise] = deque()

    @property
    def is_behind(self) -> bool:
        """Whether something waits to be said, so that what comes next has to wait as well."""
        return bool(self._replies) or bool(self._promises)

    @property
    def owes_reply(self) -> bool:
        return bool(self._replies) or any(promise.replies for promise in self._promises)

    def add(self, method: Method) -> None:
        """A reply in its turn, at the end of the tick at the earliest."""
        self.wait(Reply(encode_method(method), None))

    def wait(self, reply: Reply) -> None:
        """The same for a reply that is encoded."""
        self._replies.append(reply)

    def give(self, reply: Reply) -> bool:
        """A reply that waits for nothing of its own; False when it has to wait for its turn."""
        if self.is_behind:
            self._replies.append(reply)
            return False
        self._say(reply)
        return True

    def turn_away(self) -> None:
        """The publish counted last is not to be confirmed, but refused."""
        self._turned_away.append(int(self.published))

    def end_tick(self, batch: int, durable: int) -> bool:
        """What came in this tick is safe with `batch`; True when something has to wait for that."""
        must_wait = (self.stored or bool(self._replies)) and batch > durable
        self.stored = False
        promise = _Promise(batch, self.published, self._turned_away, self._replies)
        self._replies = []
        self._turned_away = []
        if must_wait or self._promises:
            if not must_wait:
                promise.batch = self._promises[-1].batch
            self._promises.append(promise)
            return True
        self._keep(promise)
        return False

    def on_durable(self, durable: int) -> bool:
        """Keep the promises of batches up to this one; True while there are more to wait for."""
        promises = self._promises
        kept: _Promise | None = None
        while promises and promises[0].batch <= durable:
            promise = promises.popleft()
            # One confirm for as many batches as became durable at once.
            if kept is not None and not (kept.is_confirm and promise.is_confirm):
                self._keep(kept)
            kept = promise
        if kept is not None:
            self._keep(kept)
        return bool(promises)

    def _keep(self, promise: _Promise) -> None:
        for reply in promise.replies:
            self._say(reply)
        if self.is_confirming:
            for tag in promise.turned_away:
                self._confirm(tag - 1)
                self._channel.send(BasicNack(delivery_tag=tag))
                self.confirmed = tag
            self._confirm(promise.confirm)

    def _confirm(self, upto: i64) -> None:
        if upto > self.confirmed:
            count = upto - self.confirmed
            self._channel.send_ack(upto, count > 1)
            self._traffic.confirmed += count
            self.confirmed = upto

    def refuse(self) -> None:
        """Nothing that was published and not confirmed yet will become safe."""
        if self.published > self.confirmed:
            self._channel.send(BasicNack(delivery_tag=self.published, multiple=True, requeue=False))
            self.confirmed = self.published

    def keep_all(self) -> None:
        """Nothing of what was published has to become durable, and there is nothing else to say."""
        self._keep(_Promise(0, self.published, self._turned_away, []))
        self._turned_away = []

    @property
    def waits_for_disk(self) -> bool:
        return self.stored or bool(self._promises)

    def forget(self) -> None:
        self.stored = False
        self._turned_away = []
        self._promises.clear()
        self._replies = []

    def _say(self, reply: Reply) -> None:
        properties = reply.properties
        if properties is not None:
            self._channel.send_pieces(reply.payload, properties, reply.pieces)
            if reply.got_by is not None:
                reply.got_by.go_on_behind_get()
            return
        self._channel.send_payload(reply.payload)
        if reply.consumer is not None:
            reply.consumer.start()
