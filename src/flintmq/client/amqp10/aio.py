"""The asyncio client of AMQP 1.0: connections, sending and receiving links, and transactions.

The event loop answers heartbeats.
"""

import time
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, final

from flintmq.base.errors import FlintError
from flintmq.client import loop_driver, url
from flintmq.client.amqp10 import coordinator, management, terms
from flintmq.client.amqp10.connection import ClientConnection
from flintmq.client.amqp10.message import Message
from flintmq.client.amqp10.receiver import ClientReceiver, Delivery
from flintmq.client.amqp10.sender import ClientSender, Sent
from flintmq.client.driven import PIECE_BYTES
from flintmq.client.errors import TimedOut
from flintmq.client.loop_driver import LoopDriver
from flintmq.client.waitable import REQUEST_SECONDS, Waitable
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp10.composite import Annotations, Fields
from flintmq.wire.amqp10.performatives import Attach, Open
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Error,
    Modified,
    Outcome,
    Rejected,
)
from flintmq.wire.amqp10.termini import Source, Target

C = TypeVar("C", bound=ClientSender | ClientReceiver)
L = TypeVar("L", "Sender", "Receiver")

# A close waits no longer than this for the server, because the server needs no disk for it.
_CLOSE_SECONDS: Final = 5.0


async def connect(
    amqp_url: str,
    timeout: float | None = None,
    container_id: str = "",
    mechanism: str = plain.NAME,
    token: str | None = None,
) -> "Connection":
    """Open a connection to an AMQP 1.0 server, and log in.

    Example::

        async with await aio.connect("amqp://guest:guest@localhost:5672/%2f") as connection:
            sender = await connection.sender("/queues/greetings")
            print(await sender.send(Message(b"hello")))

    Args:
        amqp_url: ``amqp://user:password@host:port/vhost``, or ``amqps://`` for TLS; each part but the host has a
            default.
        timeout: Seconds for connecting and the login. None: the URL's ``connection_timeout``, or 10 seconds.
        container_id: The name of this program, by which the server knows links that are resumed. "": a new one.
        mechanism: The login: "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS" or "EXTERNAL" (by certificate).
        token: An OAuth 2 token, for a login by OAUTHBEARER instead of `mechanism`.

    Raises:
        InvalidUrl: The URL cannot be understood, or its TLS files cannot be used.
        ConnectFailed: The server cannot be reached; `ConnectTimeout` if the time was not enough.
        LoginRefused: Wrong user name, password or token, or the server does not accept the mechanism.
        ConnectionEnded: The server refused the connection for another reason, such as an unknown virtual host.
        ConnectionLost: The server closed the socket without a reason.
    """
    target = url.parse(amqp_url, token)
    core = terms.connection(target, container_id, mechanism)
    return Connection(
        core, await loop_driver.connect(target, core, target.connect_seconds if timeout is None else timeout)
    )


