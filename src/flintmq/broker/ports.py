"""The storage interface that the broker requires. Only the composition root knows the implementation.

All calls stage work in memory and return at once. `Storage.commit()` ends a batch. A batch is durable when
`Storage.durable_batch` has reached its number. Nothing here blocks, except calls that are marked as being for start-up.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Entry, Message, Table


@dataclass(frozen=True)
class VHostRecord:
    """A virtual host. `dialect` is a dialect's name; an empty `default_queue_type` leaves the choice to the broker."""

    name: str
    dialect: str = "rabbitmq"
    default_queue_type: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class UserRecord:
    """A user. `hashing_algorithm` says how to read `password_hash`: this broker's own algorithm, or one of RabbitMQ's.

    `scram` are keys derived from the password, for mechanisms that do not transmit it; empty until the broker has seen
    the password.
    """

    name: str
    password_hash: str
    tags: tuple[str, ...] = ()
    hashing_algorithm: str = "argon2id"
    scram: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExchangeRecord:
    vhost: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True)
class QueueRecord:
    """A queue. `id` is never used again, not even for a queue of the same name: the journal identifies queues by id."""

    id: int
    vhost: str
    name: str
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True)
class BindingRecord:
    """A binding. `destination_type` is "queue" or "exchange"."""

    vhost: str
    source: str
    destination: str
    routing_key: str
    arguments: Table = field(default_factory=dict)
    destination_type: str = "queue"


@dataclass(frozen=True)
class PermissionRecord:
    """A user's permissions in a virtual host, as patterns of names."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True)
class TopicPermissionRecord:
    """The routing keys that a user may use at a topic exchange, as patterns."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True)
class PolicyRecord:
    """A policy: arguments for queues and exchanges whose names match a pattern. `operator`: an operator policy."""

    vhost: str
    name: str
    pattern: str
    definition: Table
    apply_to: str = "all"
    priority: int = 0
    operator: bool = False


@dataclass(frozen=True)
class LimitRecord:
    """A limit. `scope` is "vhost" or "user", and `owner` the name of the vhost or user."""

    scope: str
    owner: str
    name: str
    value: int


@dataclass(frozen=True)
class ParameterRecord:
    """A parameter for a component that this broker lacks: imported, and kept for exports. A global one has no vhost."""

    vhost: str
    component: str
    name: str
    # Any JSON value; compiled dataclasses do not know `object`.
    value: Any


# Settings that an administrator makes for existing and future objects.
Rule = PermissionRecord | TopicPermissionRecord | PolicyRecord | LimitRecord | ParameterRecord


@dataclass(frozen=True)
class ReaderOffset:
    """The offset before which a named reader of a stream has acknowledged everything."""

    queue_id: int
    reader: str
    offset: int


@dataclass(frozen=True)
class TerminusRecord:
    """A link terminus that outlives its link. `role` is "source" or "target".

    `id` is the id of the queue with its notes. `configuration` belongs to the gateway. `node_id` is the id of the queue
    that was created for it, 0 for none.
    """

    id: int
    vhost: str
    user: str
    container: str
    link: str
    role: str
    durability: int
    expiry: str
    timeout_ms: int
    configuration: bytes
    node_id: int = 0


@dataclass(frozen=True)
class LeaseRecord:
    """A lease of a queue's messages by a named reader. `id` is the id of the queue with its notes."""

    id: int
    vhost: str
    queue_id: int
    name: str
    timeout_ms: int = 0


@dataclass(frozen=True)
class StageRecord:
    """A transactional id, with which a user stages publishes.

    `id` is the id of the queue with its notes; `-id` is that of its staged copies.
    """

    id: int
    vhost: str
    name: str
    user: str


@dataclass(frozen=True)
class Definitions:
    """All durable definitions, as read at start-up."""

    vhosts: list[VHostRecord]
    users: list[UserRecord]
    exchanges: list[ExchangeRecord]
    queues: list[QueueRecord]
    bindings: list[BindingRecord]
    next_queue_id: int
    rules: list[Rule] = field(default_factory=list)
    reader_offsets: list[ReaderOffset] = field(default_factory=list)
    termini: list[TerminusRecord] = field(default_factory=list)
    leases: list[LeaseRecord] = field(default_factory=list)
    stages: list[StageRecord] = field(default_factory=list)
    # Secrets by name. Only this broker knows them; exports have none.
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)


