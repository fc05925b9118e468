"""The blocking client: the names of the blocking one, awaited."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeVar, final

from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.client import handshake, requests, socket_driver, url
from flintmq.client.channel import ClientChannel
from flintmq.client.delivery import Delivery, Inbox, Returned
from flintmq.client.driven import PIECE_BYTES
from flintmq.client.errors import TimedOut
from flintmq.client.publish import Body, Publishable
from flintmq.client.session import Session
from flintmq.client.socket_driver import SocketDriver
from flintmq.client.values import LeaseInfo, QueueInfo, StageCommitted, StageInfo, StreamChunk, StreamInfo
from flintmq.client.waiting import REQUEST_SECONDS, Request
from flintmq.wire.amqp091.properties import Properties
from flintmq.wire.amqp091.tables import Table

T = TypeVar("T")

# How long a close may take, which needs no disk.
_CLOSE_SECONDS: Final = 5.0


def connect(amqp_url: str, timeout: float | None = None, name: str = "", token: str | None = None) -> "Connection":
    """Connect within `timeout` seconds (default: the URL's connection_timeout, or 10); the server shows `name`.

    A `token` of OAuth 2 is a login of its own (OAUTHBEARER), in place of the URL's user and password.
    Raises InvalidUrl, ConnectFailed, ConnectTimeout, LoginRefused, ConnectionClosed or ConnectionLost.
    """
    target = url.parse(amqp_url, token)
    session = handshake.session(target, name)
    seconds = target.connect_seconds if timeout is None else timeout
    return Connection(session, socket_driver.connect(target, session, seconds))


@final
class Connection:
    """To be used by one thread at a time. As a context manager, it closes at the end."""

    def __init__(self, session: Session, driver: SocketDriver) -> None:
        self._session = session
        self._driver = driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._session.closed is None

    @property
    def blocked(self) -> str | None:
        """Why the server takes no publishes at present; None while it does."""
        return self._session.blocked

    @property
    def server_properties(self) -> Table:
        return self._session.server_properties

    def update_secret(self, password: str, reason: str = "") -> None:
        """Tell the server the password that holds from now on, a token renewed before it expires, say.

        Raises ConnectionClosed when the server does not accept it.
        """
        self._driver.answer(self._session.update_secret(password, reason))

    def channel(self, confirms: bool = False) -> "Channel":
        """Open a channel; with `confirms`, the server confirms what is published on it."""
        core, opened = self._session.open_channel()
        self._driver.answer(opened)
        if confirms:
            self._driver.answer(core.ask(requests.select_confirms()))
        return Channel(core, self._driver)

    def process(self, timeout: float = 0.0) -> None:
        """Take in what comes, and answer heartbeats, for `timeout` seconds; 0: only what is there already.

        A program that makes no other call for longer than the heartbeat calls this now and then.
        """
        self._driver.process(timeout)

    def close(self) -> None:
        """Close all channels and the connection. Harmless when it is closed."""
        try:
            if self.is_open:
                self._session.close()
                self._driver.wait(self._session.ended, _CLOSE_SECONDS)
        except FlintError:
            # It ended in another way, which is what was wanted.
            pass
        finally:
            self._driver.close()


@final
class Channel:
    """As a context manager, it closes at the end. Any method raises ChannelClosed, ConnectionClosed or ConnectionLost
    when the channel is over, and TimedOut when the server does not answer.
    """

    def __init__(self, core: ClientChannel, driver: SocketDriver) -> None:
        self._core = core
        self._driver = driver
        # A batch counts its publishes, so one goes at a time.
        # The attempt that was staged last by `stage_ahead`, until it was waited for.
        self._staging: Request[int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._core.is_open

    def close(self) -> None:
        """Give back all deliveries that are not settled, and close. Harmless when it is closed."""
        if self.is_open:
            self._core.close()
            self._driver.wait(self._core.ended, _CLOSE_SECONDS)

    # -- exchanges, queues, bindings ----------------------------------------------------------------------------

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self._ask(requests.declare_exchange(name, type, durable, auto_delete, internal, passive, arguments))

    def delete_exchange(self, name: str, if_unused: bool = False) -> None:
        self._ask(requests.delete_exchange(name, if_unused))

    def declare_queue(
        self,
        name: str = "",
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> QueueInfo:
        """An empty name lets the server choose one."""
        return self._ask(requests.declare_queue(name, durable, exclusive, auto_delete, passive, arguments))

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """How many messages went with it."""
        return self._ask(requests.delete_queue(name, if_unused, if_empty))

    def purge_queue(self, name: str) -> int:
        """How many messages were deleted."""
        return self._ask(requests.purge_queue(name))

    def bind(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        self._ask(requests.bind(queue, exchange, routing_key, arguments))

    def unbind(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        self._ask(requests.unbind(queue, exchange, routing_key, arguments))

    def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        """What `source` routes by this key goes to the exchange `destination` as well: RabbitMQ's extension."""
        self._ask(requests.bind_exchange(destination, source, routing_key, arguments))

    def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        self._ask(requests.unbind_exchange(destination, source, routing_key, arguments))

    # -- publishing ---------------------------------------------------------------------------------------------

    def publish(
        self,
        body: Body,
        exchange: str = "",
        routing_key: str = "",
        properties: bytes | Properties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Send a message. What the server thinks of it is told by a later call. A batch on this channel goes first."""
        self._wait_for_flow(REQUEST_SECONDS)
        self._core.publish(exchange, routing_key, body, properties, mandatory)
        self._driver.send(REQUEST_SECONDS)

    def publish_batch(self, publishes: Iterable[Publishable], timeout: float = 60.0) -> int:
        """Publish all; returns their number once the server has confirmed every one of them.

        Raises PublishFailed when it refused or returned some (the others are safe), TimedOut after `timeout` seconds.
        """
        stop = time.monotonic() + timeout
        try:
            return self._publish_batch(iter(publishes), stop)
        except TimedOut:
            raise _not_confirmed(timeout) from None

    def _publish_batch(self, publishes: Iterator[Publishable], stop: float) -> int:
        confirms = self._core.confirms
        if not confirms.is_reported:
            self.wait_for_confirms(stop - time.monotonic())
        before = confirms.published
        self._send_all(publishes, stop)
        self.wait_for_confirms(stop - time.monotonic())
        return confirms.published - before

    def publish_ahead(self, publishes: Iterable[Publishable], timeout: float = 60.0) -> None:
        """Publish all, and return once the server has confirmed all that was published before: while it writes that
        down, this is on its way. `wait_for_confirms` waits for the last of them. Raises what `publish_batch` does.
        """
        self._publish_ahead(publishes, timeout)

    def _publish_ahead(self, publishes: Iterable[Publishable], timeout: float) -> None:
        stop = time.monotonic() + timeout
        earlier = self._core.confirms.mark()
        try:
            self._send_all(iter(publishes), stop)
            if not self._driver.wait(earlier, stop - time.monotonic()):
                raise _not_confirmed(timeout)
            earlier.check()
            if self._core.has_failures:
                self.wait_for_confirms(stop - time.monotonic())
        except TimedOut:
            raise _not_confirmed(timeout) from None

    @property
    def published(self) -> int:
        """How many messages were published on this channel, while it has confirms."""
        return self._core.confirms.published

    @property
    def confirmed(self) -> int:
        """How many of them the server has confirmed, as far as calls have noticed: from the first on, without a gap."""
        return self._core.confirms.confirmed

    @property
    def has_failures(self) -> bool:
        """Whether the server refused or returned some of them, as far as calls have noticed, and no call has told yet.

        It counts these as confirmed.
        """
        return self._core.has_failures

    def _send_all(self, publishes: Iterator[Publishable], stop: float) -> None:
        more = True
        while more:
            self._wait_for_flow(stop - time.monotonic())
            more = self._core.publish_some(publishes, PIECE_BYTES)
            self._driver.send_piece(stop - time.monotonic())

    def wait_for_confirms(self, timeout: float = 60.0) -> None:
        """Wait until all that was published is confirmed. Raises PublishFailed, TimedOut."""
        if not self._driver.wait(self._core.confirms, timeout):
            raise _not_confirmed(timeout)
        self._core.report()

    def take_returned(self) -> list[Returned]:
        """Mandatory messages that came back since the last call; without confirms, this is how to learn of them."""
        return self._core.take_returned()

    def _wait_for_flow(self, seconds: float) -> None:
        if not self._core.flow.is_ready and not self._driver.wait(self._core.flow, seconds):
            raise TimedOut(f"the server has stopped this channel's publishes for {seconds:g} s")

    # -- consuming ----------------------------------------------------------------------------------------------

    def get(self, queue: str, no_ack: bool = False) -> Delivery | None:
        """One message, None when there is none; to be settled by `ack` or `nack` unless `no_ack`."""
        return self._ask(requests.get(queue, no_ack))

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Settle a message, or all of this channel up to it, for good."""
        self._core.ack(delivery_tag, multiple)
        self._driver.send(REQUEST_SECONDS)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        """Give a message back, or reject it for good."""
        self._core.nack(delivery_tag, multiple, requeue)
        self._driver.send(REQUEST_SECONDS)

    def consume(
        self,
        queue: str,
        prefetch: int = 1000,
        batch_size: int = 500,
        timeout: float | None = None,
        arguments: Table | None = None,
        no_ack: bool = False,
    ) -> Iterator["Batch"]:
        """Messages as they come, up to `batch_size` at once: a batch waits for its first message only.

        Ends after `timeout` seconds without one; None: never. At most `prefetch` are unsettled at a time. Ending the
        loop ends the subscription, and messages that were in no batch yet go back to the queue, or with `no_ack`
        are lost; a loop that ends by itself has had them all.
        """
        self._ask(requests.prefetch(prefetch))
        request = requests.consume(queue, no_ack, arguments)
        inbox = self._core.subscribe(request)
        self._driver.answer(request)
        try:
            while messages := self._driver.take(inbox, batch_size, timeout):
                yield Batch(messages, self._core, self._driver)
        finally:
            left = self._unsubscribe(inbox)
        for at in range(0, len(left), batch_size):
            yield Batch(left[at : at + batch_size], self._core, self._driver)

    def _unsubscribe(self, inbox: Inbox) -> list[Delivery]:
        """Returns what came meanwhile that only this one will have."""
        left: list[Delivery] = []
        # With the connection the subscription is gone as well; who asks for more hears of that.
        with suppress(ConnectionLost):
            if self.is_open:
                if inbox.error is None:
                    self._ask(requests.cancel(inbox.consumer_tag))
                left = self._core.unsubscribed(inbox)
                self._driver.send(REQUEST_SECONDS)
        return left

    # -- streams ------------------------------------------------------------------------------------------------

    def stream_query(self, queue: str, timestamp_ms: int = 0) -> StreamInfo:
        """Offsets of a stream; `offset_at` is the first whose message was received at `timestamp_ms` or later."""
        return self._ask(requests.stream_query(queue, timestamp_ms))

    def stream_fetch(self, queue: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024) -> StreamChunk:
        """Records from `offset` on, before `end_offset`, of about `max_bytes` at most; the server may send fewer."""
        return self._ask(requests.stream_fetch(queue, offset, end_offset, max_bytes))

    def stream_span(self, queue: str, offset: int, end_offset: int, max_bytes: int) -> int:
        """Before which offset to stop, `end_offset` or earlier, so that the records from `offset` on are of about
        `max_bytes`; never before the first of them.
        """
        return self._ask(requests.stream_span(queue, offset, end_offset, max_bytes))

    def stream_chunks(
        self, queue: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> Iterator[StreamChunk]:
        """All records from `offset` on, before `end_offset` or the stream's present end: the server prepares a chunk
        while its forerunner is in use.
        """
        return self._chunks(lambda at: requests.stream_fetch(queue, at, end_offset, max_bytes), offset, end_offset)

    # -- leases -------------------------------------------------------------------------------------------------

    def lease_open(self, queue: str, name: str, epoch: int = 0, timeout_ms: int = 0) -> LeaseInfo:
        """Take over the lease that this name has on a queue, or go on with one's own, by its `epoch`.

        What it holds goes back to the queue once nobody has called for `timeout_ms`; with 0 it never does.
        """
        return self._ask(requests.lease_open(queue, name, epoch, timeout_ms))

    def lease_extend(self, queue: str, name: str, epoch: int, max_messages: int, max_bytes: int = 0) -> LeaseInfo:
        """Lease what is ready, up to these limits (0 bytes: no limit) and to what the server does at once."""
        return self._ask(requests.lease_extend(queue, name, epoch, max_messages, max_bytes))

    def lease_fetch(
        self, queue: str, name: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> StreamChunk:
        """What is leased from position `offset` on, before `end_offset`; the server may send fewer."""
        return self._ask(requests.lease_fetch(queue, name, offset, end_offset, max_bytes))

    def lease_chunks(
        self, queue: str, name: str, offset: int, end_offset: int, max_bytes: int = 4 * 1024 * 1024
    ) -> Iterator[StreamChunk]:
        """All that is leased from position `offset` on, before `end_offset`, as `stream_chunks` has it of a stream."""
        return self._chunks(lambda at: requests.lease_fetch(queue, name, at, end_offset, max_bytes), offset, end_offset)

    def lease_settle(self, queue: str, name: str, epoch: int, up_to: int) -> None:
        """All positions before `up_to` are done with, for good: on return that is durable."""
        self._ask(requests.lease_settle(queue, name, epoch, up_to))

    def lease_release(self, queue: str, name: str, epoch: int = 0) -> int:
        """Give back to the queue what is leased, and end the lease; returns how many messages. Epoch 0: by force."""
        return self._ask(requests.lease_release(queue, name, epoch))

    def lease_query(self, queue: str, name: str) -> LeaseInfo:
        """Where a lease stands and how far it was fetched, whoever has it. It needs flintmq.lease.query."""
        return self._ask(requests.lease_query(queue, name))

    def _chunks(
        self, fetch: Callable[[int], Request[StreamChunk]], offset: int, end_offset: int
    ) -> Iterator[StreamChunk]:
        request = self._core.ask(fetch(offset))
        while True:
            chunk = self._driver.answer(request)
            if chunk.next_offset == chunk.first_offset:
                return
            if chunk.next_offset >= end_offset:
                yield chunk
                return
            request = self._core.ask(fetch(chunk.next_offset))
            self._driver.send(REQUEST_SECONDS)
            yield chunk

    # -- stages -------------------------------------------------------------------------------------------------

    def stage_open(self, transactional_id: str, owner: str) -> StageInfo:
        """Write under this transactional id, as all tasks of one owner may: they are told the same.

        The owner goes on behind the batch it committed last. Another one begins anew: whoever was before is fenced for
        good, and what it staged is discarded. Raises ChannelClosed for those, and where the id is another user's.
        """
        return self._ask(requests.stage_open(transactional_id, owner))

    def stage_select(self, transactional_id: str, epoch: int, batch: int, partition: int, attempt: int) -> bool:
        """From now on this channel's messages are staged under this attempt, and published by a commit that names it.

        False where the batch is committed already: nothing of it will be published, so nothing has to be sent. The
        attempt is discarded if the channel ends, or selects again, before `stage_ready`. Raises ChannelClosed where
        another writer has taken over.
        """
        return self._ask(requests.stage_select(transactional_id, epoch, batch, partition, attempt))

    def stage_ready(self) -> int:
        """The attempt is complete, and on the server's disk. Returns how many of its messages found a queue."""
        return self._ask(requests.stage_ready())

    def stage_ahead(
        self,
        transactional_id: str,
        epoch: int,
        batch: int,
        partition: int,
        attempt: int,
        publishes: Iterable[Publishable],
        timeout: float = 60.0,
    ) -> None:
        """A whole attempt: select it, publish all, and say that it is ready. Returns once the one before it that was
        staged like this is on the server's disk: while it writes that down, this is on its way. `wait_for_stage` waits
        for the last. Raises what `stage_select` and `publish_batch` do.
        """
        stop = time.monotonic() + timeout
        self._core.ask(requests.stage_select(transactional_id, epoch, batch, partition, attempt))
        self._publish_ahead(publishes, timeout)
        before = self._staging
        self._staging = self._core.ask(requests.stage_ready())
        self._driver.send(max(stop - time.monotonic(), 0))
        if before is not None:
            self._driver.answer(before, max(stop - time.monotonic(), 0))

    def wait_for_stage(self, timeout: float = 60.0) -> None:
        """Wait until all attempts that were staged ahead are on the server's disk. Raises PublishFailed, TimedOut."""
        stop = time.monotonic() + timeout
        self.wait_for_confirms(timeout)
        last = self._staging
        self._staging = None
        if last is not None:
            self._driver.answer(last, max(stop - time.monotonic(), 0))

    def stage_commit(self, transactional_id: str, epoch: int, batch: int, winners: dict[int, int]) -> StageCommitted:
        """Publish the attempts that `winners` names by partition, all or none, and only if the batch is a new one.

        Whatever else there is of this batch and of earlier ones is discarded. Raises ChannelClosed, with nothing done,
        where an attempt is not there complete, a queue has no room, or another writer has taken over.
        """
        parts = requests.stage_commits(transactional_id, epoch, batch, winners)
        for part in parts[:-1]:
            self._ask(part)
        return self._ask(parts[-1])

    def stage_abort(self, transactional_id: str, epoch: int, batch: int) -> None:
        """Discard what was staged for a batch."""
        self._ask(requests.stage_abort(transactional_id, epoch, batch))

    def stage_forget(self, transactional_id: str) -> None:
        """Nobody will use this transactional id again: the server forgets its last batch, too."""
        self._ask(requests.stage_forget(transactional_id))

    def _ask(self, request: Request[T]) -> T:
        return self._driver.answer(self._core.ask(request))


@final
class Batch:
    """Messages that came together, and their settlement; one that was settled by itself is left out of it."""

    def __init__(self, messages: list[Delivery], core: ClientChannel, driver: SocketDriver) -> None:
        self.messages = messages
        self._core = core
        self._driver = driver

    def ack(self) -> None:
        """They are done with. With `no_ack` there is nothing to do."""
        self._core.ack_all(self.messages)
        self._driver.send(REQUEST_SECONDS)

    def nack(self, requeue: bool = True) -> None:
        """Give them back, or reject them for good."""
        self._core.nack_all(self.messages, requeue)
        self._driver.send(REQUEST_SECONDS)


def _not_confirmed(seconds: float) -> TimedOut:
    return TimedOut(f"the server has not confirmed all messages within {seconds:g} s")