@final
class Connection:
    """A connection to an AMQP 1.0 server, to be used in one event loop, by any number of tasks.

    As a context manager, it closes at the end. `connect` opens it.
    """

    def __init__(self, core: ClientConnection, driver: LoopDriver) -> None:
        self._core = core
        self._driver = driver
        self._coordinator: ClientSender | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used."""
        return self._core.closed is None

    @property
    def server(self) -> Open:
        """The server's open frame: its name, limits and properties."""
        return self._core.server

    async def sender(
        self, target: str | Target | None, name: str = "", settled: bool = False, source: Source | None = None
    ) -> "Sender":
        """Attach a link to send messages on.

        Args:
            target: The address, such as "/queues/orders", or a `Target`. With None, each message has its address in
                `to`.
            name: The name of the link, for a link that is resumed. "": a new one.
            settled: Whether messages are sent settled: they have no outcome, and may be lost.
            source: The terminus on this side, for example one that is durable.

        Raises:
            LinkDetached: The server refused the link.
            TimedOut: The server did not answer within 60 seconds.
        """
        return await self.resume(Sender(terms.sender(target, name, settled, source), self._core, self._driver))

    async def receiver(
        self,
        source: str | Source,
        name: str = "",
        credit: int = 100,
        settled: bool = False,
        second: bool = False,
        filters: Fields | None = None,
    ) -> "Receiver":
        """Attach a link to receive messages on.

        Args:
            source: The address, such as "/queues/orders", or a `Source`.
            name: The name of the link, for a link that is resumed. "": a new one.
            credit: The number of messages that may wait here until they are taken. 0: only those that `grant` asks for.
            settled: Whether messages arrive settled: they have no outcome, and may be lost.
            second: Whether the server settles a message first, and this side forgets it only then.
            filters: What to receive: `selector`, `no_local`, `stream_offset`, `stream_time`, joined by ``|``.

        Raises:
            LinkDetached: The server refused the link.
            TimedOut: The server did not answer within 60 seconds.
        """
        core = terms.receiver(source, name, credit, settled, second, filters)
        return await self.resume(Receiver(core, self._core, self._driver))

    async def resume(self, link: L) -> L:
        """Attach a sender or receiver of a lost connection to this one, with its unsettled messages.

        Both sides compare what is unsettled: no message that arrived is sent twice. The server keeps its side for links
        whose terminus is durable or does not expire.

        Raises:
            LinkDetached: The server refused the link.
            TimedOut: The server did not answer within 60 seconds.
        """
        link.move(self._core, self._driver)
        self._core.attach(link.core)
        await _await(self._driver, link.core.opened, f"attached {link.core.name}")
        return link

    async def transaction(self) -> "Transaction":
        """Begin a transaction. As a context manager, it commits at the end, and rolls back after an exception.

        Raises:
            TransactionFailed: The server does not begin another one.
            TimedOut: The server did not answer within 60 seconds.
        """
        if self._coordinator is None or self._coordinator.error is not None:
            core = coordinator.coordinator(terms.unique("coordinator"))
            self._core.attach(core)
            await _await(self._driver, core.opened, "attached a coordinator")
            self._coordinator = core
        sent = coordinator.declare(self._coordinator)
        await _await(self._driver, sent, "declared a transaction")
        return Transaction(coordinator.declared(sent), self._coordinator, self._driver)

    async def update_secret(self, token: str) -> None:
        """Send the server a renewed OAuth 2 token of the same user, before the old one expires.

        A server that does not accept the token ends the connection.

        Raises:
            LocalProtocolError: The server is checking another token already.
            TimedOut: The server did not answer within 60 seconds.
        """
        requests, responses = management.pair(terms.unique("management"))
        async with (
            await self.resume(Receiver(responses, self._core, self._driver)) as receiver,
            await self.resume(Sender(requests, self._core, self._driver)) as sender,
        ):
            await sender.send(management.new_token(token))
            management.check_done(await receiver.receive(REQUEST_SECONDS), REQUEST_SECONDS)

    async def process(self, timeout: float = 0.0) -> None:
        """Keep the connection alive for `timeout` seconds: read what arrives, and answer heartbeats. 0: do not wait.

        A blocking program that makes no other call for longer than the heartbeat has to call this now and then. In an
        event loop, heartbeats are answered without it.

        Raises:
            ConnectionEnded: The connection was closed; ConnectionLost if the socket failed.
        """
        await self._driver.process(timeout)

    async def close(self) -> None:
        """Close all links and the connection. Raises no FlintError; on a closed connection, this has no effect."""
        try:
            if self.is_open:
                self._core.close()
                await self._driver.wait(self._core.ended, _CLOSE_SECONDS)
        except FlintError:
            # The connection ended in another way, so it is closed as well.
            pass
        finally:
            self._driver.close()


class _LinkEnd(Generic[C]):
    """One end of a link: the methods that a sender and a receiver share."""

    def __init__(self, core: C, connection: ClientConnection, driver: LoopDriver) -> None:
        self.core = core
        self._connection = connection
        self._driver = driver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The name of the link."""
        return self.core.name

    @property
    def server(self) -> Attach:
        """The server's attach frame: the address of a dynamic node, for example, or the filters that it applies."""
        assert self.core.peer is not None
        return self.core.peer

    async def detach(self) -> None:
        """Detach the link, but let the server keep its terminus until that expires, so that the link can be resumed."""
        await self._leave(closed=False)

    async def close(self) -> None:
        """Close the link. A receiver's unsettled messages return to their queue. On a closed link, it has no effect."""
        await self._leave(closed=True)

    async def _leave(self, closed: bool) -> None:
        self.core.close(closed)
        await self._driver.wait(self.core.ended, _CLOSE_SECONDS)
        self._connection.forget(self.core)

    def move(self, connection: ClientConnection, driver: LoopDriver) -> None:
        """Use another connection from now on. `Connection.resume` calls this."""
        self._connection.forget(self.core)
        self._connection = connection
        self._driver = driver


