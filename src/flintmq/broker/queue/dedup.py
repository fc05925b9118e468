"""Deduplication: a queue takes a message once, however often it is published (x-dedup-window, x-dedup-size).

A message is identified by its producer and its number there (headers x-producer-id, x-producer-seq), or by its
message-id. While a stored message is on the queue, the journal has the message itself, and a restart reads its key from
it. When it leaves, a note with its key is written to the journal before its settlement, so that a crash leaves at least
one of the two. So a key is remembered if and only if its message was stored.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DEDUP_DEFAULT_ENTRIES, DISPATCH_BURST_MESSAGES, SHORTSTR_MAX_BYTES
from flintmq.broker.fields import headers_of
from flintmq.broker.message import PERSISTENT, Address, Entry, Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Recoverable
from flintmq.broker.queue.features import COMING, SETTLEMENT, Feature
from flintmq.broker.queue.settings import QueueSettings
from flintmq.broker.tick import Tick
from flintmq.broker.timers import NEVER, Timed

PRODUCER_HEADER: Final = "x-producer-id"
NUMBER_HEADER: Final = "x-producer-seq"
# The number of a key for which no message is stored.
_NONE: Final = -1
_NUMBER_MAX: Final = 2**63 - 1
_NOWHERE: Final = Address("", "")


@final
class _Known:
    """The highest `number` of a key, which came at `since_ms`, and the highest `stored` one, with its note if it left.

    The number of a message-id is always 0.
    """

    def __init__(self) -> None:
        self.number: i64 = _NONE
        self.stored: i64 = _NONE
        self.since_ms: i64 = 0
        self.note: Entry | None = None


@final
class Dedup(Timed, Recoverable, Feature):
    """The keys of messages that a queue remembers. The journal has their notes under the negated id of the queue.

    With `durable`, persistent messages of the queue are stored.
    """

    def __init__(self, queue_id: i64, queue: str, durable: bool, tick: Tick, journal: Journal) -> None:
        super().__init__()
        self._id: i64 = -queue_id
        self._queue = queue
        self._durable = durable
        self._tick = tick
        self._journal = journal
        self._window_ms: i64 = NEVER
        self._size: i64 = DEDUP_DEFAULT_ENTRIES
        # Keys in the order in which they were last used, the oldest first.
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._seq: i64 = 0
        # The message whose key was read last: the key of each is needed twice when it is published.
        self._message: Message | None = None
        self._key = ""
        self._number: i64 = 0

    def __len__(self) -> int:
        return len(self._known)

    def configure(self, settings: QueueSettings) -> None:
        self._window_ms = max(settings.dedup_window_ms, NEVER)
        self._size = settings.dedup_size if settings.dedup_size > 0 else DEDUP_DEFAULT_ENTRIES
        self._make_room()
        self._tick.timers.cancel(self)
        self._forget_later()

    # -- the life of an entry -----------------------------------------------------------------------------------

    def hears(self) -> int:
        return COMING | SETTLEMENT

    def taken(self, entry: Entry, now_ms: i64) -> None:
        self.remember(entry.message, now_ms)

    def restored(self, entry: Entry, is_outside: bool) -> None:
        self._recall(entry.message, entry.message.timestamp_ms)

    def settled(self, entry: Entry) -> None:
        if entry.segment != 0:
            self._keep(entry.message)

    # -- messages -----------------------------------------------------------------------------------------------

    def is_duplicate(self, message: Message) -> bool:
        """Whether the queue has, or had, this message. A message to be stored is a duplicate only of a stored one."""
        known = self._known.get(self._read(message))
        if known is None or self._number > (known.stored if self._is_stored(message) else known.number):
            return False
        return not self._is_back(message)

    def _is_back(self, message: Message) -> bool:
        """Whether this is the same message as before, which has come back to the queue by dead-lettering."""
        if message.origin != 0:
            return False
        deaths = headers_of(message).get("x-death")
        if not isinstance(deaths, list):
            return False
        return any(isinstance(death, dict) and death.get("queue") == self._queue for death in deaths)

    def remember(self, message: Message, since_ms: i64) -> None:
        """Remember a message that the queue takes; `since_ms` is when it came (Unix time)."""
        self._recall(message, since_ms)
        self._make_room()
        self._forget_later()

    def _recall(self, message: Message, since_ms: i64) -> None:
        """Remember a message without forgetting the oldest, because messages come in any order at start-up."""
        key = self._read(message)
        if not key:
            return
        number = self._number
        known = self._known.get(key)
        if known is None:
            known = _Known()
            self._known[key] = known
        elif number <= known.number and (number <= known.stored or not self._is_stored(message)):
            return
        known.number = max(known.number, number)
        known.since_ms = since_ms
        if number > known.stored and self._is_stored(message):
            known.stored = number
            # The message itself is stored, so its note is not needed.
            self._drop_note(known)
        self._known.move_to_end(key)

    def _keep(self, message: Message) -> None:
        """Write a note for a stored message that leaves the queue, if it has the highest number of its key."""
        known = self._known.get(self._read(message))
        if known is None or known.note is not None or known.stored != self._number:
            return
        note = f"{self._number} {self._key}".encode()
        codec = message.codec
        entry = Entry(Message(_NOWHERE, codec, codec.nothing, note, PERSISTENT, known.since_ms), self._seq)
        self._seq += 1
        self._journal.append(entry.message, [int(self._id)], [entry])
        known.note = entry

    def forget(self, message: Message) -> None:
        """Forget a message that its publisher cancelled, so that it may be published again."""
        key = self._read(message)
        known = self._known.get(key)
        if known is not None and not key.startswith("p"):
            del self._known[key]
            self._drop_note(known)

    def clear(self) -> None:
        """Forget all messages."""
        for known in self._known.values():
            self._drop_note(known)
        self._known.clear()
        self._message = None
        self._tick.timers.cancel(self)

    def give_away(self) -> "Dedup":
        """Forget all messages. Returns what remembers them now, to `forget_some` of them until none is left."""
        forgotten = Dedup(-self._id, self._queue, self._durable, self._tick, self._journal)
        forgotten._known, self._known = self._known, forgotten._known
        self._message = None
        self._tick.timers.cancel(self)
        return forgotten

    def forget_some(self, most: int) -> int:
        """Forget `most` messages, or all if there are fewer. Returns how many."""
        count = min(most, len(self._known))
        for _ in range(count):
            self._drop_note(self._known.popitem()[1])
        return count

    def _is_stored(self, message: Message) -> bool:
        return self._durable and message.options.persistent

    def _read(self, message: Message) -> str:
        """Return the key of a message, empty if it has none, and set `_number` to its number there."""
        if message is self._message:
            return self._key
        codec = message.codec
        headers = headers_of(message)
        producer = headers.get(PRODUCER_HEADER)
        number = headers.get(NUMBER_HEADER)
        if (
            isinstance(producer, str)
            and 0 < len(producer) <= SHORTSTR_MAX_BYTES
            and isinstance(number, int)
            and not isinstance(number, bool)
            and 0 <= number <= _NUMBER_MAX
        ):
            self._key = f"p{producer}"
            self._number = number
        else:
            message_id = codec.property_text(message.properties, "message_id")
            self._key = _short(f"m{message_id}") if message_id else ""
            self._number = 0
        self._message = message
        return self._key

    # -- the end ------------------------------------------------------------------------------------------------

    def _drop_note(self, known: _Known) -> None:
        note = known.note
        if note is not None:
            known.note = None
            self._journal.settle(self._id, note)

    def _make_room(self) -> None:
        while len(self._known) > self._size:
            self._drop_note(self._known.popitem(last=False)[1])

    def _forget_later(self) -> None:
        if self._window_ms != NEVER and self._known and self.due_ms == NEVER:
            self._tick.timers.at(next(iter(self._known.values())).since_ms + self._window_ms, self)

    def on_due(self, now_ms: i64) -> None:
        known = self._known
        burst: i64 = DISPATCH_BURST_MESSAGES
        while known and burst > 0 and next(iter(known.values())).since_ms + self._window_ms <= now_ms:
            self._drop_note(known.popitem(last=False)[1])
            burst -= 1
        self._forget_later()

    # -- start-up -----------------------------------------------------------------------------------------------

    def restore(self, entry: Entry) -> None:
        """Restore a note."""
        number, _, key = entry.message.body.decode().partition(" ")
        key = _short(key)
        known = self._known.setdefault(key, _Known())
        if int(number) <= known.stored:
            self._journal.settle(self._id, entry)
            return
        self._drop_note(known)
        known.number = known.stored = int(number)
        known.since_ms = entry.message.timestamp_ms
        known.note = entry

    def start_at(self, seq: i64) -> None:
        """All notes and messages are restored: forget the oldest if there are too many."""
        self._seq = seq
        self._known = OrderedDict(sorted(self._known.items(), key=_since))
        self._make_room()
        self._tick.timers.cancel(self)
        self._forget_later()


def _short(key: str) -> str:
    """The key for a message-id: the id itself, or a digest of an id that is too long for AMQP 0-9-1."""
    if len(key) <= SHORTSTR_MAX_BYTES + 1:
        return key
    return "d" + blake2b(key.encode(errors="surrogatepass"), digest_size=32).hexdigest()


def _since(item: tuple[str, _Known]) -> int:
    return item[1].since_ms
