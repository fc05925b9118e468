"""The load a broker is killed under: publishers, consumers and declarers, each a thread with a connection of its own.

They end when their connection does. What they did and learned stays in their attributes, for the ledgers.
"""

import random
import threading
from abc import abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from flintmq.base.errors import ClosedByPeer, ConnectionForced, FlintError
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.confirms import CHANNEL, ConfirmedPublisher
from tests.crash.ledger import Seen
from tests.sockets import NO_PROPERTIES, PERSISTENT, AmqpSocket, Frame, method_frame, raise_if_closed

FANOUT: Final = "crash.fanout"
TOPIC: Final = "crash.topic"
# The queues that one message of the fanout exchange goes to; nobody consumes from the last.
COPIES: Final = ("copy.1", "copy.2", "copy.3")
DIRECT: Final = "direct"
TOPICAL: Final = "topical"
# Where consumers publish to learn that what they acknowledged before is synced.
MARKS: Final = "marks"
QUEUES: Final = (*COPIES, DIRECT, TOPICAL, MARKS)
STREAM: Final = "stream"

# Exchange, routing key, and the queues it leads to.
ADDRESSES: Final = (
    (FANOUT, "", COPIES),
    ("", DIRECT, (DIRECT,)),
    (TOPIC, "a.b.c", (TOPICAL,)),
    ("", STREAM, (STREAM,)),
)
# How far a publisher runs ahead of its confirms, and what a consumer holds.
WINDOW: Final = 300
PREFETCH: Final = 200
# Now and then a body larger than a block of the journal.
LARGE_BODY_BYTES: Final = 300_000


def body(name: str, size: int) -> bytes:
    return name.encode() + b":" + bytes(size)


def name_in(body: bytes) -> str:
    return body[:64].partition(b":")[0].decode()


@dataclass(frozen=True)
class Sent:
    name: str
    queues: tuple[str, ...]
    persistent: bool


@dataclass(frozen=True)
class Mark:
    """A message published behind acknowledgements: once it is confirmed, the first `acked` of them are synced."""

    message: Sent
    acked: int