@final
class Sender(_LinkEnd[ClientSender]):
    """A link to send messages on. `Connection.sender` attaches it; as a context manager, it closes at the end.

    If the link has ended, every method raises LinkDetached, ConnectionEnded or ConnectionLost. After a lost connection,
    messages without an outcome stay here, and `Connection.resume` sends them, or the missing part of them.
    """

    @property
    def unsettled(self) -> int:
        """How many messages have no outcome yet."""
        return self.core.unsettled

    async def send(
        self, message: Message | bytes, transaction: "Transaction | None" = None, timeout: float = REQUEST_SECONDS
    ) -> DeliveryState | None:
        """Send a message, and wait for its outcome.

        Args:
            message: A message, or its encoded bytes.
            transaction: The transaction that the message belongs to.
            timeout: Seconds.

        Returns:
            `Accepted` if the message is safe, `Released` if it matched no queue, `Rejected` if a queue refused it; None
            on a link that sends settled messages.

        Raises:
            TimedOut: There was no outcome in time. The message may arrive.
            LocalProtocolError: A value has no type in AMQP.
        """
        sent = self._send(message, transaction, is_watched=True)
        if not await self._driver.wait(sent, timeout):
            raise _no_outcome(timeout)
        sent.check()
        return sent.outcome

    async def send_batch(
        self, messages: Iterable[Message | bytes], transaction: "Transaction | None" = None, timeout: float = 60.0
    ) -> int:
        """Send messages, and wait until the server has accepted all of them.

        Args:
            messages: Any iterable of messages, or of their encoded bytes. It is read while they are sent.
            transaction: The transaction that the messages belong to.
            timeout: Seconds for all of it.

        Returns:
            The number of messages.

        Raises:
            SendFailed: The server did not accept some messages; all others are safe.
            TimedOut: Some messages had no outcome in time. They may arrive.
        """
        stop = time.monotonic() + timeout
        try:
            await self.wait(timeout)
            count = 0
            for message in messages:
                if not self.core.room.is_ready and not await self._driver.wait(self.core.room, stop - time.monotonic()):
                    raise _no_outcome(timeout)
                self._send(message, transaction, is_watched=False)
                count += 1
                if self._connection.output.backlog >= PIECE_BYTES:
                    await self._driver.send_piece(stop - time.monotonic())
            await self.wait(stop - time.monotonic())
        except TimedOut:
            raise _no_outcome(timeout) from None
        return count

    async def wait(self, timeout: float = 60.0) -> None:
        """Wait up to `timeout` seconds until all messages have an outcome. Raises what `send_batch` does."""
        if not await self._driver.wait(self.core.idle, timeout):
            raise _no_outcome(timeout)
        self.core.report()

    def _send(self, message: Message | bytes, transaction: "Transaction | None", is_watched: bool) -> Sent:
        payload = message.encode() if isinstance(message, Message) else message
        return self.core.send(payload, transaction.txn_id if transaction else b"", is_watched)


