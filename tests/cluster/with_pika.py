"""Clients that know the addresses of all nodes, and go on with another one when theirs does not serve them any more."""

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.frame import Method
from pika.spec import Basic

from tests.cluster.background import Background
from tests.cluster.ledger import Ledger

# What is published goes to both queues. From one it is consumed at once; the other one keeps it, because a message
# that was consumed before it was lost would not be missed.
EXCHANGE: Final = "numbers"
LIVE: Final = "live"
KEPT: Final = "kept"
# A client that should get something, and gets nothing for so long, leaves its node: it may hang, or be cut off.
PATIENCE_SECONDS: Final = 1.5
# A node that refuses the connection is not asked again at once.
_RETRY_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.1
_PREFETCH: Final = 200
_PERSISTENT: Final = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)


class PikaClient:
    """Has one connection with one channel at a time, to the node that accepts it first. All of `ports` are tried at
    once, because a node that hangs must not keep the client from the next one.

    All methods with an underscore run on the loop of `background`. `told` counts how often a node has closed the
    connection, and `left` how often the client has lost its patience.
    """

    def __init__(self, background: Background, ports: Iterable[int], ledger: Ledger) -> None:
        self.told = 0
        self.left = 0
        # When it was connected, or got something.
        self.heard = 0.0
        self.ledger = ledger
        self._background = background
        self._loop = background.loop
        self._ports = list(ports)
        self._tried: set[int] = set()
        self._connection: Any = None
        self._channel: Any = None
        self._is_ending = False

    def start(self) -> None:
        self._background.call(self._start)

    def _start(self) -> None:
        self._loop.create_task(self._look())
        self._connect()

    def end(self) -> None:
        self._background.call(self._end)

    def _end(self) -> None:
        self._is_ending = True
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    async def _look(self) -> None:
        while not self._is_ending:
            await asyncio.sleep(_LOOK_SECONDS)
            is_silent = time.monotonic() - self.heard > PATIENCE_SECONDS
            if is_silent and self._connection is not None and self._connection.is_open and self.is_waiting:
                self.left += 1
                self._connection.close()
                self._connect()

    @property
    @abstractmethod
    def is_waiting(self) -> bool:
        """Whether something should come."""

    @abstractmethod
    def _use(self, channel: Channel) -> None:
        """Begin to use a new channel."""

    def _connect(self) -> None:
        self._connection = self._channel = None
        for port in self._ports:
            self._try(port)

    def _try(self, port: int) -> None:
        if self._connection is not None or port in self._tried or self._is_ending:
            return
        self._tried.add(port)
        AsyncioConnection(
            pika.ConnectionParameters("127.0.0.1", port, stack_timeout=PATIENCE_SECONDS, heartbeat=10),
            on_open_callback=partial(self._opened, port),
            on_open_error_callback=partial(self._failed, port),
            on_close_callback=self._closed,
            custom_ioloop=self._loop,
        )

    def _failed(self, port: int, connection: AsyncioConnection, error: BaseException) -> None:
        self._tried.remove(port)
        self._loop.call_later(_RETRY_SECONDS, self._try, port)

    def _opened(self, port: int, connection: AsyncioConnection) -> None:
        self._tried.remove(port)
        if self._connection is not None or self._is_ending:
            connection.close()
            return
        self._connection = connection
        self.heard = time.monotonic()
        connection.channel(on_open_callback=partial(self._channel_opened, connection))

    def _closed(self, connection: AsyncioConnection, reason: BaseException) -> None:
        if connection is self._connection:
            self.told += 1
            self._connect()

    def _channel_opened(self, connection: AsyncioConnection, channel: Channel) -> None:
        channel.basic_qos(prefetch_count=_PREFETCH, callback=lambda _: self._prepared(connection, channel))

    def _prepared(self, connection: AsyncioConnection, channel: Channel) -> None:
        if connection is self._connection:
            self.heard = time.monotonic()
            self._channel = channel
            self._use(channel)


