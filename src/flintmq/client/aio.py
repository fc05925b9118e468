"""The asyncio client of AMQP 0-9-1: connections, channels, and batches of messages.

The event loop answers heartbeats.
"""

import asyncio  # asyncio only
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, final

from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.client import handshake, loop_driver, url
from flintmq.client.channel import ClientChannel
from flintmq.client.delivery import Delivery, Inbox, Returned
from flintmq.client.driven import PIECE_BYTES
from flintmq.client.errors import TimedOut
from flintmq.client.loop_driver import LoopDriver
from flintmq.client.publish import Body, Publishable
from flintmq.client.session import Session
from flintmq.client.values import LeaseInfo, QueueInfo, StageCommitted, StageInfo, StreamChunk, StreamInfo
from flintmq.client.waitable import REQUEST_SECONDS, Answer, M, Request
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.committed_attempts import encode_in_parts
from flintmq.wire.amqp091.methods import Method
from flintmq.wire.amqp091.properties import Properties
from flintmq.wire.amqp091.tables import Table

# The answers that are chunks of records.
Fetched = methods.StreamFetchOk | methods.LeaseFetchOk

# A close waits no longer than this for the server, because the server needs no disk for it.
_CLOSE_SECONDS: Final = 5.0


async def connect(
    amqp_url: str, timeout: float | None = None, name: str = "", token: str | None = None
) -> "Connection":
    """Open a connection to an AMQP 0-9-1 server, and log in.

    Example::

        async with await aio.connect("amqp://guest:guest@localhost:5672/%2f") as connection:
            channel = await connection.channel(confirms=True)
            await channel.publish(b"hello", routing_key="greetings")

    Args:
        amqp_url: ``amqp://user:password@host:port/vhost``, or ``amqps://`` for TLS; each part but the host has a
            default.
        timeout: Seconds for connecting and the login. None: the URL's ``connection_timeout``, or 10 seconds.
        name: A name for the connection, which the server's tools show.
        token: An OAuth 2 token, for a login by OAUTHBEARER instead of the URL's user and password.

    Raises:
        InvalidUrl: The URL cannot be understood, or its TLS files cannot be used.
        ConnectFailed: The server cannot be reached; `ConnectTimeout` if the time was not enough.
        LoginRefused: Wrong user name, password or token.
        ConnectionClosed: The server refused the connection for another reason, such as an unknown virtual host.
        ConnectionLost: The server closed the socket without a reason.
    """
    target = url.parse(amqp_url, token)
    session = handshake.session(target, name)
    seconds = target.connect_seconds if timeout is None else timeout
    return Connection(session, await loop_driver.connect(target, session, seconds))


@final
class Connection:
    """A connection to an AMQP 0-9-1 server, to be used in one event loop, by any number of tasks.

    As a context manager, it closes at the end. `connect` opens it.
    """

    def __init__(self, session: Session, driver: LoopDriver) -> None:
        self._session = session
        self._driver = driver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used."""
        return self._session.closed is None

    @property
    def blocked(self) -> str | None:
        """The server's reason for not accepting publishes at present, or None."""
        return self._session.blocked

    @property
    def server_properties(self) -> Table:
        """The properties of the server: product, version, capabilities."""
        return self._session.server_properties

    async def update_secret(self, password: str, reason: str = "") -> None:
        """Send the server a new password, for example a renewed OAuth 2 token before the old one expires.

        Raises:
            ConnectionClosed: The server does not accept it, and has closed the connection.
        """
        await self._driver.answer(self._session.update_secret(password, reason))

    async def channel(self, confirms: bool = False) -> "Channel":
        """Open a channel. With `confirms`, the server confirms what is published on it, which batches need.

        Raises:
            ConnectionClosed: The connection is closed; ConnectionLost if the socket failed.
            LocalProtocolError: The connection has as many channels as the server allows.
        """
        core, opened = self._session.open_channel()
        await self._driver.answer(opened)
        if confirms:
            await self._driver.answer(core.ask(Request(methods.ConfirmSelect(), methods.ConfirmSelectOk)))
        return Channel(core, self._driver)

    async def process(self, timeout: float = 0.0) -> None:
        """Keep the connection alive for `timeout` seconds: read what arrives, and answer heartbeats. 0: do not wait.

        A blocking program that makes no other call for longer than the heartbeat has to call this now and then. In an
        event loop, heartbeats are answered without it.

        Raises:
            ConnectionClosed: The connection was closed; ConnectionLost if the socket failed.
        """
        await self._driver.process(timeout)

    async def close(self) -> None:
        """Close all channels and the connection. Raises no FlintError; on a closed connection, this has no effect."""
        try:
            if self.is_open:
                self._session.close()
                await self._driver.wait(self._session.ended, _CLOSE_SECONDS)
        except FlintError:
            # The connection ended in another way, so it is closed as well.
            pass
        finally:
            self._driver.close()


