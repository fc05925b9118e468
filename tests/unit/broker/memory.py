"""A storage that keeps everything in memory, and is as durable as a test says; and consumers that remember."""

from collections.abc import Iterator

from mypy_extensions import i64

from flintmq.base.errors import StorageError, StorageFenced
from flintmq.base.limits import STEP_UNITS
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import (
    FOREVER,
    PERSISTENT,
    UNSTATED,
    Address,
    ContentCodec,
    Entry,
    Message,
    MessageOptions,
    Table,
)
from flintmq.broker.ports import (
    BindingRecord,
    Definitions,
    DefinitionStore,
    ExchangeRecord,
    Journal,
    JournalRanges,
    LeaseRecord,
    Page,
    Pages,
    QueueRecord,
    ReaderOffset,
    Rule,
    StageRecord,
    Storage,
    StreamCursor,
    StreamLimits,
    StreamLog,
    StreamPlace,
    TerminusRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.broker.queue.base import Consumer, Queue
from flintmq.broker.queue.entries import EntryQueue, entry_queue
from flintmq.broker.queue.purge import Purge
from flintmq.broker.tick import Tick
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091


class HeaderCodec(ContentCodec):
    """Properties like b"a=1;b=2" hold the headers."""

    def headers(self, properties: bytes) -> Table:
        pairs = [pair.split("=") for pair in properties.decode().split(";") if pair]
        return {name: int(value) if value.isdigit() else value for name, value in pairs}

    def property_text(self, properties: bytes, name: str) -> str:
        return str(self.headers(properties).get(name, ""))

    def property_value(self, properties: bytes, name: str) -> object:
        return self.headers(properties).get(name)

    def options(self, properties: bytes) -> MessageOptions:
        found = self.headers(properties)

        def number(name: str, default: int) -> int:
            value = found.get(name, default)
            return value if isinstance(value, int) else default

        persistent = number("persistent", 0) == 1
        cancels = str(found.get("cancel", ""))
        return MessageOptions(
            persistent, number("priority", UNSTATED), number("ttl", FOREVER), number("delay", 0), cancels=cancels
        )

    def edited(self, properties: bytes, headers: Table, keeps_expiration: bool) -> bytes:
        kept = {name: value for name, value in headers.items() if keeps_expiration or name != "ttl"}
        return ";".join(f"{name}={_flat(value)}" for name, value in kept.items()).encode()


def _flat(value: object) -> str:
    """Deaths as queue/reason*count, the latest first."""
    if isinstance(value, list):
        return ",".join(f"{death['queue']}/{death['reason']}*{death['count']}" for death in value)
    return str(value)


def message(body: str = "m", persistent: bool = False, headers: str = "", key: str = "") -> Message:
    codec = HeaderCodec()
    properties = ";".join(part for part in (headers, "persistent=1" if persistent else "") if part).encode()
    return Message(Address("", key), codec, properties, body.encode(), codec.options(properties), 1000)


def put_routed(vhost: VHost, route: Route, message: Message, more_keys: list[str] | None = None) -> int:
    """Put a message on the queues of its route, as publishing does. Returns UNROUTED, ROUTED, STORED or TURNED_AWAY."""
    return vhost.deliver(message, vhost.queues_of(route, message, more_keys))


def got(queue: Queue, context: object | None = None) -> Entry | None:
    """The next entry of a queue, as basic.get acquires it."""
    return entry_queue(queue, "basic.get").get(context)


def purge(queue: EntryQueue) -> int:
    """Purge a queue, without any ticks. Returns the number of messages that it had; raises what has ended the purge."""
    work = Purge(queue)
    while work.step(STEP_UNITS):
        pass
    return work.result()


class MemoryJournal(Journal):
    """`kept` is what a restart would find: (queue id, seq) to body."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, int], bytes] = {}
        self.returns: dict[tuple[int, int], int] = {}
        # The properties that entries have got since.
        self.replaced: dict[tuple[int, int], bytes] = {}
        # Groups that are open now, one within the other; and outermost ones that there ever were.
        self.groups = 0
        self.group_count = 0
        self.appends: list[tuple[bytes, list[int]]] = []
        # In which group each of them is, 0 for none.
        self.append_groups: list[int] = []

    @property
    def in_group(self) -> bool:
        return self.groups > 0

    def append(self, message: Message, queue_ids: list[int], entries: list[Entry]) -> None:
        self.appends.append((message.body, list(queue_ids)))
        self.append_groups.append(self.group_count if self.in_group else 0)
        for queue_id, entry in zip(queue_ids, entries, strict=True):
            entry.segment = 1
            self.kept[queue_id, entry.seq] = message.body

    def settle(self, queue_id: i64, entry: Entry) -> None:
        entry.segment = 0
        del self.kept[queue_id, entry.seq]

    def settle_runs(self, queue_id: i64, seq_runs: list[int], slot_runs: list[int]) -> None:
        for first, length in zip(seq_runs[::2], seq_runs[1::2], strict=True):
            for seq in range(first, first + length):
                del self.kept[queue_id, seq]

    def replace(self, queue_id: i64, entry: Entry, message: Message) -> None:
        assert entry.segment != 0
        self.replaced[queue_id, entry.seq] = message.properties

    def returned(self, queue_id: i64, entry: Entry) -> None:
        if entry.segment != 0:
            self.returns[queue_id, entry.seq] = entry.returns

    def undelivered(self, queue_id: i64, runs: list[int]) -> None:
        raise AssertionError("nothing stops here")

    def begin_group(self) -> None:
        if not self.in_group:
            self.group_count += 1
        self.groups += 1

    def end_group(self) -> None:
        assert self.in_group
        self.groups -= 1


class MemoryDefinitions(DefinitionStore):
    def __init__(self) -> None:
        self.vhosts: dict[str, VHostRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.rules: list[Rule] = []
        self.exchanges: dict[str, ExchangeRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.bindings: list[BindingRecord] = []
        self.reader_offsets: dict[tuple[int, str], int] = {}
        self.termini: dict[int, TerminusRecord] = {}
        self.leases: dict[int, LeaseRecord] = {}
        self.stages: dict[int, StageRecord] = {}
        self.secrets: dict[str, bytes] = {}
        self.has_staged = False

    def load(self) -> Definitions:
        return Definitions(
            list(self.vhosts.values()),
            list(self.users.values()),
            list(self.exchanges.values()),
            list(self.queues.values()),
            self.bindings,
            100,
            self.rules,
            [ReaderOffset(*key, offset) for key, offset in self.reader_offsets.items()],
            list(self.termini.values()),
            list(self.leases.values()),
            list(self.stages.values()),
            dict(self.secrets),
        )

    def put_secret(self, name: str, value: bytes) -> None:
        self.secrets[name] = value
        self.has_staged = True

    def put_stage(self, stage: StageRecord) -> None:
        self.stages[stage.id] = stage
        self.has_staged = True

    def delete_stage(self, stage: StageRecord) -> None:
        del self.stages[stage.id]
        self.has_staged = True

    def put_terminus(self, terminus: TerminusRecord) -> None:
        self.termini[terminus.id] = terminus
        self.has_staged = True

    def delete_terminus(self, terminus: TerminusRecord) -> None:
        del self.termini[terminus.id]
        self.has_staged = True

    def put_lease(self, lease: LeaseRecord) -> None:
        self.leases[lease.id] = lease
        self.has_staged = True

    def delete_lease(self, lease: LeaseRecord) -> None:
        del self.leases[lease.id]
        self.has_staged = True

    def put_reader_offset(self, offset: ReaderOffset) -> None:
        self.reader_offsets[offset.queue_id, offset.reader] = offset.offset
        self.has_staged = True

    def put_vhost(self, vhost: VHostRecord) -> None:
        self.vhosts[vhost.name] = vhost

    def delete_vhost(self, name: str) -> None:
        del self.vhosts[name]
        self.exchanges = {key: exchange for key, exchange in self.exchanges.items() if exchange.vhost != name}
        self.queues = {key: queue for key, queue in self.queues.items() if queue.vhost != name}
        self.bindings = [binding for binding in self.bindings if binding.vhost != name]
        self.has_staged = True

    def put_user(self, user: UserRecord) -> None:
        self.users[user.name] = user
        self.has_staged = True

    def delete_user(self, name: str) -> None:
        del self.users[name]
        self.has_staged = True

    def put_rule(self, rule: Rule) -> None:
        """Rules pile up: which replaces which is the database's to know."""
        self.rules.append(rule)
        self.has_staged = True

    def delete_rule(self, rule: Rule) -> None:
        self.rules = [each for each in self.rules if each != rule]
        self.has_staged = True

    def put_exchange(self, exchange: ExchangeRecord) -> None:
        self.exchanges[exchange.name] = exchange
        self.has_staged = True

    def delete_exchange(self, vhost: str, name: str) -> None:
        del self.exchanges[name]
        self.bindings = [
            binding
            for binding in self.bindings
            if binding.source != name and (binding.destination, binding.destination_type) != (name, "exchange")
        ]
        self.has_staged = True

    def put_queue(self, queue: QueueRecord) -> None:
        self.queues[queue.name] = queue
        self.has_staged = True

    def delete_queue(self, vhost: str, name: str) -> None:
        gone = self.queues.pop(name)
        self.reader_offsets = {key: offset for key, offset in self.reader_offsets.items() if key[0] != gone.id}
        self.leases = {key: lease for key, lease in self.leases.items() if lease.queue_id != gone.id}
        self.bindings = [
            binding for binding in self.bindings if (binding.destination, binding.destination_type) != (name, "queue")
        ]
        self.has_staged = True

    def put_binding(self, binding: BindingRecord) -> None:
        self.bindings.append(binding)
        self.has_staged = True

    def delete_binding(self, binding: BindingRecord) -> None:
        self.bindings.remove(binding)
        self.has_staged = True


class MemoryStream(StreamLog):
    """`damaged` are offsets that cannot be read any more; `limits` and `retired_ms` what was asked for last; `placed`
    is where a message is on the disk.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.damaged: set[int] = set()
        self.durable = 0
        self.first = 0
        self.limits = StreamLimits()
        self.retired_ms: list[int] = []
        self.has_more_to_retire = False
        self.placed: StreamPlace | None = None

    @property
    def first_offset(self) -> int:
        return self.first

    @property
    def next_offset(self) -> int:
        return len(self.messages)

    @property
    def durable_offset(self) -> int:
        return self.durable

    @property
    def size_bytes(self) -> int:
        return sum(len(message.body) for message in self.messages[self.first : self.durable])

    @property
    def segment_count(self) -> int:
        return int(self.durable > self.first)

    def append(self, message: Message) -> int:
        self.messages.append(message)
        return len(self.messages) - 1

    def limit(self, limits: StreamLimits) -> None:
        self.limits = limits

    def retire(self, now_ms: i64) -> None:
        self.retired_ms.append(now_ms)

    @property
    def retires_more(self) -> bool:
        return self.has_more_to_retire

    def cursor(self, offset: int, ahead_bytes: int) -> StreamCursor:
        return MemoryCursor(self, offset)

    def place(self, offset: int) -> StreamPlace | None:
        return self.placed

    def offset_near(self, timestamp_ms: int) -> int:
        return max(self.offset_at(timestamp_ms) - 3, self.first)

    def offset_behind(self, offset: int, size: int) -> int:
        while offset < self.durable and size > 0:
            size -= len(self.messages[offset].body)
            offset += 1
        return offset

    def offset_at(self, timestamp_ms: int) -> int:
        found = (at for at in range(self.first, self.durable) if self.messages[at].timestamp_ms >= timestamp_ms)
        return next(found, self.durable)


class MemoryCursor(StreamCursor):
    def __init__(self, stream: MemoryStream, offset: int) -> None:
        super().__init__(offset)
        self._stream = stream

    def next(self, end: i64) -> Message | None:
        stream = self._stream
        self.has_more = False
        for at in range(max(self.offset, stream.first), stream.durable):
            if at in stream.damaged:
                continue
            self.offset = at + (at < end)
            if at >= end:
                return None
            found = stream.messages[at]
            if not self.wanted or any(wanted in found.properties for wanted in self.wanted):
                return found
            # As if it took long.
            self.has_more = True
            return None
        return None


class MemoryPages(Pages):
    """Pages that hold copies of their entries: nobody may go on with the objects that were packed."""

    def __init__(self) -> None:
        self.kept: dict[Page, list[Entry]] = {}
        self.put: dict[Page, bytes] = {}
        # Whether the disk gives back what was put out, and pages can be unpacked.
        self.is_readable = True

    def put_out(self, data: bytes) -> Page:
        page = Page()
        self.put[page] = data
        return page

    def bring_back(self, page: Page) -> bytes:
        data = self.put.pop(page)
        if not self.is_readable:
            raise StorageError("damaged")
        return data

    def pack(self, entries: list[Entry]) -> Page:
        page = Page()
        self.repack(page, entries)
        return page

    def repack(self, page: Page, entries: list[Entry]) -> None:
        self.kept[page] = [_copied(entry) for entry in entries]
        page.count = len(entries)
        page.first = entries[0].position if entries else 0
        page.first_seq = entries[0].seq if entries else 0
        page.is_sequence = all(entry.seq == page.first_seq + at for at, entry in enumerate(entries))
        page.redelivered = sum(entry.redelivered for entry in entries)
        page.unkept = sum(entry.segment == 0 for entry in entries)
        page.unkept_bytes = sum(len(entry.message.body) for entry in entries if entry.segment == 0)
        page.body_bytes = sum(len(entry.message.body) for entry in entries)
        page.expires_ms = min((entry.expires_ms for entry in entries if entry.expires_ms), default=0)

    def read(self, page: Page) -> list[Entry]:
        return [_copied(entry) for entry in self.kept[page]]

    def unpack(self, page: Page) -> list[Entry]:
        if not self.is_readable:
            raise StorageError("damaged")
        entries = self.kept[page]
        self.drop(page)
        return entries

    def ranges(self, page: Page) -> JournalRanges:
        if not self.is_readable:
            raise StorageError("damaged")
        stored = [entry for entry in self.kept[page] if entry.segment]
        return JournalRanges(
            [each for entry in stored for each in (entry.seq, 1)],
            [each for entry in stored for each in (entry.segment, entry.slot, 1)],
        )

    def drop(self, page: Page) -> None:
        if self.put.pop(page, None) is None:
            del self.kept[page]
        page.is_gone = True

    def will_need(self, page: Page) -> None:
        assert page in self.kept


def _copied(entry: Entry) -> Entry:
    copy = Entry(entry.message, entry.seq)
    copy.position = entry.position
    copy.segment = entry.segment
    copy.slot = entry.slot
    copy.expires_ms = entry.expires_ms
    copy.returns = entry.returns
    copy.redelivered = entry.redelivered
    return copy


class MemoryStorage(Storage):
    """Every commit is a new batch; `sync()` makes all of them durable, `fence()` fails for good."""

    def __init__(self) -> None:
        self.memory_journal = MemoryJournal()
        self.memory_definitions = MemoryDefinitions()
        self.memory_pages = MemoryPages()
        self.streams: dict[int, MemoryStream] = {}
        self.batch = 0
        # Those that count on the ones before.
        self.batches_behind: list[int] = []
        self.definitions_batch = 0
        self.synced = 0
        self.reason = ""

    @property
    def journal(self) -> Journal:
        return self.memory_journal

    @property
    def pages(self) -> Pages:
        return self.memory_pages

    @property
    def definitions(self) -> DefinitionStore:
        return self.memory_definitions

    def open_stream(self, queue_id: int) -> StreamLog:
        return self.streams.setdefault(queue_id, MemoryStream())

    def delete_stream(self, queue_id: int) -> None:
        del self.streams[queue_id]

    def recover(self, queue_ids: set[int], note_ids: set[int]) -> Iterator[tuple[int, list[Entry]]]:
        def is_note(kept: tuple[tuple[int, int], bytes]) -> bool:
            return kept[0][0] in note_ids

        found = sorted(self.memory_journal.kept.items())
        for (queue_id, seq), body in sorted(found, key=is_note, reverse=True):
            if queue_id in queue_ids:
                # What gateways made of it does not matter here.
                entry = Entry(Message(Address("", ""), CODEC_091, CODEC_091.nothing, body, PERSISTENT, 0), seq)
                entry.segment = 1
                entry.redelivered = True
                yield queue_id, [entry]

    def recovered_next_seq(self, queue_id: int) -> int:
        return 1 + max((seq for queue, seq in self.memory_journal.kept if queue == queue_id), default=0)

    def commit(self) -> int:
        if self.reason:
            self.memory_definitions.has_staged = False
            self.definitions_batch = 0
            raise StorageFenced(self.reason)
        self.batch += 1
        if self.memory_definitions.has_staged:
            self.definitions_batch = self.batch
        self.memory_definitions.has_staged = False
        return self.batch

    def begin_behind(self) -> None:
        self.batches_behind.append(self.batch + 1)

    def discard(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        self.synced = self.batch
        for stream in self.streams.values():
            stream.durable = len(stream.messages)

    def fence(self, reason: str) -> None:
        self.reason = reason

    @property
    def durable_batch(self) -> int:
        return self.synced

    @property
    def definitions_durable(self) -> bool:
        return not self.memory_definitions.has_staged and self.definitions_batch <= self.synced

    @property
    def backlog_bytes(self) -> int:
        return 0

    @property
    def failure(self) -> str:
        return self.reason


class Taker(Consumer):
    """Takes up to `credit` entries, and remembers them."""

    def __init__(self, credit: int = 1_000_000, no_ack: bool = False, exclusive: bool = False) -> None:
        super().__init__("taker", no_ack, exclusive)
        self.credit = credit
        self.taken: list[Entry] = []
        self.is_cancelled = False

    def can_take(self) -> bool:
        return self.credit > 0

    def deliver(self, queue: Queue, entry: Entry) -> None:
        self.credit -= 1
        self.taken.append(entry)

    def cancelled(self) -> None:
        self.is_cancelled = True

    def failed(self, error: StorageError) -> None:
        raise error

    @property
    def bodies(self) -> list[str]:
        return [entry.message.body.decode() for entry in self.taken]


def run_due(tick: Tick, now_ms: int) -> None:
    """All that was due by then happens, as at the beginning of a tick."""
    tick.expiries.run(now_ms)
    tick.timers.run(now_ms)
