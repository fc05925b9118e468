"""Transactions: publishes and settlements are staged, and take effect as a whole or not at all.

One engine for all protocols. What can fail fails before anything takes effect; then all of it is one group of the
journal, so that a crash leaves the whole or nothing. A gateway says by its own kinds of `StagedPublish` and
`StagedSettlement` what is its business beside that: who is answered, whose window has room again.
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
    """A message on its way; `more_keys` are routing keys beside the route's.

    `queues` are where it goes, where its publisher was told so before the commit; None where the commit decides.
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
        """The commit: put the message on these queues, as if it came just now. This must not fail."""

    def undo(self) -> None:
        """The transaction was rolled back: the message is nowhere."""
        return


@mypyc_attr(allow_interpreted_subclasses=True)
class StagedSettlement:
    """Deliveries with one outcome; from `stage` on nobody else settles them."""

    @property
    @abstractmethod
    def dead_letter_bytes(self) -> i64:
        """Bytes of the messages among them that become dead letters, which are published with the commit."""

    @abstractmethod
    def stage(self) -> None:
        """The transaction has taken this in."""

    @abstractmethod
    def take(self) -> None:
        """The commit is certain: the deliveries are no longer outstanding. This must not fail."""

    @abstractmethod
    def apply(self) -> None:
        """The commit: settle what was taken, in the group of the journal that is open. This must not fail."""

    @abstractmethod
    def undo(self) -> None:
        """The transaction was rolled back: the deliveries are outstanding as before `stage`."""


@final
class Transaction:
    """Everything since it was begun, or since the last commit or rollback, in one virtual host."""

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
        """Stage a settlement. Raises PreconditionFailed beyond the limits, and has no part in it then."""
        self._make_room(staged.dead_letter_bytes)
        staged.stage()
        self._settlements.append(staged)

    def _make_room(self, count: i64) -> None:
        """For one operation more, before anything is done of it."""
        staged = self._staged
        size = self._bytes + count
        if size > TRANSACTION_FREE_BYTES and staged.held + count > staged.most:
            raise PreconditionFailed(
                f"the transactions of all clients hold {staged.held} bytes of messages, {staged.most} are allowed, and "
                f"this one more than {TRANSACTION_FREE_BYTES}: commit more often"
            )
        if size > TRANSACTION_MAX_BYTES:
            raise PreconditionFailed(
                f"a transaction holds {TRANSACTION_MAX_BYTES} bytes of messages at most: commit more often"
            )
        if len(self._publishes) + len(self._settlements) >= TRANSACTION_MAX_OPERATIONS:
            raise PreconditionFailed(
                f"a transaction holds {TRANSACTION_MAX_OPERATIONS} publishes and settlements at most: commit more often"
            )
        # What is refused is not held.
        self._bytes = size
        staged.held += count

    def commit(self) -> None:
        """Apply all that is staged; it is safe once the batch it is in is durable.

        Raises NotFound, AccessRefused or PreconditionFailed, with all of it staged as before, where some of it cannot
        be done.
        """
        # Each message is routed once: where chance has a part in that, the queues that have room for it are the queues
        # it goes to. What a publisher was told of a route holds, whatever is bound by now.
        vhost = self._vhost
        publishes = self._publishes
        for each in publishes:
            vhost.router.check(each.route)
        ways: list[list[Queue]] = []
        copies: i64 = 0
        for each in publishes:
            told = each.queues
            spent: i64 = WORK.spent
            queues = vhost.queues_of(each.route, each.message, each.more_keys) if told is None else _left_of(told)
            ways.append(queues)
            copies += max(i64(len(queues)), WORK.spent - spent)
            _check_copies(copies)
        vhost.check_room([(each.message, queues) for each, queues in zip(publishes, ways, strict=True)])
        settlements = self._settlements
        for settlement in settlements:
            settlement.take()
        self._forget()
        broker = self._broker
        journal = broker.storage.journal
        journal.begin_group()
        try:
            # First the publishes: room was found for them in queues that settlements may fill again.
            for each, queues in zip(publishes, ways, strict=True):
                each.put(queues)
            before = broker.dead_letter_count
            for settlement in settlements:
                settlement.apply()
            # What was rejected goes to the dead letters with all the rest, or it would come back without that.
            broker.publish_given_up(before)
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
        """Its channel has ended, which gives back by itself what was staged for settlement."""
        self._forget()

    def _forget(self) -> None:
        self._publishes = []
        self._settlements = []
        self._staged.held -= self._bytes
        self._bytes = 0


def _left_of(told: list[Queue]) -> list[Queue]:
    """The queues of a route that was told which are still there. Raises NotFound where all of them are gone."""
    left = [queue for queue in told if not queue.gone]
    if told and not left:
        raise NotFound(f"queue '{told[0].name}' in vhost '{told[0].vhost}' was deleted before the commit")
    return left


def _check_copies(copies: i64) -> None:
    """Raises PreconditionFailed where a commit would put its messages on too many queues, or compare them too often."""
    if copies > TRANSACTION_MAX_COPIES:
        raise PreconditionFailed(
            f"a transaction makes {TRANSACTION_MAX_COPIES} copies of messages for queues at most: commit more often"
        )
