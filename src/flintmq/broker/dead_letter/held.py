"""Dead letters that some targets did not accept, from queues that dead-letter at least once.

Such a dead letter stays unsettled on its queue until all targets have it. The missing targets are remembered, so that
no target gets it twice. A full target is asked again after something has left it, without making other targets wait. A
dead letter that is larger than an empty target accepts lets others pass, and is tried again from time to time. A dead
letter without any target is routed again when exchanges, bindings or the queue's settings have changed.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DEAD_LETTER_STEP_UNITS, DEAD_LETTER_WORK_UNITS
from flintmq.base.work import WORK
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.message import Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.publish import put_where_taken
from flintmq.broker.queue.settings import QueueSettings
from flintmq.broker.tick import DeadLetter, Tick
from flintmq.broker.timers import Timed

# The interval, in ms, of the check whether routes or settings of dead letters have changed.
_CHECK_MS: Final = 10_000
# Bytes of bodies in one block of the journal, not counting the last dead letter.
DEAD_LETTER_BYTES_PER_TICK: Final = 4 * 1024 * 1024


@final
class HeldDeadLetter:
    """A dead letter that waits. The queues in `lacking` are to get `message`; without any, it had no target."""

    def __init__(self, dead_letter: DeadLetter, message: Message, lacking: list[Queue]) -> None:
        self.dead_letter = dead_letter
        self.message = message
        self.lacking = lacking
        self.is_over = False


@final
class _Source:
    """The held dead letters of one queue, and the topology version and settings with which they were routed."""

    def __init__(self, version: i64, settings: QueueSettings) -> None:
        self.version: i64 = version
        self.settings = settings
        self.dead_letters: dict[HeldDeadLetter, None] = {}


@final
class HeldDeadLetters(Timed):
    """Holds dead letters until their targets accept them.

    `exchanges` has the exchange registry of every virtual host, by name.
    """

    def __init__(self, tick: Tick, exchanges: dict[str, ExchangeRegistry], journal: Journal) -> None:
        super().__init__()
        self._tick = tick
        self._exchanges = exchanges
        self._journal = journal
        self._sources: dict[Queue, _Source] = {}
        # Dead letters that a target refused, in order.
        self._targets: dict[Queue, deque[HeldDeadLetter]] = {}
        # Dead letters that are larger than a target accepts.
        self._oversized: dict[Queue, list[HeldDeadLetter]] = {}

    def has_waiting(self, target: Queue) -> bool:
        """Whether dead letters wait for room in this queue: further ones have to wait behind them."""
        return target in self._targets

    def hold(self, dead_letter: DeadLetter, message: Message, lacking: list[Queue]) -> None:
        queue = dead_letter.queue
        held = HeldDeadLetter(dead_letter, message, lacking)
        source = self._sources.get(queue)
        if source is None:
            source = _Source(self._version_of(queue), queue.settings)
            self._sources[queue] = source
        source.dead_letters[held] = None
        for target in lacking:
            if _is_oversized(message, target):
                self._oversized.setdefault(target, []).append(held)
                continue
            waiting = self._targets.get(target)
            if waiting is None:
                waiting = deque()
                self._targets[target] = waiting
                if isinstance(target, EntryQueue):
                    target.await_room()
            waiting.append(held)
        self._tick.timers.at(self._tick.now_ms + _CHECK_MS, self)

    def _version_of(self, queue: Queue) -> i64:
        exchanges = self._exchanges.get(queue.vhost)
        return -1 if exchanges is None else exchanges.router.version

    # -- room ---------------------------------------------------------------------------------------------------

    def retry(self) -> None:
        """Put held dead letters on the targets that may have room.

        A target that could take more stays in the tick's list.
        """
        with_room = self._tick.with_room
        enough: i64 = WORK.spent + DEAD_LETTER_STEP_UNITS
        bytes_left: i64 = DEAD_LETTER_BYTES_PER_TICK
        for target in [with_room.popleft() for _ in range(len(with_room))]:
            waiting = self._targets.get(target)
            if waiting is None:
                continue
            while waiting and WORK.spent < enough and bytes_left > 0:
                held = waiting[0]
                if not held.is_over:
                    if target.gone:
                        self._remove_target(held, target)
                    elif put_where_taken([target], held.message, self._journal):
                        if not _is_oversized(held.message, target):
                            break
                        self._oversized.setdefault(target, []).append(held)
                        WORK.spent += DEAD_LETTER_WORK_UNITS
                    else:
                        held.dead_letter.has_taken(target)
                        self._remove_target(held, target)
                        WORK.spent += DEAD_LETTER_WORK_UNITS
                        bytes_left -= len(held.message.body)
                waiting.popleft()
            if not waiting:
                del self._targets[target]
            elif WORK.spent < enough and bytes_left > 0:
                if isinstance(target, EntryQueue):
                    target.await_room()
            else:
                with_room.append(target)

    def _remove_target(self, held: HeldDeadLetter, target: Queue) -> None:
        held.lacking.remove(target)
        if held.lacking:
            return
        held.is_over = True
        dead_letter = held.dead_letter
        source = self._sources[dead_letter.queue]
        del source.dead_letters[held]
        if not source.dead_letters:
            del self._sources[dead_letter.queue]
        if dead_letter.taken:
            dead_letter.queue.drop(dead_letter.entry)
        else:
            # All its targets were deleted.
            self._tick.dead_letters.append(dead_letter)

    # -- change -------------------------------------------------------------------------------------------------

    def on_due(self, now_ms: i64) -> None:
        for queue, source in list(self._sources.items()):
            if queue.gone or queue.vhost not in self._exchanges:
                for held in source.dead_letters:
                    queue.drop(held.dead_letter.entry)
            elif source.version != self._version_of(queue) or source.settings is not queue.settings:
                for held in source.dead_letters:
                    self._tick.dead_letters.append(held.dead_letter)
            else:
                continue
            for held in source.dead_letters:
                held.is_over = True
            del self._sources[queue]
        oversized = self._oversized
        self._oversized = {}
        for target in oversized:
            self._targets.setdefault(target, deque())
        for target, waiting in list(self._targets.items()):
            left = deque([held for held in [*oversized.get(target, []), *waiting] if not held.is_over])
            if left:
                self._targets[target] = left
                # A new consumer is room, too, on a queue with a length limit of 0.
                self._tick.with_room.append(target)
            else:
                del self._targets[target]
        if self._sources:
            self._tick.timers.at(now_ms + _CHECK_MS, self)


def _is_oversized(message: Message, target: Queue) -> bool:
    """Whether the queue never stores a message of this size. A waiting consumer may still take it directly."""
    return 0 <= target.settings.max_bytes < len(message.body)
