"""The tick: what all queues of a broker share, its time and the work that is left to do before it ends."""

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, trait

from flintmq.broker.counters.budget import Budget
from flintmq.broker.counters.churn import Churn
from flintmq.broker.counters.partial_messages import PartialMessages
from flintmq.broker.message import Entry
from flintmq.broker.ports import Pages
from flintmq.broker.timers import Timers

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue
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


@trait
class SteppedWork:
    """Work that is done a part in each tick."""

    @abstractmethod
    def step(self, most: i64) -> bool:
        """Do at most so many units of it: messages, or names. Returns whether some is left for the next tick."""


@trait
class DeferredWork:
    """Work that belongs directly behind the tick's batch, before anything else is written."""

    @abstractmethod
    def plan(self, offsets: dict[int, int]) -> None:
        """Write down what will be done. `offsets` has the next offset of each stream, by its id, and is advanced."""

    @abstractmethod
    def run(self) -> None:
        """Do it: the batch has been handed over."""


@trait
class DurableReader:
    """A queue whose consumers wait for records to become durable."""

    @abstractmethod
    def synced(self) -> None:
        """More records may be durable now."""


@trait
class QueueEnding:
    """A reason why a queue may end by itself."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the queue is to be removed."""

    @property
    @abstractmethod
    def ended_queue(self) -> "Queue":
        """The queue that is removed if so."""


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
    """`now_ms` is the time of the input that is being handled (Unix time); the server sets it from its clock."""

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
        self.stages: list[SteppedWork] = []
        # Messages that are appended to streams directly behind this tick's batch.
        self.deferred: list[DeferredWork] = []
        # At start-up: whether some of them may have been appended already.
        self.has_appended = False
        # Streams with consumers that wait for records to become durable.
        self.unsynced: list[DurableReader] = []
        # Queues that nobody has used for as long as they were declared to wait: to be removed.
        self.unused: list[Queue] = []
        # Reasons for queues to end by themselves that may hold by now.
        self.ended: list[QueueEnding] = []
        # Queues whose arguments a message changed: to be worked out with policies, and kept.
        self.rearranged: dict[Queue, None] = {}
        # Changes of policies that not all queues and exchanges were compared with yet.
        self.policy_changes: deque[SteppedWork] = deque()
        self.dead_letters: deque[DeadLetter] = deque()
        # Letters of messages that no queue took: their publishers are answered when this tick's batch is durable.
        self.discarded: deque[DeadLetter] = deque()
        self.churn = Churn()
        # Sees what is published and delivered, while somebody traces messages.
        self.tap: Tap | None = None
        # Queues that refused dead letters, and that something has left since.
        self.roomy: deque[Queue] = deque()
