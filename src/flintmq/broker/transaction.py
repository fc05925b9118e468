"""Transactions: publishes and settlements are staged, and take effect as a whole or not at all.

One implementation serves all protocols. Whatever can fail is checked before anything takes effect. The effects are one
group of the journal, so that a crash leaves all or nothing. Each gateway has its own kinds of `StagedPublish` and
`StagedSettlement` for its part: answers to the client, and windows of consumers.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import NotFound, PreconditionFailed
from flintmq.base.limits import (
    TRANSACTION_FREE_BYTES,
    TRANSACTION_MAX_BYTES,
    TRANSACTION_MAX_COPIES,
    TRANSACTION_MAX_OPERATIONS,
)
from flintmq.base.work import WORK
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Message
from flintmq.broker.queue.base import Queue

if TYPE_CHECKING:
    from flintmq.broker.broker import Broker
    from flintmq.broker.vhost import VHost


@mypyc_attr(allow_interpreted_subclasses=True)
class StagedPublish:
    """A staged message. `more_keys` are routing keys beside the route's.

    `queues` are its queues if its publisher was told of them before the commit, or None if the commit routes it.
    """

    def __init__(
        self, route: Route, message: Message, more_keys: list[str] | None, queues: list[Queue] | None = None
    ) -> None:
        self.route = route
        self.message = message
        self.more_keys = more_keys
        self.queues = queues

    @abstractmethod
    def put(self, queues: list[Queue]) -> None:
        """Put the message on these queues at the commit, as if it arrived now. This must not fail."""

    def undo(self) -> None:
        """Roll back: drop the message."""
        return


@mypyc_attr(allow_interpreted_subclasses=True)
class StagedSettlement:
    """Deliveries with one outcome. After `stage` nobody else can settle them."""

    @property
    @abstractmethod
    def dead_letter_bytes(self) -> i64:
        """The bytes of messages that will become dead letters, which the commit publishes."""

    @abstractmethod
    def stage(self) -> None:
        """Reserve the deliveries for the transaction."""

    @abstractmethod
    def take(self) -> None:
        """Take the deliveries off the list of outstanding ones: the commit is certain. This must not fail."""

    @abstractmethod
    def apply(self) -> None:
        """Settle the deliveries at the commit, within the open journal group. This must not fail."""

    @abstractmethod
    def undo(self) -> None:
        """Roll back: the deliveries are outstanding as before `stage`."""


@final
class Transaction:
    """The publishes and settlements since the last commit or rollback, in one virtual host."""

    def __init__(self, broker: "Broker", vhost: "VHost") -> None:
        self._broker = broker
        self._vhost = vhost
        self._publishes: list[StagedPublish] = []
        self._settlements: list[StagedSettlement] = []
        self._bytes: i64 = 0
        self._staged = broker.tick.staged

    @property
    def publish_count(self) -> int:
        return len(self._publishes)

    @property
    def settlement_count(self) -> int:
        return len(self._settlements)

    def publish(self, staged: StagedPublish) -> None:
        """Stage a message. Raises NotFound or AccessRefused as a publish does, PreconditionFailed beyond the limits."""
        self._vhost.router.check(staged.route)
        self._make_room(len(staged.message.body) + len(staged.message.properties))
        self._publishes.append(staged)

    def settle(self, staged: StagedSettlement) -> None:
        """Stage a settlement. Raises PreconditionFailed, without staging it, beyond the limits."""
        self._make_room(staged.dead_letter_bytes)
        staged.stage()
        self._settlements.append(staged)

    def _make_room(self, count: i64) -> None:
        """Account for another operation, before it changes anything. Raises PreconditionFailed beyond the limits."""
        staged = self._staged
        size = self._bytes + count
        if size > TRANSACTION_FREE_BYTES and staged.held + count > staged.most:
            raise PreconditionFailed(
                f"the transactions of all clients hold {staged.held} of at most {staged.most} bytes of messages, and "
                f"this one more than {TRANSACTION_FREE_BYTES}: commit more often"
            )
        if size > TRANSACTION_MAX_BYTES:
            raise PreconditionFailed(
                f"a transaction holds at most {TRANSACTION_MAX_BYTES} bytes of messages: commit more often"
            )
        if len(self._publishes) + len(self._settlements) >= TRANSACTION_MAX_OPERATIONS:
            raise PreconditionFailed(
                f"a transaction holds at most {TRANSACTION_MAX_OPERATIONS} publishes and settlements: commit more often"
            )
        # Only accepted operations count.
        self._bytes = size
        staged.held += count

    def commit(self) -> None:
        """Apply everything staged. The result is durable with the current batch.

        Raises NotFound, AccessRefused or PreconditionFailed, with everything staged as before, if some of it cannot be
        done.
        """
        # Each message is routed once, because a random exchange would route it elsewhere the second time, to queues
        # that were not checked for room. A route that the publisher was told is kept, even if bindings have changed.
        vhost = self._vhost
        publishes = self._publishes
        for each in publishes:
            vhost.router.check(each.route)
        routed: list[list[Queue]] = []
        copies: i64 = 0
        for each in publishes:
            promised = each.queues
            spent: i64 = WORK.spent
            queues = (
                vhost.queues_of(each.route, each.message, each.more_keys) if promised is None else _remaining(promised)
            )
            routed.append(queues)
            copies += max(i64(len(queues)), WORK.spent - spent)
            _check_copies(copies)
        vhost.check_room([(each.message, queues) for each, queues in zip(publishes, routed, strict=True)])
        settlements = self._settlements
        for settlement in settlements:
            settlement.take()
        self._forget()
        broker = self._broker
        journal = broker.storage.journal
        journal.begin_group()
        try:
            # Publishes come first: the settlements may fill the queues in which room for them was found.
            for each, queues in zip(publishes, routed, strict=True):
                each.put(queues)
            before = broker.dead_letter_count
            for settlement in settlements:
                settlement.apply()
            # Dead letters of rejected messages are part of the group. Without it a crash would return the messages to
            # their queues.
            broker.publish_dead_letters_since(before)
        finally:
            journal.end_group()

    def roll_back(self) -> None:
        publishes = self._publishes
        settlements = self._settlements
        self._forget()
        for each in publishes:
            each.undo()
        for settlement in settlements:
            settlement.undo()

    def abandon(self) -> None:
        """Discard the transaction: its channel has ended and returns the staged deliveries by itself."""
        self._forget()

    def _forget(self) -> None:
        self._publishes = []
        self._settlements = []
        self._staged.held -= self._bytes
        self._bytes = 0


def _remaining(promised: list[Queue]) -> list[Queue]:
    """Return the queues of a promised route that still exist. Raises NotFound if all of them are gone."""
    remaining = [queue for queue in promised if not queue.gone]
    if promised and not remaining:
        raise NotFound(f"queue '{promised[0].name}' in vhost '{promised[0].vhost}' was deleted before the commit")
    return remaining


def _check_copies(copies: i64) -> None:
    """Raises PreconditionFailed if a commit would copy its messages to too many queues, or compare them too often."""
    if copies > TRANSACTION_MAX_COPIES:
        raise PreconditionFailed(
            f"a transaction makes at most {TRANSACTION_MAX_COPIES} copies of messages for queues: commit more often"
        )
