"""The blocking client of AMQP 1.0: the names of the blocking one, awaited."""

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, final

from flintmq.base.errors import FlintError
from flintmq.client import socket_driver, url
from flintmq.client.amqp10 import coordinator, management, terms
from flintmq.client.amqp10.connection import ClientConnection
from flintmq.client.amqp10.message import Message
from flintmq.client.amqp10.receiver import ClientReceiver, Delivery
from flintmq.client.amqp10.sender import ClientSender, Sent
from flintmq.client.driven import PIECE_BYTES
from flintmq.client.errors import TimedOut
from flintmq.client.socket_driver import SocketDriver
from flintmq.client.waiting import REQUEST_SECONDS, Waitable
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

# How long a close may take, which needs no disk.
_CLOSE_SECONDS: Final = 5.0


def connect(
    amqp_url: str,
    timeout: float | None = None,
    container_id: str = "",
    mechanism: str = plain.NAME,
    token: str | None = None,
) -> "Connection":
    """Connect within `timeout` seconds (default: the URL's connection_timeout, or 10).

    Links that are to be resumed are known to the server by `container_id` and their name. `mechanism` is how to log in:
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS" or "EXTERNAL"; a `token` of OAuth 2 is a
    login of its own, in place of that (OAUTHBEARER). Raises InvalidUrl, ConnectFailed, ConnectTimeout, LoginRefused,
    ConnectionEnded or ConnectionLost.
    """
    target = url.parse(amqp_url, token)
    core = terms.connection(target, container_id, mechanism)
    return Connection(core, socket_driver.connect(target, core, target.connect_seconds if timeout is None else timeout))


@final
class Connection:
    """To be used by one thread at a time. As a context manager, it closes at the end."""

    def __init__(self, core: ClientConnection, driver: SocketDriver) -> None:
        self._core = core
        self._driver = driver
        self._coordinator: ClientSender | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._core.closed is None

    @property
    def server(self) -> Open:
        """What the server says of itself."""
        return self._core.server

    def sender(
        self, target: str | Target | None, name: str = "", settled: bool = False, source: Source | None = None
    ) -> "Sender":
        """Attach a link to send on: to "/queues/orders", say. None: each message says where it goes (`to`).

        With `settled`, messages are sent without asking what becomes of them. Raises LinkDetached.
        """
        return self.resume(Sender(terms.sender(target, name, settled, source), self._core, self._driver))

    def receiver(
        self,
        source: str | Source,
        name: str = "",
        credit: int = 100,
        settled: bool = False,
        second: bool = False,
        filters: Fields | None = None,
    ) -> "Receiver":
        """Attach a link to receive on. Raises LinkDetached.

        At most `credit` messages wait here to be taken; 0: what `grant` asks for. With `settled` they come settled;
        with `second`, the server settles first, and only then this side forgets a message.
        """
        core = terms.receiver(source, name, credit, settled, second, filters)
        return self.resume(Receiver(core, self._core, self._driver))

    def resume(self, link: L) -> L:
        """Attach a link here whose connection was lost. Where both sides kept what was unsettled, nothing is sent twice
        that arrived; the server keeps it for a link whose terminus is durable, or does not expire.
        """
        link.move(self._core, self._driver)
        self._core.attach(link.core)
        _await(self._driver, link.core.opened, f"attached {link.core.name}")
        return link

    def transaction(self) -> "Transaction":
        """Begin a transaction; as a context manager, it commits at the end, and rolls back on an exception."""
        if self._coordinator is None or self._coordinator.error is not None:
            core = coordinator.coordinator(terms.unique("coordinator"))
            self._core.attach(core)
            _await(self._driver, core.opened, "attached a coordinator")
            self._coordinator = core
        sent = coordinator.declare(self._coordinator)
        _await(self._driver, sent, "declared a transaction")
        return Transaction(coordinator.declared(sent), self._coordinator, self._driver)

    def update_secret(self, token: str) -> None:
        """Tell the server a newer token of the same user, before the one there is expires.

        One that it does not accept ends the connection. Raises LocalProtocolError while it looks at another one.
        """
        requests, responses = management.pair(terms.unique("management"))
        with (
            self.resume(Receiver(responses, self._core, self._driver)) as receiver,
            self.resume(Sender(requests, self._core, self._driver)) as sender,
        ):
            sender.send(management.new_token(token))
            management.check_done(receiver.receive(REQUEST_SECONDS), REQUEST_SECONDS)

    def process(self, timeout: float = 0.0) -> None:
        """Take in what comes, and answer heartbeats, for `timeout` seconds; 0: only what is there already."""
        self._driver.process(timeout)

    def close(self) -> None:
        """Close all links and the connection. Harmless when it is closed."""
        try:
            if self.is_open:
                self._core.close()
                self._driver.wait(self._core.ended, _CLOSE_SECONDS)
        except FlintError:
            # It ended in another way, which is what was wanted.
            pass
        finally:
            self._driver.close()