@final
class Channel:
    """A channel of a connection: publishes, subscriptions and requests, in order. `Connection.channel` opens it.

    As a context manager, it closes at the end. The server closes a channel at its first error. Then, every method
    raises ChannelClosed, or ConnectionClosed or ConnectionLost if the connection has ended. A method that waits for an
    answer raises TimedOut if there is none within 60 seconds.
    """

    def __init__(self, core: ClientChannel, driver: LoopDriver) -> None:
        self._core = core
        self._driver = driver
        # One task publishes at a time, because a batch counts the publishes of the channel.
        self._publishing = asyncio.Lock()  # asyncio only
        # The request that completes the last attempt of `stage_ahead`; None if there is none to wait for.
        self._staging: Request[methods.StageReadyOk] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether the channel can be used."""
        return self._core.is_open

    async def close(self) -> None:
        """Close the channel. Unsettled deliveries return to their queues. On a closed channel this has no effect."""
        if self.is_open:
            self._core.close()
            await self._driver.wait(self._core.ended, _CLOSE_SECONDS)

    # -- exchanges, queues, bindings ----------------------------------------------------------------------------

    async def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Create an exchange if it does not exist.

        Args:
            name: The name of the exchange.
            type: "direct", "fanout", "topic", "headers", or another type that the server has.
            durable: Whether the exchange survives a restart of the server.
            auto_delete: Whether the exchange is deleted when its last binding is removed.
            internal: Whether clients may not publish to it. Messages then come from other exchanges only.
            passive: Only check that the exchange exists.
            arguments: Further arguments of the server.

        Raises:
            ChannelClosed: It exists with other properties (406), or does not exist and `passive` is set (404).
        """
        method = methods.ExchangeDeclare(
            exchange=name,
            type=type,
            passive=passive,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments or {},
        )
        await self._ask(method, methods.ExchangeDeclareOk)

    async def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings; with `if_unused`, only if it has none (else ChannelClosed, 406)."""
        await self._ask(methods.ExchangeDelete(exchange=name, if_unused=if_unused), methods.ExchangeDeleteOk)

    async def declare_queue(
        self,
        name: str = "",
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> QueueInfo:
        """Create a queue if it does not exist.

        Args:
            name: The name of the queue. With an empty name, the server chooses one.
            durable: Whether the queue survives a restart of the server.
            exclusive: Whether only this connection may use the queue, which is deleted with the connection.
            auto_delete: Whether the queue is deleted when its last consumer is cancelled.
            passive: Only check that the queue exists, and return its present numbers.
            arguments: Further arguments, such as ``{"x-queue-type": "stream"}``.

        Returns:
            The queue's name, and its numbers of ready messages and consumers.

        Raises:
            ChannelClosed: It exists with other properties (406), or does not exist and `passive` is set (404).
        """
        method = methods.QueueDeclare(
            queue=name,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments or {},
        )
        answer = await self._ask(method, methods.QueueDeclareOk)
        return QueueInfo(answer.queue, answer.message_count, answer.consumer_count)

    async def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue, and return how many messages were in it.

        With `if_unused` it must have no consumers, with `if_empty` no messages (else ChannelClosed, 406).
        """
        method = methods.QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty)
        answer = await self._ask(method, methods.QueueDeleteOk)
        return answer.message_count

    async def purge_queue(self, name: str) -> int:
        """Remove the ready messages of a queue, and return how many there were."""
        answer = await self._ask(methods.QueuePurge(queue=name), methods.QueuePurgeOk)
        return answer.message_count

    async def bind(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        """Bind a queue to an exchange, so that it gets the messages whose routing key matches.

        Args:
            queue: The name of the queue.
            exchange: The name of the exchange.
            routing_key: The key or pattern of the binding; its meaning depends on the type of the exchange.
            arguments: Arguments of the binding, such as the headers to match.

        Raises:
            ChannelClosed: The queue or the exchange does not exist (404).
        """
        method = methods.QueueBind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments or {})
        await self._ask(method, methods.QueueBindOk)

    async def unbind(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        """Remove a binding of a queue. The arguments are those of `bind`."""
        method = methods.QueueUnbind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments or {})
        await self._ask(method, methods.QueueUnbindOk)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Bind an exchange to another one, so that `destination` gets messages from `source`: an extension of RabbitMQ.

        The other arguments are those of `bind`.
        """
        method = methods.ExchangeBind(
            destination=destination, source=source, routing_key=routing_key, arguments=arguments or {}
        )
        await self._ask(method, methods.ExchangeBindOk)

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """Remove a binding of two exchanges. The arguments are those of `bind_exchange`."""
        method = methods.ExchangeUnbind(
            destination=destination, source=source, routing_key=routing_key, arguments=arguments or {}
        )
        await self._ask(method, methods.ExchangeUnbindOk)

    # -- publishing ---------------------------------------------------------------------------------------------

    async def publish(
        self,
        body: Body,
        exchange: str = "",
        routing_key: str = "",
        properties: bytes | Properties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publish a message, and do not wait for the server: a later call raises the errors.

        On a channel with confirms, `wait_for_confirms` tells whether the message is safe.

        Args:
            body: The content of the message.
            exchange: The name of the exchange. The default exchange, "", routes to the queue with the name
                `routing_key`.
            routing_key: The routing key.
            properties: `Properties`, or the bytes that `encode_properties` makes of them.
            mandatory: Whether the server returns the message if it matches no queue.

        Raises:
            LocalProtocolError: A name or a property is too long, or a value has no type in AMQP.
            TimedOut: The server accepts no publishes for 60 seconds.
        """
        async with self._publishing:  # asyncio only
            await self._wait_for_flow(REQUEST_SECONDS)
            self._core.publish(exchange, routing_key, body, properties, mandatory)
            await self._driver.send(REQUEST_SECONDS)

    async def publish_batch(self, publishes: Iterable[Publishable], timeout: float = 60.0) -> int:
        """Publish messages, and wait until the server has confirmed all of them. The channel must have confirms.

        Example::

            await channel.publish_batch(("", "orders", b"%d" % n) for n in range(10_000))

        Args:
            publishes: Any iterable of `Publish`, or of tuples (exchange, routing_key, body, properties, mandatory) that
                may end after the body. It is read in pieces while they are sent.
            timeout: Seconds for all of it.

        Returns:
            The number of messages.

        Raises:
            PublishFailed: The server refused or returned some messages; all others are confirmed.
            TimedOut: The server has not confirmed all messages in time. It is not known which ones arrived.
            LocalProtocolError: The channel has no confirms.
        """
        async with self._publishing:  # asyncio only
            stop = time.monotonic() + timeout
            try:
                return await self._publish_batch(iter(publishes), stop)
            except TimedOut:
                raise _not_confirmed(timeout) from None

    async def _publish_batch(self, publishes: Iterator[Publishable], stop: float) -> int:
        confirms = self._core.confirms
        if not confirms.is_reported:
            await self.wait_for_confirms(stop - time.monotonic())
        before = confirms.published
        await self._send_all(publishes, stop)
        await self.wait_for_confirms(stop - time.monotonic())
        return confirms.published - before

    async def publish_ahead(self, publishes: Iterable[Publishable], timeout: float = 60.0) -> None:
        """Publish messages, and wait until the server has confirmed everything published before them.

        So the server writes one batch to the disk while the next one is sent; `wait_for_confirms` waits for the last
        one. Arguments and errors are those of `publish_batch`. PublishFailed may be about messages of an earlier call.
        """
        async with self._publishing:  # asyncio only
            await self._publish_ahead(publishes, timeout)

    async def _publish_ahead(self, publishes: Iterable[Publishable], timeout: float) -> None:
        stop = time.monotonic() + timeout
        earlier = self._core.confirms.mark()
        try:
            await self._send_all(iter(publishes), stop)
            if not await self._driver.wait(earlier, stop - time.monotonic()):
                raise _not_confirmed(timeout)
            earlier.check()
            if self._core.has_failures:
                await self.wait_for_confirms(stop - time.monotonic())
        except TimedOut:
            raise _not_confirmed(timeout) from None

    @property
    def published(self) -> int:
        """How many messages were published on this channel. Raises LocalProtocolError if it has no confirms."""
        return self._core.confirms.published

    @property
    def confirmed(self) -> int:
        """How many messages the server has confirmed, from the first one without a gap, as far as calls noticed."""
        return self._core.confirms.confirmed

    @property
    def has_failures(self) -> bool:
        """Whether the server refused or returned messages that no call has reported. `confirmed` counts them, too."""
        return self._core.has_failures

    async def _send_all(self, publishes: Iterator[Publishable], stop: float) -> None:
        more = True
        while more:
            await self._wait_for_flow(stop - time.monotonic())
            more = self._core.publish_some(publishes, PIECE_BYTES)
            await self._driver.send_piece(stop - time.monotonic())

    async def wait_for_confirms(self, timeout: float = 60.0) -> None:
        """Wait, up to `timeout` seconds, until the server has confirmed everything published on this channel.

        Raises what `publish_batch` does.
        """
        if not await self._driver.wait(self._core.confirms, timeout):
            raise _not_confirmed(timeout)
        self._core.report()

    def take_returned(self) -> list[Returned]:
        """Return the mandatory messages that matched no queue since the last call; without confirms, only this does."""
        return self._core.take_returned()

    async def _wait_for_flow(self, seconds: float) -> None:
        if not self._core.flow.is_ready and not await self._driver.wait(self._core.flow, seconds):
            raise TimedOut(f"the server has stopped this channel's publishes for {seconds:g} s")

    # -- consuming ----------------------------------------------------------------------------------------------

    async def get(self, queue: str, no_ack: bool = False) -> Delivery | None:
        """Get one message from a queue, or None if it is empty. `ack` or `nack` settles it, unless `no_ack` is set."""
        request = Request[methods.BasicGetOk | methods.BasicGetEmpty](
            methods.BasicGet(queue=queue, no_ack=no_ack), methods.BasicGetOk, methods.BasicGetEmpty
        )
        answer = await self._driver.answer(self._core.ask(request))
        got = answer.method
        if isinstance(got, methods.BasicGetEmpty):
            return None
        return Delivery(
            got.delivery_tag, got.redelivered, got.exchange, got.routing_key, answer.properties, answer.body
        )

    async def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge a delivery, and with `multiple` all earlier ones of the channel: the server removes them."""
        self._core.ack(delivery_tag, multiple)
        await self._driver.send(REQUEST_SECONDS)

    async def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a delivery, and with `multiple` all earlier ones of the channel.

        The messages return to their queue, or without `requeue` are dropped or become dead letters.
        """
        self._core.nack(delivery_tag, multiple, requeue)
        await self._driver.send(REQUEST_SECONDS)

    async def consume(
        self,
        queue: str,
        prefetch: int = 1000,
        batch_size: int = 500,
        timeout: float | None = None,
        arguments: Table | None = None,
        no_ack: bool = False,
    ) -> AsyncIterator["Batch"]:
        """Subscribe to a queue, and yield batches of messages as they arrive.

        A batch waits for its first message only. The end of the loop ends the subscription, and messages that were in
        no batch yet return to the queue at once. With `no_ack`, a loop that ends after `timeout` has yielded all
        messages; if it is left early, messages that were in no batch are lost.

        Example::

            async for batch in channel.consume("orders", timeout=10.0):
                print(len(batch.messages))
                await batch.ack()

        Args:
            queue: The name of the queue.
            prefetch: The number of messages that may be unsettled at a time.
            batch_size: The greatest number of messages of a batch.
            timeout: The loop ends after this many seconds without a message. None: it never does.
            arguments: Arguments of the subscription, such as ``{"x-stream-offset": "first"}``.
            no_ack: Whether messages count as settled when the server sends them.

        Raises:
            ConsumerCancelled: The queue was deleted.
        """
        await self._ask(methods.BasicQos(prefetch_count=prefetch), methods.BasicQosOk)
        method = methods.BasicConsume(queue=queue, no_ack=no_ack, arguments=arguments or {})
        request = Request(method, methods.BasicConsumeOk)
        inbox = self._core.subscribe(request)
        await self._driver.answer(request)
        self._driver.watch(inbox)  # asyncio only
        try:
            while messages := await self._driver.take(inbox, batch_size, timeout):
                yield Batch(messages, self._core, self._driver)
        finally:
            self._driver.unwatch(inbox)  # asyncio only
            left = await self._unsubscribe(inbox)
        for at in range(0, len(left), batch_size):
            yield Batch(left[at : at + batch_size], self._core, self._driver)

    async def _unsubscribe(self, inbox: Inbox) -> list[Delivery]:
        """End the subscription. Returns the deliveries that were in no batch and that no other consumer will get."""
        left: list[Delivery] = []
        # A lost connection has ended the subscription, too, and the next call raises the error.
        with suppress(ConnectionLost):
            if self.is_open:
                if inbox.error is None:
                    await self._ask(methods.BasicCancel(consumer_tag=inbox.consumer_tag), methods.BasicCancelOk)
                left = self._core.unsubscribed(inbox)
                await self._driver.send(REQUEST_SECONDS)
        return left

    # -- streams ------------------------------------------------------------------------------------------------

    async def stream_query(self, queue: str, timestamp_ms: int = 0) -> StreamInfo:
        """Return the first and the next offset of a stream, and in `offset_at` the offset for a time.

        That is the offset of the first message that the server received at `timestamp_ms` (milliseconds since 1970 UTC)
        or later.
        """
        method = methods.StreamQuery(queue=queue, timestamp=timestamp_ms)
        answer = await self._ask(method, methods.StreamQueryOk)
        return StreamInfo(answer.first_offset, answer.next_offset, answer.offset_at, answer.stream)

    async def stream_fetch(
        self, queue: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> StreamChunk:
        """Read one chunk of a stream: records from `offset` to before `end_offset`, of about `max_bytes` or less.

        The chunk is empty if the range has no records (yet).
        """
        request = _stream_fetch(queue, offset, end_offset, max_bytes)
        return _chunk(await self._driver.answer(self._core.ask(request)))

    async def stream_span(self, queue: str, offset: int, end_offset: int, max_bytes: int) -> int:
        """Return where a range of a stream that begins at `offset` must end, to have about `max_bytes` (to 64 KiB).

        The range has at least one record, and ends at `end_offset` or earlier.
        """
        method = methods.StreamSpan(queue=queue, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
        answer = await self._ask(method, methods.StreamSpanOk)
        return answer.end_offset

    def stream_chunks(
        self, queue: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> AsyncIterator[StreamChunk]:
        """Yield the records from `offset` to before `end_offset`, or to the present end of the stream, in chunks.

        A chunk has about `max_bytes` or less. The server prepares it while the one before is used.
        """
        return self._chunks(lambda at: _stream_fetch(queue, at, end_offset, max_bytes), offset, end_offset)

    # -- leases -------------------------------------------------------------------------------------------------

    async def lease_open(self, queue: str, name: str, epoch: int = 0, timeout_ms: int = 0) -> LeaseInfo:
        """Take over the lease with this name on a queue, or continue it.

        Args:
            queue: The name of the queue.
            name: The name of the lease.
            epoch: 0 takes the lease over from its present owner. The epoch of an earlier call continues it.
            timeout_ms: Milliseconds without a call after which the leased messages return to the queue. 0: never.

        Raises:
            ChannelClosed: Another owner has taken over since that epoch. This holds for all methods with an `epoch`.
        """
        method = methods.LeaseOpen(queue=queue, consumer=name, epoch=epoch, timeout=timeout_ms)
        answer = await self._ask(method, methods.LeaseOpenOk)
        return LeaseInfo(answer.epoch, answer.first, answer.next)

    async def lease_extend(self, queue: str, name: str, epoch: int, max_messages: int, max_bytes: int = 0) -> LeaseInfo:
        """Lease up to `max_messages` messages of `max_bytes` (0: no limit) in total; the server may lease fewer at
        once.
        """
        method = methods.LeaseExtend(
            queue=queue, consumer=name, epoch=epoch, max_messages=max_messages, max_bytes=max_bytes
        )
        answer = await self._ask(method, methods.LeaseExtendOk)
        return LeaseInfo(epoch, answer.first, answer.next, answer.ready, answer.size)

    async def lease_fetch(
        self, queue: str, name: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> StreamChunk:
        """Read one chunk of leased messages: positions `offset` to before `end_offset`, about `max_bytes` or less."""
        request = _lease_fetch(queue, name, offset, end_offset, max_bytes)
        return _chunk(await self._driver.answer(self._core.ask(request)))

    def lease_chunks(
        self, queue: str, name: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> AsyncIterator[StreamChunk]:
        """Yield the leased messages at positions `offset` to before `end_offset`, in chunks like `stream_chunks`."""
        return self._chunks(lambda at: _lease_fetch(queue, name, at, end_offset, max_bytes), offset, end_offset)

    async def lease_settle(self, queue: str, name: str, epoch: int, up_to: int) -> None:
        """Settle the leased messages before the position `up_to`. When this returns, that is synced to disk."""
        method = methods.LeaseSettle(queue=queue, consumer=name, epoch=epoch, up_to=up_to)
        await self._ask(method, methods.LeaseSettleOk)

    async def lease_release(self, queue: str, name: str, epoch: int = 0) -> int:
        """End the lease, and return how many messages go back to the queue. Epoch 0 ends the lease of any owner."""
        method = methods.LeaseRelease(queue=queue, consumer=name, epoch=epoch)
        answer = await self._ask(method, methods.LeaseReleaseOk)
        return answer.message_count

    async def lease_query(self, queue: str, name: str) -> LeaseInfo:
        """Return the state of a lease of any owner. Needs the server's capability ``flintmq.lease.query``."""
        answer = await self._ask(methods.LeaseQuery(queue=queue, consumer=name), methods.LeaseQueryOk)
        return LeaseInfo(answer.epoch, answer.first, answer.next, answer.ready, fetched=answer.fetched)

    async def _chunks(
        self, fetch: Callable[[int], Request[Fetched]], offset: int, end_offset: int
    ) -> AsyncIterator[StreamChunk]:
        request = self._core.ask(fetch(offset))
        while True:
            chunk = _chunk(await self._driver.answer(request))
            if chunk.next_offset == chunk.first_offset:
                return
            if chunk.next_offset >= end_offset:
                yield chunk
                return
            request = self._core.ask(fetch(chunk.next_offset))
            await self._driver.send(REQUEST_SECONDS)
            yield chunk

    # -- stages -------------------------------------------------------------------------------------------------

    async def stage_open(self, transactional_id: str, owner: str) -> StageInfo:
        """Begin to write under a transactional id, or continue.

        All tasks of one owner get the same answer. An owner continues after the batch that it committed last. Another
        owner begins anew: the former one is fenced, and what it staged is discarded.

        Args:
            transactional_id: The name of the writer, which outlives its connections.
            owner: The name of this run of the writer.

        Raises:
            ChannelClosed: The owner is fenced, or the id belongs to another user.
        """
        method = methods.StageOpen(transactional_id=transactional_id, owner=owner)
        answer = await self._ask(method, methods.StageOpenOk)
        return StageInfo(answer.epoch, answer.next_batch - 1)

    async def stage_select(self, transactional_id: str, epoch: int, batch: int, partition: int, attempt: int) -> bool:
        """Stage the messages published on this channel from now on, as one attempt at a partition of a batch.

        They appear in their queues only when a commit names the attempt. The attempt is discarded if the channel
        closes, or selects another one, before `stage_ready`.

        Args:
            transactional_id: The name of the writer.
            epoch: The owner's epoch, from `stage_open`.
            batch: The number of the batch.
            partition: The number of a part of the batch.
            attempt: A number that no other attempt at this partition has.

        Returns:
            False if the batch is committed already, so that nothing has to be published.

        Raises:
            ChannelClosed: Another owner has taken over. This holds for all methods with an `epoch`.
        """
        request = _stage_select(transactional_id, epoch, batch, partition, attempt)
        answer = await self._driver.answer(self._core.ask(request))
        return not answer.method.already

    async def stage_ready(self) -> int:
        """Complete the attempt, and return how many messages matched a queue when it is synced to disk."""
        answer = await self._ask(methods.StageReady(), methods.StageReadyOk)
        return answer.message_count

    async def stage_ahead(
        self,
        transactional_id: str,
        epoch: int,
        batch: int,
        partition: int,
        attempt: int,
        publishes: Iterable[Publishable],
        timeout: float = 60.0,
    ) -> None:
        """Stage a whole attempt, from `stage_select` to `stage_ready`, and wait until the one before is synced to disk.

        So the server writes one attempt to the disk while the next one is sent; `wait_for_stage` waits for the last
        one. Arguments and errors are those of `stage_select` and `publish_batch`.
        """
        async with self._publishing:  # asyncio only
            stop = time.monotonic() + timeout
            self._core.ask(_stage_select(transactional_id, epoch, batch, partition, attempt))
            await self._publish_ahead(publishes, timeout)
            before = self._staging
            self._staging = self._core.ask(Request(methods.StageReady(), methods.StageReadyOk))
            await self._driver.send(max(stop - time.monotonic(), 0))
            if before is not None:
                await self._driver.answer(before, max(stop - time.monotonic(), 0))

    async def wait_for_stage(self, timeout: float = 60.0) -> None:
        """Wait up to `timeout` seconds until all attempts of `stage_ahead` are on the disk, and raise their errors."""
        stop = time.monotonic() + timeout
        await self.wait_for_confirms(timeout)
        last = self._staging
        self._staging = None
        if last is not None:
            await self._driver.answer(last, max(stop - time.monotonic(), 0))

    async def stage_commit(
        self, transactional_id: str, epoch: int, batch: int, attempts: dict[int, int]
    ) -> StageCommitted:
        """Publish the attempts in `attempts` (attempt by partition), all or none.

        All other attempts of this batch and of earlier ones are discarded. A batch that was committed before is not
        published again; the result says so.

        Raises:
            ChannelClosed: Nothing was published: an attempt is not complete, a queue has no room, or another owner has
                taken over.
        """
        *earlier, last = [
            methods.StageCommit(transactional_id=transactional_id, epoch=epoch, batch=batch, attempts=part, more=True)
            for part in encode_in_parts(attempts)
        ]
        for part in earlier:
            await self._ask(part, methods.StageCommitOk)
        last.more = False
        committed = await self._ask(last, methods.StageCommitOk)
        return StageCommitted(committed.message_count, committed.already)

    async def stage_abort(self, transactional_id: str, epoch: int, batch: int) -> None:
        """Discard what was staged for a batch."""
        method = methods.StageAbort(transactional_id=transactional_id, epoch=epoch, batch=batch)
        await self._ask(method, methods.StageAbortOk)

    async def stage_forget(self, transactional_id: str) -> None:
        """Make the server forget a transactional id and its last batch, because it will not be used again."""
        await self._ask(methods.StageForget(transactional_id=transactional_id), methods.StageForgetOk)

    async def _ask(self, method: Method, answered_by: type[M]) -> M:
        """Send a method, and return the one that answers it."""
        answer = await self._driver.answer(self._core.ask(Request(method, answered_by)))
        return answer.method


@final
class Batch:
    """Messages that arrived together, to be settled together. A message that was settled by itself is left out."""

    def __init__(self, messages: list[Delivery], core: ClientChannel, driver: LoopDriver) -> None:
        self.messages = messages
        self._core = core
        self._driver = driver

    async def ack(self) -> None:
        """Acknowledge the messages: the server removes them. With `no_ack`, this has no effect."""
        self._core.ack_all(self.messages)
        await self._driver.send(REQUEST_SECONDS)

    async def nack(self, requeue: bool = True) -> None:
        """Refuse the messages: they return to their queue, or without `requeue` are dropped or become dead letters."""
        self._core.nack_all(self.messages, requeue)
        await self._driver.send(REQUEST_SECONDS)


def _not_confirmed(seconds: float) -> TimedOut:
    return TimedOut(f"the server has not confirmed all messages within {seconds:g} s")


def _stream_fetch(queue: str, offset: int, end_offset: int, max_bytes: int) -> Request[Fetched]:
    method = methods.StreamFetch(queue=queue, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
    return Request[Fetched](method, methods.StreamFetchOk)


def _lease_fetch(queue: str, name: str, offset: int, end_offset: int, max_bytes: int) -> Request[Fetched]:
    method = methods.LeaseFetch(queue=queue, consumer=name, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
    return Request[Fetched](method, methods.LeaseFetchOk)


def _chunk(answer: Answer[Fetched]) -> StreamChunk:
    method = answer.method
    return StreamChunk(method.first_offset, method.next_offset, method.record_count, answer.body)


def _stage_select(
    transactional_id: str, epoch: int, batch: int, partition: int, attempt: int
) -> Request[methods.StageSelectOk]:
    method = methods.StageSelect(
        transactional_id=transactional_id, epoch=epoch, batch=batch, partition=partition, attempt=attempt
    )
    return Request(method, methods.StageSelectOk)