@mypyc_attr(allow_interpreted_subclasses=True)
class DefinitionStore:
    """Stores durable definitions. Changes take effect in the order of the calls, in one transaction per batch."""

    @abstractmethod
    def load(self) -> Definitions:
        """Read everything; for start-up. Raises StorageError if the file cannot be read."""

    @abstractmethod
    def put_vhost(self, vhost: VHostRecord) -> None: ...

    @abstractmethod
    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it, and its rules."""

    @abstractmethod
    def put_user(self, user: UserRecord) -> None: ...

    @abstractmethod
    def delete_user(self, name: str) -> None:
        """Delete a user with its rules."""

    @abstractmethod
    def put_rule(self, rule: Rule) -> None:
        """Store a rule; it replaces the one for the same object, if any."""

    @abstractmethod
    def delete_rule(self, rule: Rule) -> None:
        """Delete the rule that this one would replace."""

    @abstractmethod
    def put_exchange(self, exchange: ExchangeRecord) -> None: ...

    @abstractmethod
    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete an exchange with the bindings from it and to it."""

    @abstractmethod
    def put_queue(self, queue: QueueRecord) -> None: ...

    @abstractmethod
    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with the bindings to it, its readers' offsets and its leases."""

    @abstractmethod
    def put_reader_offset(self, offset: ReaderOffset) -> None: ...

    @abstractmethod
    def put_terminus(self, terminus: TerminusRecord) -> None: ...

    @abstractmethod
    def delete_terminus(self, terminus: TerminusRecord) -> None: ...

    @abstractmethod
    def put_lease(self, lease: LeaseRecord) -> None: ...

    @abstractmethod
    def delete_lease(self, lease: LeaseRecord) -> None: ...

    @abstractmethod
    def put_secret(self, name: str, value: bytes) -> None: ...

    @abstractmethod
    def put_stage(self, stage: StageRecord) -> None: ...

    @abstractmethod
    def delete_stage(self, stage: StageRecord) -> None: ...

    @abstractmethod
    def put_binding(self, binding: BindingRecord) -> None: ...

    @abstractmethod
    def delete_binding(self, binding: BindingRecord) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Journal:
    """The durable messages of all queues, and their settlements."""

    @abstractmethod
    def append(self, message: Message, queue_ids: list[int], entries: list[Entry]) -> None:
        """Stage a message that was routed to these queues (parallel lists). Sets each entry's `segment`."""

    @abstractmethod
    def settle(self, queue_id: i64, entry: Entry) -> None:
        """Stage that an entry with a segment has left its queue."""

    @abstractmethod
    def settle_runs(self, queue_id: i64, seq_runs: list[int], slot_runs: list[int]) -> None:
        """Stage that many entries with segments have left their queue, given by their numbers.

        `seq_runs` has the first sequence number and the length of each run; `slot_runs` has the segment, the first slot
        and the length of each run. Both cover the same entries, each once.
        """

    @abstractmethod
    def replace(self, queue_id: i64, entry: Entry, message: Message) -> None:
        """Stage that this message replaces that of an entry with a segment. The entry keeps its place."""

    @abstractmethod
    def returned(self, queue_id: i64, entry: Entry) -> None:
        """Stage the number of returns of an entry with a segment."""

    @abstractmethod
    def undelivered(self, queue_id: i64, runs: list[int]) -> None:
        """Stage which entries of a queue were never delivered: the first sequence number and the length of each run.

        For shutdown: it is valid only if nothing but calls of this kind, for other queues, is staged after it.
        """

    @abstractmethod
    def begin_group(self) -> None:
        """Open a group: after a crash, all that is staged until `end_group` is restored, or nothing of it.

        A group within a group is a part of it.
        """

    @abstractmethod
    def end_group(self) -> None: ...