class _LinkEnd(Generic[C]):
    """What senders and receivers have alike."""

    def __init__(self, core: C, connection: ClientConnection, driver: SocketDriver) -> None:
        self.core = core
        self._connection = connection
        self._driver = driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def server(self) -> Attach:
        """What the server says of its end: the address of a dynamic node, say, or the filters in place."""
        assert self.core.peer is not None
        return self.core.peer

    def detach(self) -> None:
        """Detach, and leave the server's end as it is: a terminus that does not expire waits to be resumed."""
        self._leave(closed=False)

    def close(self) -> None:
        """Detach for good; what is not settled goes back. Harmless when it is over."""
        self._leave(closed=True)

    def _leave(self, closed: bool) -> None:
        self.core.close(closed)
        self._driver.wait(self.core.ended, _CLOSE_SECONDS)
        self._connection.forget(self.core)

    def move(self, connection: ClientConnection, driver: SocketDriver) -> None:
        """For `Connection.resume`."""
        self._connection.forget(self.core)
        self._connection = connection
        self._driver = driver


@final
class Sender(_LinkEnd[ClientSender]):
    """As a context manager, it detaches at the end. Any method raises LinkDetached, ConnectionEnded or ConnectionLost
    when the link is over, and TimedOut when the server does not answer. After a lost connection, what has no outcome
    stays here: `Connection.resume` sends it, or what is missing of it, over another one.
    """

    @property
    def unsettled(self) -> int:
        """How many messages have no outcome yet."""
        return self.core.unsettled

    def send(
        self, message: Message | bytes, transaction: "Transaction | None" = None, timeout: float = REQUEST_SECONDS
    ) -> DeliveryState | None:
        """Send a message, and return its outcome: Accepted once it is safe, Released where no queue wanted it, Rejected
        where one refused it. None on a link that is `settled`.
        """
        sent = self._send(message, transaction, is_watched=True)
        if not self._driver.wait(sent, timeout):
            raise _no_outcome(timeout)
        sent.check()
        return sent.outcome

    def send_batch(
        self, messages: Iterable[Message | bytes], transaction: "Transaction | None" = None, timeout: float = 60.0
    ) -> int:
        """Send all; returns their number once the server has accepted every one of them.

        Raises SendFailed when it did not accept some (the others are safe), TimedOut after `timeout` seconds.
        """
        stop = time.monotonic() + timeout
        try:
            self.wait(timeout)
            count = 0
            for message in messages:
                if not self.core.room.is_ready and not self._driver.wait(self.core.room, stop - time.monotonic()):
                    raise _no_outcome(timeout)
                self._send(message, transaction, is_watched=False)
                count += 1
                if self._connection.output.backlog >= PIECE_BYTES:
                    self._driver.send_piece(stop - time.monotonic())
            self.wait(stop - time.monotonic())
        except TimedOut:
            raise _no_outcome(timeout) from None
        return count

    def wait(self, timeout: float = 60.0) -> None:
        """Wait until all that was sent has an outcome. Raises SendFailed, TimedOut."""
        if not self._driver.wait(self.core.idle, timeout):
            raise _no_outcome(timeout)
        self.core.report()

    def _send(self, message: Message | bytes, transaction: "Transaction | None", is_watched: bool) -> Sent:
        payload = message.encode() if isinstance(message, Message) else message
        return self.core.send(payload, transaction.txn_id if transaction else b"", is_watched)


