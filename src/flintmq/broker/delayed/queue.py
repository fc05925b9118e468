"""The queue of a delayed exchange. It holds messages until they are due; clients cannot see it."""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused
from flintmq.broker.message import Entry, Message, MessageOptions, Table
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import ADMITTED, DONE, REFUSED, Consumer, Queue, Recoverable
from flintmq.broker.queue.contents import Contents
from flintmq.broker.queue.delays import Delays
from flintmq.broker.tick import Tick

# The header of the routing keys that consumers must not see.
HIDDEN_KEYS_HEADER: Final = "BCC"


@final
class DelayedQueue(Queue, Recoverable):
    """The queue of one delayed exchange. `due` is called for each due entry, in order of time, and has to settle it.

    A delay counts from when the broker received the message, so that a restart does not extend it. Messages in this
    queue have their hidden routing keys among the headers: they are still needed for routing, also after a restart.
    """

    def __init__(
        self,
        queue_id: int,
        vhost: str,
        name: str,
        durable: bool,
        tick: Tick,
        journal: Journal,
        due: Callable[[Entry], None],
    ) -> None:
        super().__init__(queue_id, vhost, name, "waiting", durable, False, None, {}, tick)
        self._journal = journal
        self._seq: i64 = 0
        self._due = due
        self._delays = Delays(tick.timers, due)
        self.is_guarded = True

    def admit(self, message: Message) -> int:
        if not message.options.is_command:
            return ADMITTED if message.options.hidden_keys is None else self._keep(message, message.options)
        found = self._delays.cancel(message)
        for entry in found:
            self.settle(entry)
        return DONE if found else REFUSED

    def _keep(self, message: Message, options: MessageOptions) -> int:
        """Keep a copy with the hidden keys in a header. Other queues share the original and must not see them."""
        headers = message.codec.headers(message.properties)
        headers[HIDDEN_KEYS_HEADER] = options.hidden_keys
        properties = message.codec.edited(message.properties, headers, True)
        kept = Message(
            message.address,
            message.codec,
            properties,
            message.body,
            message.codec.options(properties),
            message.timestamp_ms,
            message.origin,
        )
        entry = self.enqueue(kept)
        if entry is not None:
            self._journal.append(kept, [self.id], [entry])
        return DONE

    def enqueue(self, message: Message) -> Entry | None:
        entry = Entry(message, self._seq)
        self._seq += 1
        self.restore(entry)
        return entry if self.durable and message.options.persistent else None

    def restore(self, entry: Entry) -> None:
        message = entry.message
        self._delays.hold(entry, message.options.held_until_ms(message.timestamp_ms))

    def start_at(self, seq: i64) -> None:
        self._seq = seq

    @property
    def message_count(self) -> int:
        return len(self._delays)

    def settle(self, entry: Entry) -> None:
        if entry.segment != 0:
            self._journal.settle(self.id, entry)

    def reject(self, entry: Entry) -> None:
        self.settle(entry)

    def requeue(self, entries: list[Entry]) -> None:
        """Do nothing: messages of this queue are never delivered."""

    def discard(self) -> None:
        delays, self._delays = self._delays, Delays(self.tick.timers, self._due)
        self.tick.timers.cancel(delays)
        self.tick.begin(Contents(self, self._journal, None, delays, [], None, None))

    def dispatch(self) -> bool:
        return False

    def subscribe(self, consumer: Consumer, arguments: Table) -> None:
        raise AccessRefused(
            f"queue '{self.name}' in vhost '{self.vhost}' belongs to a delayed exchange: clients cannot use it"
        )