class PikaPublisher(PikaClient):
    """Publishes numbers with confirms, each once, `rate` of them per second. May be paused."""

    _TICK_SECONDS: Final = 0.02
    # More than these are not published ahead of their confirms.
    _WINDOW: Final = 500

    name: Final = "pika"

    def __init__(self, background: Background, ports: Iterable[int], ledger: Ledger, rate: int) -> None:
        super().__init__(background, ports, ledger)
        self.is_paused = False
        self._at_once = max(1, round(rate * self._TICK_SECONDS))
        self._number = 0
        self._connections = 0
        self._unconfirmed: dict[int, str] = {}

    @property
    def is_waiting(self) -> bool:
        return self._channel is None or bool(self._unconfirmed)

    def _use(self, channel: Channel) -> None:
        self._connections += 1
        # Each channel numbers its messages from 1, and what it confirms late is confirmed, too.
        unconfirmed: dict[int, str] = {}
        self._unconfirmed = unconfirmed
        channel.confirm_delivery(
            partial(self._answered, channel, unconfirmed), callback=lambda _: self._publish(channel, 0)
        )

    def _publish(self, channel: Channel, tag: int) -> None:
        if channel is not self._channel or self._is_ending:
            return
        if not self.is_paused and len(self._unconfirmed) < self._WINDOW:
            if not self._unconfirmed:
                self.heard = time.monotonic()
            for _ in range(self._at_once):
                tag += 1
                self._number += 1
                name = f"{self.name}.{self._connections}-{self._number}"
                self._unconfirmed[tag] = name
                try:
                    channel.basic_publish(EXCHANGE, "", name.encode(), _PERSISTENT)
                except AMQPError:
                    # It is closing: the next connection goes on.
                    return
        self._loop.call_later(self._TICK_SECONDS, self._publish, channel, tag)

    def _answered(self, channel: Channel, unconfirmed: dict[int, str], frame: Method) -> None:
        method, now = frame.method, time.monotonic()
        tags = [tag for tag in unconfirmed if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in tags:
            name = unconfirmed.pop(tag)
            if isinstance(method, Basic.Ack):
                self.ledger.confirm(name, now)
            else:
                self.ledger.refuse(name)
        if channel is self._channel:
            self.heard = now


class PikaConsumer(PikaClient):
    """Consumes from one queue, and acknowledges each message."""

    def __init__(self, background: Background, ports: Iterable[int], ledger: Ledger, queue: str) -> None:
        super().__init__(background, ports, ledger)
        self._queue = queue

    @property
    def is_waiting(self) -> bool:
        return True

    def _use(self, channel: Channel) -> None:
        channel.basic_consume(self._queue, partial(self._delivered, channel))

    def _delivered(
        self, channel: Channel, _: Channel, method: Basic.Deliver, __: pika.BasicProperties, body: bytes
    ) -> None:
        if channel is not self._channel:
            return
        self.heard = time.monotonic()
        self.ledger.deliver(self._queue, body.decode(), method.redelivered, self.heard)
        channel.basic_ack(method.delivery_tag)


class Witness:
    """A client that only waits for the node to say that it does not serve it any more, by blocking or closing the
    connection.
    """

    def __init__(self, background: Background, port: int) -> None:
        self._background = background
        self._is_open = threading.Event()
        self._told_at = 0.0
        self._connection: Any = None
        background.call(lambda: self._connect(port))
        self._is_open.wait(PATIENCE_SECONDS)

    def end(self) -> float:
        """Returns when the node said so; 0 if it did not."""
        told_at = self._told_at
        self._background.call(self._end)
        return told_at

    def _connect(self, port: int) -> None:
        self._connection = AsyncioConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._told,
            on_close_callback=self._told,
            custom_ioloop=self._background.loop,
        )
        self._connection.add_on_connection_blocked_callback(self._told)

    def _opened(self, channel: Channel) -> None:
        # Only publishers are told that they are blocked. Nobody gets this message.
        channel.basic_publish("", "", b"")
        self._is_open.set()

    def _told(self, *_: object) -> None:
        if not self._told_at:
            self._told_at = time.monotonic()

    def _end(self) -> None:
        if self._connection.is_open:
            self._connection.close()
