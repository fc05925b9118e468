"""A channel's transaction (amqp-0-9-1 tx): what is staged, and how it takes effect as a whole or not at all."""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import TRANSACTION_MAX_BYTES, TRANSACTION_MAX_COPIES, TRANSACTION_MAX_OPERATIONS
from flintmq.broker.message import Message
from flintmq.gateway.amqp091.publication import Publication
from flintmq.gateway.amqp091.unacked import Delivery

# How a delivery is settled.
ACCEPT: Final = 0
REJECT: Final = 1
REQUEUE: Final = 2


def check_copies(copies: i64) -> None:
    """Raises PreconditionFailed where a commit would put its messages on too many queues, or compare them too often."""
    if copies > TRANSACTION_MAX_COPIES:
        raise PreconditionFailed(
            f"a transaction makes {TRANSACTION_MAX_COPIES} copies of messages for queues at most: commit more often"
        )


@final
class StagedPublish:
    def __init__(self, publication: Publication, message: Message, more_keys: list[str] | None) -> None:
        self.publication = publication
        self.message = message
        self.more_keys = more_keys


@final
class StagedSettlement:
    def __init__(self, outcome: int, deliveries: list[Delivery]) -> None:
        self.outcome = outcome
        self.deliveries = deliveries


@final
class Transaction:
    """Everything since tx.select, or since the last commit or rollback."""

    def __init__(self) -> None:
        self.publishes: list[StagedPublish] = []
        self.settlements: list[StagedSettlement] = []
        self._bytes: i64 = 0

    def publish(self, publication: Publication, message: Message, more_keys: list[str] | None) -> None:
        self._add_bytes(message)
        self.publishes.append(StagedPublish(publication, message, more_keys))
        self._check_count()

    def settle(self, settlement: StagedSettlement) -> None:
        for delivery in settlement.deliveries:
            if _makes_letter(delivery, settlement.outcome):
                # It will be published, in this transaction.
                self._add_bytes(delivery.entry.message)
            delivery.is_staged = True
        self.settlements.append(settlement)
        self._check_count()

    def _add_bytes(self, message: Message) -> None:
        self._bytes += len(message.body) + len(message.properties)
        if self._bytes > TRANSACTION_MAX_BYTES:
            raise PreconditionFailed(
                f"a transaction holds {TRANSACTION_MAX_BYTES} bytes of messages at most: commit more often"
            )

    def _check_count(self) -> None:
        if len(self.publishes) + len(self.settlements) > TRANSACTION_MAX_OPERATIONS:
            raise PreconditionFailed(
                f"a transaction holds {TRANSACTION_MAX_OPERATIONS} publishes and settlements at most: commit more often"
            )

    def clear(self) -> None:
        """Roll back: what was to be settled is outstanding as before."""
        for settlement in self.settlements:
            for delivery in settlement.deliveries:
                delivery.is_staged = False
        self.publishes = []
        self.settlements = []
        self._bytes = 0


def _makes_letter(delivery: Delivery, outcome: int) -> bool:
    settings = delivery.queue.settings
    if settings.dead_letter_exchange is None or outcome == ACCEPT:
        return False
    return outcome == REJECT or 0 <= settings.delivery_limit <= i64(delivery.entry.returns)