@final
class Receiver(_LinkEnd[ClientReceiver]):
    """A link to receive messages on. `Connection.receiver` attaches it; as a context manager, it closes at the end.

    If the link has ended, every method raises LinkDetached, ConnectionEnded or ConnectionLost. After a lost connection,
    unsettled messages stay here, and can be settled. `Connection.resume` then tells the server, which sends the missing
    part of a message that arrived in part.
    """

    @property
    def unsettled(self) -> int:
        """How many messages, or parts of one, are not settled by both sides yet."""
        return self.core.unsettled

    async def receive(self, timeout: float | None = None) -> Delivery | None:
        """Wait for the next message. Returns None after `timeout` seconds; without a `timeout`, there is no limit."""
        taken = await self._take(1, timeout)
        return taken[0] if taken else None

    async def batches(self, batch_size: int = 500, timeout: float | None = None) -> AsyncIterator["Batch"]:
        """Yield batches of messages as they arrive. A batch waits for its first message only.

        Example::

            async for batch in receiver.batches(timeout=10.0):
                print(len(batch.messages))
                await batch.accept()

        Args:
            batch_size: The greatest number of messages of a batch.
            timeout: The loop ends after this many seconds without a message. None: it never does.
        """
        while taken := await self._take(batch_size, timeout):
            yield Batch(taken, self)

    async def _take(self, count: int, timeout: float | None) -> list[Delivery]:
        if not await self._driver.wait_for_message(self.core.inbox, timeout):
            return []
        return self.core.take(count)

    async def grant(self, count: int) -> None:
        """Ask for `count` more messages, on a receiver without a `credit` of its own."""
        self.core.grant(count)
        await self._driver.send(REQUEST_SECONDS)

    async def drain(self, timeout: float = REQUEST_SECONDS) -> None:
        """Ask the server for the messages that are ready, as far as there is credit, and to give back the rest of the
        credit.

        Raises TimedOut if the server has not done so within `timeout` seconds. `receive` returns the messages.
        """
        self.core.drain()
        await _await(self._driver, self.core.drained, "given back the credit", timeout)

    async def accept(self, *deliveries: Delivery, transaction: "Transaction | None" = None) -> None:
        """Settle messages as processed: the server removes them. In a transaction, its commit does it."""
        await self._settle(deliveries, ACCEPTED, transaction)

    async def release(self, *deliveries: Delivery, transaction: "Transaction | None" = None) -> None:
        """Return messages to their queue as if they had not been delivered."""
        await self._settle(deliveries, RELEASED, transaction)

    async def reject(
        self, *deliveries: Delivery, error: Error | None = None, transaction: "Transaction | None" = None
    ) -> None:
        """Refuse messages for ever: the server drops them, or publishes them as dead letters, with `error` as the
        reason.
        """
        await self._settle(deliveries, Rejected(error), transaction)

    async def modify(
        self,
        *deliveries: Delivery,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Annotations | None = None,
        transaction: "Transaction | None" = None,
    ) -> None:
        """Return messages to their queue with changes.

        Args:
            deliveries: The messages.
            delivery_failed: Whether this counts as a failed delivery.
            undeliverable_here: Whether they must not be delivered to this link again.
            annotations: Message annotations to add.
            transaction: The transaction whose commit does it.
        """
        await self._settle(deliveries, Modified(delivery_failed, undeliverable_here, annotations or {}), transaction)

    async def _settle(
        self, deliveries: Iterable[Delivery], outcome: Outcome, transaction: "Transaction | None"
    ) -> None:
        for delivery in deliveries:
            self.core.settle(delivery, outcome, transaction.txn_id if transaction else b"")
        await self._driver.send(REQUEST_SECONDS)


@final
class Batch:
    """Messages that arrived together, to be settled together."""

    def __init__(self, messages: list[Delivery], receiver: Receiver) -> None:
        self.messages = messages
        self._receiver = receiver

    async def accept(self, transaction: "Transaction | None" = None) -> None:
        """Settle the messages as processed: the server removes them. In a transaction, its commit does it."""
        await self._receiver.accept(*self.messages, transaction=transaction)

    async def release(self) -> None:
        """Return the messages to their queue as if they had not been delivered."""
        await self._receiver.release(*self.messages)


@final
class Transaction:
    """Messages sent, and outcomes given, that take effect together or not at all. `Connection.transaction` begins it.

    As a context manager, it commits at the end, and rolls back after an exception.
    """

    def __init__(self, txn_id: bytes, core: ClientSender, driver: LoopDriver) -> None:
        self.txn_id = txn_id
        self._coordinator = core
        self._driver = driver
        self._is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.commit()
        elif self._coordinator.error is None:
            # If the link to the coordinator has ended, the server has rolled back already.
            await self.roll_back()

    async def commit(self) -> None:
        """Commit the transaction: when this returns, all of it has taken effect and is safe.

        Raises:
            TransactionFailed: Nothing of it took effect.
            TimedOut: The server did not answer within 60 seconds.
        """
        await self._discharge(fail=False)

    async def roll_back(self) -> None:
        """Roll the transaction back: nothing of it takes effect."""
        await self._discharge(fail=True)

    async def _discharge(self, fail: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        sent = coordinator.discharge(self._coordinator, self.txn_id, fail)
        await _await(self._driver, sent, "discharged the transaction")
        coordinator.discharged(sent)


async def _await(driver: LoopDriver, waitable: Waitable, what: str, seconds: float = REQUEST_SECONDS) -> None:
    if not await driver.wait(waitable, seconds):
        raise TimedOut(f"the server has not {what} within {seconds:g} s")
    waitable.check()


def _no_outcome(seconds: float) -> TimedOut:
    return TimedOut(f"not all messages had an outcome within {seconds:g} s")