class Client:
    """A thread, connected when it is made.

    `failure` is what it died of, if not of the broker's end; `was_told` whether the broker announced that.
    """

    def __init__(self, port: int, name: str, rng: random.Random) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.was_told = False
        self.rng = rng
        self.connection = AmqpSocket(port).open()
        self.connection.open_channel(CHANNEL)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end that a kill, or `stop`, brings; raises what else went wrong."""
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.step()
        except (EOFError, ConnectionError):
            # The broker was killed, or stopped, as it was meant to be.
            self._read_last_words()
        except ClosedByPeer as closed:
            self._end(closed)
        except (FlintError, AssertionError, OSError) as error:
            self.failure = error
        finally:
            self.connection.close()

    def _end(self, closed: ClosedByPeer) -> None:
        self.was_told = closed.code == ConnectionForced.code
        self.failure = None if self.was_told else closed

    def _read_last_words(self) -> None:
        """A write that comes too late for a broker that stops fails, and leaves unread what it has said before."""
        try:
            while True:
                for frame in self.connection.frames(60.0):
                    if frame.kind == FRAME_METHOD:
                        raise_if_closed(frame.method)
        except ClosedByPeer as closed:
            self._end(closed)
        except (EOFError, ConnectionError):
            pass

    @abstractmethod
    def step(self) -> None:
        """A little work. Raises EOFError or ConnectionError once the broker is dead."""


class Publisher(Client):
    """Publishes in bursts to all kinds of addresses, mostly persistent."""

    def __init__(self, port: int, name: str, rng: random.Random) -> None:
        super().__init__(port, name, rng)
        self.sent: list[Sent] = []
        self.publisher = ConfirmedPublisher[Sent](self.connection)

    def step(self) -> None:
        rng = self.rng
        exchange, key, queues = rng.choice(ADDRESSES)
        for _ in range(rng.randrange(1, 30)):
            message = Sent(f"{self.name}-{len(self.sent)}", queues, rng.random() < 0.9)
            self.sent.append(message)
            size = LARGE_BODY_BYTES if rng.random() < 0.003 else rng.randrange(2_000)
            properties = PERSISTENT if message.persistent else NO_PROPERTIES
            self.publisher.publish(message, exchange, key, body(message.name, size), properties)
        self.publisher.collect(0.0)
        while self.publisher.pending > WINDOW:
            self.publisher.collect(1.0)


class Reader(Client):
    """Consumes from several queues, acknowledges in every way there is, and publishes marks behind it."""

    def __init__(self, port: int, name: str, rng: random.Random, queues: tuple[str, ...]) -> None:
        super().__init__(port, name, rng)
        self.delivered: dict[str, list[Seen]] = defaultdict(list)
        # Queue and name, in the order the acknowledgements were sent.
        self.acked: list[tuple[str, str]] = []
        self.marks: list[Sent] = []
        self.publisher = ConfirmedPublisher[Mark](self.connection)
        self.queues = queues
        self.marks_to = MARKS
        # By delivery tag: queue and name.
        self._held: dict[int, tuple[str, str]] = {}
        self._arriving: tuple[BasicDeliver, bytearray, int] | None = None
        self.connection.call(CHANNEL, BasicQos(prefetch_count=PREFETCH), BasicQosOk)

    @property
    def synced(self) -> int:
        """How many of the acknowledgements are known to be on the disk."""
        return max((mark.acked for mark in self.publisher.confirmed), default=0)

    def start(self) -> None:
        self.consume()
        super().start()

    def consume(self) -> None:
        for queue in self.queues:
            self.connection.send_method(CHANNEL, BasicConsume(queue=queue, consumer_tag=queue))

    def step(self) -> None:
        for frame in self.connection.frames(0.05):
            if not self.publisher.take(frame):
                self._take(frame)
        if self._held:
            self.settle(list(self._held))

    def _take(self, frame: Frame) -> None:
        if frame.kind == FRAME_METHOD:
            method = frame.method
            if isinstance(method, BasicDeliver):
                self._arriving = method, bytearray(), -1
            else:
                assert isinstance(method, BasicConsumeOk), method
            return
        assert self._arriving is not None
        method, content, size = self._arriving
        if frame.kind == FRAME_HEADER:
            size = frame.body_size
        else:
            assert frame.kind == FRAME_BODY
            content += frame.payload
        self._arriving = method, content, size
        if len(content) == size:
            name = name_in(bytes(content))
            self.delivered[method.consumer_tag].append(Seen(name, method.redelivered))
            self._held[method.delivery_tag] = method.consumer_tag, name

    def settle(self, tags: list[int]) -> None:
        """Decide about what is held, oldest first."""
        rng = self.rng
        way = rng.random()
        if way < 0.5:
            # Everything up to some tag, at once.
            self.ack(tags[: rng.randrange(1, len(tags) + 1)], multiple=True)
        elif way < 0.8:
            # One by one, out of order, leaving some.
            self.ack(rng.sample(tags, rng.randrange(1, len(tags) + 1)), multiple=False)
        elif way < 0.9:
            tag = rng.choice(tags)
            self.connection.send_method(CHANNEL, BasicNack(delivery_tag=tag, requeue=True))
            del self._held[tag]
        if rng.random() < 0.5:
            self.mark()

    def ack(self, tags: list[int], *, multiple: bool) -> None:
        # In the books before it is sent: the broker may be killed between the two.
        self.acked += [self._held.pop(tag) for tag in tags]
        if multiple:
            self.connection.send_method(CHANNEL, BasicAck(delivery_tag=tags[-1], multiple=True))
        else:
            self.connection.send(*(method_frame(CHANNEL, BasicAck(delivery_tag=tag)) for tag in tags))

    def mark(self) -> None:
        """Publish: once that is confirmed, the acknowledgements sent before it on this connection are synced too."""
        mark = Sent(f"{self.name}-{len(self.marks)}", (self.marks_to,), persistent=True)
        self.marks.append(mark)
        self.publisher.publish(Mark(mark, len(self.acked)), "", self.marks_to, body(mark.name, 10))


class Drainer(Reader):
    """Takes everything, on the caller's thread. Its one mark goes to the stream, so that all queues can be empty."""

    def drain(self, count: int) -> None:
        """Returns when that many messages were taken, and their settlement is synced."""
        self.marks_to = STREAM
        self.consume()
        while len(self.acked) < count:
            self.step()
        self.mark()
        while self.publisher.pending:
            self.step()
        self.connection.close()

    def settle(self, tags: list[int]) -> None:
        self.ack(tags, multiple=True)


class Declarer(Client):
    """Declares durable queues with bindings, puts messages on them, and deletes some of them again."""

    MESSAGES: Final = 3

    def __init__(self, port: int, name: str, rng: random.Random) -> None:
        super().__init__(port, name, rng)
        # Queues whose declaration was answered and whose deletion was not asked for; of these, those with messages.
        self.there: set[str] = set()
        self.filled: set[str] = set()
        self.deleted: set[str] = set()
        # Asked for, not answered: there or not.
        self.open: set[str] = set()
        self._count = 0
        self._publisher = ConfirmedPublisher[str](self.connection)

    def step(self) -> None:
        self._count += 1
        queue = f"{self.name}-{self._count}"
        self.open.add(queue)
        self.connection.call(CHANNEL, QueueDeclare(queue=queue, durable=True), QueueDeclareOk)
        self.connection.call(CHANNEL, QueueBind(queue=queue, exchange=TOPIC, routing_key=queue), QueueBindOk)
        self.open.remove(queue)
        self.there.add(queue)
        for number in range(self.MESSAGES):
            self._publisher.publish(f"{queue}-{number}", TOPIC, queue, b"x")
        while self._publisher.pending:
            self._publisher.collect(1.0)
        self.filled.add(queue)
        if self.rng.random() < 0.7:
            self.there.remove(queue)
            self.filled.remove(queue)
            self.open.add(queue)
            self.connection.call(CHANNEL, QueueDelete(queue=queue), QueueDeleteOk)
            self.open.remove(queue)
            self.deleted.add(queue)
        self._stop.wait(0.02)