class Page:
    """Consecutive entries of a queue, packed by the storage.

    `count` is the number of entries; `first` is the position of the first, or a lower one; `body_bytes` is the size of
    their bodies; `expires_ms` is when the first of them expires (Unix time in ms), 0 for never; `redelivered` is how
    many may have been delivered before. `unkept` entries are not in the journal; their bodies have `unkept_bytes`.
    `is_sequence`: their sequence numbers are consecutive, from `first_seq` on. A page that `is_gone` must not be used.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self.first: i64 = 0
        self.body_bytes: i64 = 0
        self.expires_ms: i64 = 0
        self.redelivered: i64 = 0
        self.unkept: i64 = 0
        self.unkept_bytes: i64 = 0
        self.first_seq: i64 = 0
        self.is_sequence = True
        self.is_gone = False


@dataclass(frozen=True)
class JournalRanges:
    """Entries as the journal identifies them.

    `seqs` are ranges of sequence numbers: first, length, first, length...; `slots` are ranges of places in the journal:
    segment, first, length, segment...
    """

    seqs: list[int]
    slots: list[int]


def journal_ranges(entries: Iterable[Entry]) -> JournalRanges:
    """Return the ranges of those entries that are in the journal."""
    seqs: list[int] = []
    slots: list[int] = []
    seq: i64 = -2
    segment: i64 = 0
    slot: i64 = -2
    for entry in entries:
        if entry.segment == 0:
            continue
        if entry.seq == seq + 1:
            seqs[-1] += 1
        else:
            seqs += [int(entry.seq), 1]
        seq = entry.seq
        if entry.segment == segment and entry.slot == slot + 1:
            slots[-1] += 1
        else:
            slots += [int(entry.segment), int(entry.slot), 1]
        segment = entry.segment
        slot = entry.slot
    return JournalRanges(seqs, slots)


@mypyc_attr(allow_interpreted_subclasses=True)
class Pages:
    """Packs entries that are not needed soon into a fraction of their memory, or moves them to the disk.

    Raises StorageError if a page cannot be read back. The journal restores its persistent messages at the next start.
    """

    @abstractmethod
    def pack(self, entries: list[Entry]) -> Page:
        """Pack entries into a page. Only an entry's and its message's own fields are kept."""

    @abstractmethod
    def unpack(self, page: Page) -> list[Entry]:
        """Return a page's entries, all ready, and drop the page."""

    @abstractmethod
    def read(self, page: Page) -> list[Entry]:
        """Return a page's entries and keep the page."""

    @abstractmethod
    def repack(self, page: Page, entries: list[Entry]) -> None:
        """Replace a page's entries by these."""

    @abstractmethod
    def ranges(self, page: Page) -> JournalRanges:
        """Return the ranges of a page's entries that are in the journal."""

    @abstractmethod
    def drop(self, page: Page) -> None: ...

    @abstractmethod
    def will_need(self, page: Page) -> None:
        """Prepare to unpack a page soon."""

    @abstractmethod
    def put_out(self, data: bytes) -> Page:
        """Write bytes to the disk even if memory has room; keep them in memory if the disk refuses them."""

    @abstractmethod
    def bring_back(self, page: Page) -> bytes:
        """Return the bytes given to `put_out`, and drop the page, even if it cannot be read."""

    @property
    def held_bytes(self) -> int:
        """The memory that packed pages take, in bytes."""
        return 0


@dataclass(frozen=True)
class StreamLimits:
    """Retention limits of a stream, -1 for no limit. A file ends at `segment_bytes`; 0 means the storage's default."""

    max_bytes: int = -1
    max_age_ms: int = -1
    segment_bytes: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamCursor:
    """A reader's position in a stream. `offset` is that of the next message.

    A reader that only accepts messages containing certain bytes sets `wanted`: other messages may then be skipped. If
    that takes long, `next` returns None with `has_more` set, and continues with the next call.
    """

    def __init__(self, offset: i64) -> None:
        self.offset: i64 = offset
        self.wanted: list[bytes] = []
        self.has_more = False
        # The number of messages in the last result of `run`.
        self.run_count: i64 = 0

    def run(self, end: i64, room: i64, is_first: bool, message_format: i64) -> bytes:
        """Return the next messages before `end` as one block of bytes, in the storage's layout.

        See docs/storage-format.md, content. The messages have consecutive offsets and this format, and fit `room`
        bytes; with `is_first` the first one is included whatever its size. Returns b"" if that is not possible for the
        next message: call `next`.
        """
        return b""

    @abstractmethod
    def next(self, end: i64) -> Message | None:
        """Return the next message before `end`, or None. `offset` is then the one behind it.

        Only durable messages may be read. Offsets that are gone or unreadable are skipped. Raises StorageError if a
        file cannot be read.
        """


