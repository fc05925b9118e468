"""What all queues of a broker share: the time, and the lists of what is to be done before the tick ends."""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from flintmq.broker.counters.budget import Budget
from flintmq.broker.counters.churn import Churn
from flintmq.broker.message import Entry
from flintmq.broker.ports import Pages
from flintmq.broker.terminus.partial_messages import PartialMessages
from flintmq.broker.timers import Timers

if TYPE_CHECKING:
    from flintmq.broker.policy.change import PolicyChange
    from flintmq.broker.queue.base import Queue
    from flintmq.broker.queue.lifetime import Lifetime
    from flintmq.broker.queue.stream import StreamQueue
    from flintmq.broker.stage.deferred_append import DeferredAppend
    from flintmq.broker.stage.stage import Stage
    from flintmq.broker.tap import Tap

# Why a message was dead-lettered, as x-death says it (RabbitMQ).
REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
# No frame can hold it: it was stored by a release that let in longer names or properties.
OVERSIZED: Final = "oversized"
# The strict dialect's own.
DELETED: Final = "deleted"


@final
class DeadLetter:
    """An entry that its queue gave up, and that is to be published to the queue's dead letter exchange.

    `taken` are the queues that have it already, where others have not.
    """

    def __init__(self, queue: "Queue", entry: Entry, reason: str) -> None:
        self.queue = queue
        self.entry = entry
        self.reason = reason
        self.taken: list[Queue] | None = None

    def has_taken(self, target: "Queue") -> None:
        if self.taken is None:
            self.taken = []
        self.taken.append(target)


@final
class Tick:
    """`now_ms` is the time of what is being taken in (Unix time); whoever reads the clock sets it."""

    def __init__(self) -> None:
        self.now_ms: i64 = 0
        # Why publishers have to wait ("low on memory"); empty while they need not.
        self.alarm = ""
        self.timers = Timers()
        # What all transactions hold that are neither committed nor rolled back.
        self.staged = Budget()
        # Parts of messages whose senders are not there.
        self.partial_messages = PartialMessages()
        # When queues have messages that expire. What is due at the same time goes first, so that what becomes ready by
        # it can still be delivered.
        self.expiries = Timers()
        # Where queues put what is far from its turn; None: it stays with them.
        self.pages: Pages | None = None
        # Queues that may have something for their consumers.
        self.ready: list[Queue] = []
        # Those that go before: there is more now of what their consumers share, and they take turns at it.
        self.in_turn: list[Queue] = []
        # Stages with messages that are on their way to their queues, or to be discarded.
        self.stages: list[Stage] = []
        # Copies that are to be appended to streams right behind this tick's batch.
        self.landings: list[DeferredAppend] = []
        # At start-up: whether some of them may have been.
        self.has_landed = False
        # Streams with consumers that wait for records to become durable.
        self.unsynced: list[StreamQueue] = []
        # Queues that nobody has used for as long as they were declared to wait: to be removed.
        self.unused: list[Queue] = []
        # Lives of queues that may be over.
        self.ended: list[Lifetime] = []
        # Queues whose arguments a message changed: to be worked out with policies, and kept.
        self.rearranged: dict[Queue, None] = {}
        # Changes of policies that not all queues and exchanges were compared with yet.
        self.policy_changes: deque[PolicyChange] = deque()
        self.dead_letters: deque[DeadLetter] = deque()
        # Letters of messages that no queue took: their publishers are answered when this tick's batch is durable.
        self.discarded: deque[DeadLetter] = deque()
        self.churn = Churn()
        # Sees what is published and delivered, while somebody traces messages.
        self.tap: Tap | None = None
        # Queues that refused dead letters, and that something has left since.
        self.roomy: deque[Queue] = deque()
