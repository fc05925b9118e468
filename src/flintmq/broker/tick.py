"""The tick: the state that all queues of a broker share, with its time and the work to do before its end."""

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, trait

from flintmq.base.limits import STEP_UNITS
from flintmq.broker.counters.budget import Budget
from flintmq.broker.counters.churn import Churn
from flintmq.broker.counters.dispatch import Dispatch
from flintmq.broker.counters.partial_messages import PartialMessages
from flintmq.broker.message import Entry
from flintmq.broker.ports import Pages
from flintmq.broker.timers import Timers

if TYPE_CHECKING:
    from flintmq.broker.queue.base import Queue
    from flintmq.broker.tap import Tap

# Reasons for dead-lettering, as in x-death (RabbitMQ).
REJECTED: Final = "rejected"
EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"
# No frame can hold the message: an earlier release accepted longer names or properties.
OVERSIZED: Final = "oversized"
# The queue was deleted (dialect strict only).
DELETED: Final = "deleted"


@trait
class SteppedWork:
    """Work that is done a part in each tick."""

    @abstractmethod
    def step(self, most: i64) -> bool:
        """Do a part of the work that takes about `most` units. Returns whether some is left for the next tick."""

    def outlasts_errors(self) -> bool:
        """Whether the next tick goes on after a step that raised. The step must have removed what it failed at."""
        return False


@trait
class DeferredWork:
    """Work that must be done directly after the tick's batch, before anything else is written."""

    @abstractmethod
    def plan(self, offsets: dict[int, int]) -> None:
        """Record the work in the batch. `offsets` has the next offset of each stream by its id, and is advanced."""

    @abstractmethod
    def run(self) -> None:
        """Do the work, after the batch was handed to the storage."""


@trait
class DurableReader:
    """A queue whose consumers wait for records to become durable."""

    @abstractmethod
    def synced(self) -> None:
        """Have the queue dispatched, because more records may be durable."""


@final
class DeadLetter:
    """An entry that is to be published to the dead letter exchange of its queue.

    `taken` are the queues that have taken it already, if others have refused it.
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
    """The state of a tick. `now_ms` is the time of the input being handled (Unix time), which the server sets."""

    def __init__(self) -> None:
        self.now_ms: i64 = 0
        # The reason why publishers must wait ("low on memory"); empty while they need not.
        self.alarm = ""
        self.timers = Timers()
        # The bytes that all open transactions hold.
        self.staged = Budget()
        # Parts of messages on suspended links.
        self.partial_messages = PartialMessages()
        # Timers for messages that expire. Other timers that are due at the same time run first, so that messages which
        # these make ready can still be delivered.
        self.expiries = Timers()
        # The storage of pages, into which queues pack entries far from their turn; None: they stay in memory.
        self.pages: Pages | None = None
        self.dispatch = Dispatch()
        # Queues that may have messages for their consumers.
        self.ready: list[Queue] = []
        # Queues that are dispatched before these, in order, because their consumers share room that has become free.
        self.in_turn: list[Queue] = []
        # Stages with messages that are to be moved to their queues, or to be discarded.
        self.stages: list[SteppedWork] = []
        # Messages that are appended to streams directly after this tick's batch.
        self.deferred: list[DeferredWork] = []
        # At start-up: whether some of these may have been appended already.
        self.has_appended = False
        # Streams with consumers that wait for records to become durable.
        self.unsynced: list[DurableReader] = []
        # Work that ticks do in steps, all of it together STEP_UNITS in a tick.
        self.steps: deque[SteppedWork] = deque()
        # The number of changes of policies among it.
        self.policy_changes: i64 = 0
        # Queues that are to be removed because they were unused for the time of x-expires.
        self.unused: deque[Queue] = deque()
        # Queues that are to be removed if their lifetime policy still says so.
        self.ended: list[Queue] = []
        # Queues whose arguments a message changed: they are combined with policies, and stored.
        self.rearranged: dict[Queue, None] = {}
        self.dead_letters: deque[DeadLetter] = deque()
        # Dead letters of messages that a full queue did not take: they go with this tick's batch, before confirms.
        self.discarded: deque[DeadLetter] = deque()
        self.churn = Churn()
        # The tap that sees published and delivered messages; None while nothing is traced.
        self.tap: Tap | None = None
        # Queues that refused dead letters, and that an entry has left since.
        self.with_room: deque[Queue] = deque()

    def begin(self, work: SteppedWork) -> None:
        """Do the first step of some work now. The ticks do the others, if any."""
        self.do_step(work, STEP_UNITS)

    def do_step(self, work: SteppedWork, most: i64) -> None:
        """Do a step of about `most` units. If some of the work is left, the next tick goes on with it."""
        try:
            is_left = work.step(most)
        except Exception:
            if work.outlasts_errors():
                self.steps.append(work)
            raise
        if is_left:
            self.steps.append(work)