@final
class StreamPlace:
    """Where a message of a stream is on the disk, for a reader that has a copy of the files.

    `path` is that of a segment within the data directory, and `end` where it ends at present. The message is in the
    block at `position`, or in one behind it; blocks begin with bytes that depend on `magic`.
    """

    def __init__(self, path: str, first_offset: i64, magic: bytes, position: i64, end: i64) -> None:
        self.path = path
        self.first_offset: i64 = first_offset
        self.magic = magic
        self.position: i64 = position
        self.end: i64 = end


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamLog:
    """A stream: an append-only log. Offsets start at 0 and grow by one."""

    @property
    @abstractmethod
    def first_offset(self) -> int: ...

    @property
    @abstractmethod
    def next_offset(self) -> int:
        """The offset of the next append. Staged messages count."""

    @property
    @abstractmethod
    def durable_offset(self) -> int:
        """The first offset that a crash could lose and give to another message; `next_offset` if there is none."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The stream's size on disk, in bytes. Staged messages do not count."""

    @property
    @abstractmethod
    def segment_count(self) -> int:
        """The number of the stream's files."""

    @abstractmethod
    def append(self, message: Message) -> int:
        """Stage a message. Returns its offset."""

    @abstractmethod
    def limit(self, limits: StreamLimits) -> None:
        """Set the limits. They are applied whenever a new file is begun."""

    @abstractmethod
    def retire(self, now_ms: i64) -> None:
        """Remove files that exceed the limits, at the next commit."""

    @property
    @abstractmethod
    def retires_more(self) -> bool:
        """Whether `retire` has more to remove than one call does."""

    @abstractmethod
    def cursor(self, offset: int, ahead_bytes: int) -> StreamCursor:
        """Return a cursor at an offset, which may be gone or still to come. It buffers about `ahead_bytes`."""

    def place(self, offset: int) -> StreamPlace | None:
        """Return where the message with this offset is on the disk; None if that is not known."""
        return None

    @abstractmethod
    def offset_near(self, timestamp_ms: int) -> int:
        """Return an offset shortly before, or at, the first message received at or after this time.

        Raises StorageError if a file cannot be read.
        """

    @abstractmethod
    def offset_behind(self, offset: int, size: int) -> int:
        """Return an offset about `size` bytes of messages behind this one, at most the log's end."""

    @abstractmethod
    def offset_at(self, timestamp_ms: int) -> int:
        """Return the first durable offset received at or after this time, or `durable_offset`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Storage:
    """The storage of a node: a journal, a definition store, streams, and group commit over all of them."""

    @property
    @abstractmethod
    def journal(self) -> Journal: ...

    @property
    @abstractmethod
    def pages(self) -> Pages: ...

    @property
    @abstractmethod
    def definitions(self) -> DefinitionStore: ...

    @abstractmethod
    def open_stream(self, queue_id: int) -> StreamLog:
        """Return the log of a stream queue; create it if it does not exist."""

    @abstractmethod
    def delete_stream(self, queue_id: int) -> None: ...

    @abstractmethod
    def recover(self, queue_ids: set[int], note_ids: set[int]) -> Iterator[tuple[int, list[Entry]]]:
        """Return unsettled entries of these queues, in order per queue; for start-up. Others are discarded.

        They come in runs of entries of one queue, with its id. The entries of `note_ids`, which are few, come before
        all others.
        """

    @abstractmethod
    def recovered_next_seq(self, queue_id: int) -> int:
        """Return the lowest sequence number that a queue may use after `recover`: above those in any record."""

    @abstractmethod
    def commit(self) -> int:
        """End the batch of everything staged since the last call, and hand it to the disk. Returns its number.

        If nothing is staged, returns the number of the previous batch: waiting for it covers everything staged so far.
        Raises StorageFenced once a write or sync has failed.
        """

    @abstractmethod
    def begin_behind(self) -> None:
        """Order the next batch behind the ones before it: it is written when they are on the disk, streams included."""

    @abstractmethod
    def discard(self) -> None:
        """Discard everything staged since the last commit; for start-up, when nothing depends on it yet."""

    @property
    @abstractmethod
    def durable_batch(self) -> int:
        """The number of the newest batch that was synced to disk."""

    @property
    @abstractmethod
    def definitions_durable(self) -> bool:
        """Whether all definitions are on the disk: answers that reveal them have to wait for it."""

    @property
    @abstractmethod
    def backlog_bytes(self) -> int:
        """Bytes that were handed over and are not synced yet."""

    @property
    @abstractmethod
    def failure(self) -> str:
        """Why the storage is fenced, or ""."""