@final
class Receiver(_LinkEnd[ClientReceiver]):
    """As a context manager, it detaches at the end. Any method raises LinkDetached, ConnectionEnded or ConnectionLost
    when the link is over. After a lost connection, what is unsettled stays here: it may be settled meanwhile, and
    `Connection.resume` tells the server, and gets what is missing of a message that came in part.
    """

    @property
    def unsettled(self) -> int:
        """How many messages, or parts of one, are not settled by both sides."""
        return self.core.unsettled

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None after `timeout` seconds without one (None: never)."""
        taken = self._take(1, timeout)
        return taken[0] if taken else None

    def batches(self, batch_size: int = 500, timeout: float | None = None) -> Iterator["Batch"]:
        """Messages as they come, up to `batch_size` at once: a batch waits for its first message only.

        Ends after `timeout` seconds without one; None: never.
        """
        while taken := self._take(batch_size, timeout):
            yield Batch(taken, self)

    def _take(self, count: int, timeout: float | None) -> list[Delivery]:
        if not self._driver.wait_for_message(self.core.inbox, timeout):
            return []
        return self.core.take(count)

    def grant(self, count: int) -> None:
        """Ask for so many more messages: for a receiver with no `credit` of its own."""
        self.core.grant(count)
        self._driver.send(REQUEST_SECONDS)

    def drain(self, timeout: float = REQUEST_SECONDS) -> None:
        """Have the server use up the credit with what there is, and give back the rest. `receive` gets what came."""
        self.core.drain()
        _await(self._driver, self.core.drained, "given back the credit", timeout)

    def accept(self, *deliveries: Delivery, transaction: "Transaction | None" = None) -> None:
        """They are done with."""
        self._settle(deliveries, ACCEPTED, transaction)

    def release(self, *deliveries: Delivery, transaction: "Transaction | None" = None) -> None:
        """Give them back as they were: nothing was tried."""
        self._settle(deliveries, RELEASED, transaction)

    def reject(
        self, *deliveries: Delivery, error: Error | None = None, transaction: "Transaction | None" = None
    ) -> None:
        """They are of no use to anybody: they are dropped, or become dead letters."""
        self._settle(deliveries, Rejected(error), transaction)

    def modify(
        self,
        *deliveries: Delivery,
        delivery_failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Annotations | None = None,
        transaction: "Transaction | None" = None,
    ) -> None:
        """Give them back changed: as tried in vain, not to come here again, with more message annotations."""
        self._settle(deliveries, Modified(delivery_failed, undeliverable_here, annotations or {}), transaction)

    def _settle(self, deliveries: Iterable[Delivery], outcome: Outcome, transaction: "Transaction | None") -> None:
        for delivery in deliveries:
            self.core.settle(delivery, outcome, transaction.txn_id if transaction else b"")
        self._driver.send(REQUEST_SECONDS)


@final
class Batch:
    """Messages that came together, and one outcome for all of them."""

    def __init__(self, messages: list[Delivery], receiver: Receiver) -> None:
        self.messages = messages
        self._receiver = receiver

    def accept(self, transaction: "Transaction | None" = None) -> None:
        """They are done with."""
        self._receiver.accept(*self.messages, transaction=transaction)

    def release(self) -> None:
        """Give them back as they were."""
        self._receiver.release(*self.messages)


@final
class Transaction:
    """What is sent and settled with it happens when it is committed, all of it or nothing."""

    def __init__(self, txn_id: bytes, core: ClientSender, driver: SocketDriver) -> None:
        self.txn_id = txn_id
        self._coordinator = core
        self._driver = driver
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        elif self._coordinator.error is None:
            # Without its link, it is rolled back already.
            self.roll_back()

    def commit(self) -> None:
        """Returns once all of it is safe. Raises TransactionFailed when nothing of it took effect."""
        self._discharge(fail=False)

    def roll_back(self) -> None:
        """Nothing of it takes effect."""
        self._discharge(fail=True)

    def _discharge(self, fail: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        sent = coordinator.discharge(self._coordinator, self.txn_id, fail)
        _await(self._driver, sent, "discharged the transaction")
        coordinator.discharged(sent)


def _await(driver: SocketDriver, waitable: Waitable, what: str, seconds: float = REQUEST_SECONDS) -> None:
    if not driver.wait(waitable, seconds):
        raise TimedOut(f"the server has not {what} within {seconds:g} s")
    waitable.check()


def _no_outcome(seconds: float) -> TimedOut:
    return TimedOut(f"the server has not said what becomes of all messages within {seconds:g} s")
