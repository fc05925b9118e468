"""What the broker asks of a storage. The broker calls these; only the composition root knows who answers.

All calls stage work in memory and return at once. `Storage.commit()` ends a batch; a batch is durable when
`Storage.durable_batch` has reached its number. Nothing here blocks, except what is said to be for start-up.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mypy_extensions import i64, mypyc_attr

from flintmq.broker.message import Entry, Message, Table


@dataclass(frozen=True)
class VHostRecord:
    """`dialect` is the name of one; an empty `default_queue_type` leaves the choice to the broker."""

    name: str
    dialect: str = "rabbitmq"
    default_queue_type: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class UserRecord:
    """`hashing_algorithm` says how to read `password_hash`: ours, or one that RabbitMQ's exports name.

    `scram` are keys made of the same password, for mechanisms that never show it; empty where it was not seen yet.
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
    """`id` is never used again, not even by a queue of the same name: journal records speak of queues by id."""

    id: int
    vhost: str
    name: str
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True)
class BindingRecord:
    """`destination_type` is "queue" or "exchange"."""

    vhost: str
    source: str
    destination: str
    routing_key: str
    arguments: Table = field(default_factory=dict)
    destination_type: str = "queue"


@dataclass(frozen=True)
class PermissionRecord:
    """What a user may do in a virtual host, as patterns of names."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True)
class TopicPermissionRecord:
    """Which routing keys a user may use at a topic exchange, as patterns."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True)
class PolicyRecord:
    """Arguments for all queues and exchanges with names of a pattern. `operator`: it is one of the operator's."""

    vhost: str
    name: str
    pattern: str
    definition: Table
    apply_to: str = "all"
    priority: int = 0
    operator: bool = False


@dataclass(frozen=True)
class LimitRecord:
    """`scope` is "vhost" or "user", and `owner` the name of one."""

    scope: str
    owner: str
    name: str
    value: int


@dataclass(frozen=True)
class ParameterRecord:
    """What an import brought for a component we do not have, kept for the next export. A global one has no vhost."""

    vhost: str
    component: str
    name: str
    # Whatever JSON holds; compiled dataclasses do not know `object`.
    value: Any


# What an administrator lays down for objects that are or will be there.
Rule = PermissionRecord | TopicPermissionRecord | PolicyRecord | LimitRecord | ParameterRecord


@dataclass(frozen=True)
class ReaderOffset:
    """How far a reader of a stream, which is known by a name, has acknowledged: everything before `offset`."""

    queue_id: int
    reader: str
    offset: int


@dataclass(frozen=True)
class TerminusRecord:
    """One end of a user's link that outlives it: `role` says which, "source" or "target".

    `id` is one of a queue that has its notes. `configuration` is what the gateway knows it by. `node_id` is that of the
    queue that was made for it, 0 for none.
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
    """A name under which messages of a queue are leased. `id` is one of a queue that has its notes."""

    id: int
    vhost: str
    queue_id: int
    name: str
    timeout_ms: int = 0


@dataclass(frozen=True)
class StageRecord:
    """A transactional id, by which a user publishes in stages. `id` is one of a queue that has its notes; the negative
    one is that of its copies.
    """

    id: int
    vhost: str
    name: str
    user: str


@dataclass(frozen=True)
class Definitions:
    """Everything durable that is not a message, as read at start-up."""

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
    # By name: what only this broker knows, and no export has.
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)


@mypyc_attr(allow_interpreted_subclasses=True)
class DefinitionStore:
    """Durable declarations. Changes take effect in the order they were made, one transaction per batch."""

    @abstractmethod
    def load(self) -> Definitions:
        """Read everything; for start-up. Raises StorageError when the file cannot be read."""

    @abstractmethod
    def put_vhost(self, vhost: VHostRecord) -> None: ...

    @abstractmethod
    def delete_vhost(self, name: str) -> None:
        """Also deletes all that is in it, and the rules for it."""

    @abstractmethod
    def put_user(self, user: UserRecord) -> None: ...

    @abstractmethod
    def delete_user(self, name: str) -> None:
        """Also deletes the rules for it."""

    @abstractmethod
    def put_rule(self, rule: Rule) -> None:
        """Keep a rule, instead of the one it replaces if there is one."""

    @abstractmethod
    def delete_rule(self, rule: Rule) -> None:
        """Forget the rule that this one would replace."""

    @abstractmethod
    def put_exchange(self, exchange: ExchangeRecord) -> None: ...

    @abstractmethod
    def delete_exchange(self, vhost: str, name: str) -> None:
        """Also deletes the bindings from it and to it."""

    @abstractmethod
    def put_queue(self, queue: QueueRecord) -> None: ...

    @abstractmethod
    def delete_queue(self, vhost: str, name: str) -> None:
        """Also deletes the bindings to it, the offsets of its readers and its leases."""

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
    """Durable messages of all queues, and what happened to them."""

    @abstractmethod
    def append(self, message: Message, queue_ids: list[int], entries: list[Entry]) -> None:
        """Stage one message that went to these queues (parallel lists); sets each entry's `segment`."""

    @abstractmethod
    def settle(self, queue_id: i64, entry: Entry) -> None:
        """Stage that an entry with a segment has left its queue for good."""

    @abstractmethod
    def settle_runs(self, queue_id: i64, seq_runs: list[int], slot_runs: list[int]) -> None:
        """Stage that many entries with segments have left their queue for good, without having them at hand.

        `seq_runs` is the first sequence number and the length of each run of them, one pair after the other;
        `slot_runs` is the segment, the first slot and the length of each. Both cover the same entries, each once.
        """

    @abstractmethod
    def replace(self, queue_id: i64, entry: Entry, message: Message) -> None:
        """Stage that an entry with a segment has this message, and no longer its own, at the place it has."""

    @abstractmethod
    def returned(self, queue_id: i64, entry: Entry) -> None:
        """Stage how often an entry with a segment has come back to its queue."""

    @abstractmethod
    def undelivered(self, queue_id: i64, runs: list[int]) -> None:
        """Stage which entries of a queue nobody has had, as the first sequence number and the length of each run.

        For the end of a broker: it holds if nothing is staged behind it but the same of other queues.
        """

    @abstractmethod
    def begin_group(self) -> None:
        """What is staged until `end_group` is found whole after a crash, or not at all.

        A group within a group is a part of that.
        """

    @abstractmethod
    def end_group(self) -> None: ...


class Page:
    """A run of a queue's entries as the storage packed them, in order.

    `count` is how many; `first` is the position of the first, or a lower one; `body_bytes` is what their bodies have
    together; `expires_ms` is when the first of them expires (Unix time), 0 for never; `redelivered` is how many say
    that somebody may have had them before. `unkept` are those that the journal does not have, with so many bytes in
    their bodies. `is_sequence`: their numbers follow each other, from `first_seq` on. One that `is_gone` is of no use.
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
class PlacesOfPage:
    """What the journal knows the stored entries of a page by.

    `seqs` are ranges of numbers on the queue: first, length, first, length...; `slots` are ranges of places in the
    journal: segment, first, length, segment...
    """

    seqs: list[int]
    slots: list[int]


def places_of(entries: Iterable[Entry]) -> PlacesOfPage:
    """Of those in a segment of the journal; numbers and slots may have gaps."""
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
    return PlacesOfPage(seqs, slots)


@mypyc_attr(allow_interpreted_subclasses=True)
class Pages:
    """Keeps what is far from its turn, in a fraction of the memory, or in none.

    Raises StorageError where a page cannot be read back: what the journal has of it is there after a restart.
    """

    @abstractmethod
    def pack(self, entries: list[Entry]) -> Page:
        """Keep these; they are forgotten but for what an entry and its message say of themselves."""

    @abstractmethod
    def unpack(self, page: Page) -> list[Entry]:
        """The entries again, all ready; the page is gone then."""

    @abstractmethod
    def read(self, page: Page) -> list[Entry]:
        """The same, and the page stays."""

    @abstractmethod
    def repack(self, page: Page, entries: list[Entry]) -> None:
        """Keep these in the page instead of what it has."""

    @abstractmethod
    def places(self, page: Page) -> PlacesOfPage: ...

    @abstractmethod
    def drop(self, page: Page) -> None: ...

    @abstractmethod
    def will_need(self, page: Page) -> None:
        """It will be unpacked soon."""

    @abstractmethod
    def put_out(self, data: bytes) -> Page:
        """Keep bytes on the disk, whatever room there is in memory; where the disk does not take them, in memory."""

    @abstractmethod
    def bring_back(self, page: Page) -> bytes:
        """What was put out. The page is gone then, also where it cannot be read."""

    @property
    def held_bytes(self) -> int:
        """What packed pages take of the memory."""
        return 0


@dataclass(frozen=True)
class StreamLimits:
    """What of a stream is kept, -1 for no limit. One of its files is not continued from `segment_bytes` on, 0: ours."""

    max_bytes: int = -1
    max_age_ms: int = -1
    segment_bytes: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamCursor:
    """A reader's place in a stream: `offset` is what it comes to next.

    A reader that can only want messages in which some bytes occur says so by `wanted`: others may be left out then.
    Where that takes long, `next` returns None with `has_more` set, and goes on when it is called again.
    """

    def __init__(self, offset: i64) -> None:
        self.offset: i64 = offset
        self.wanted: list[bytes] = []
        self.has_more = False
        # How many messages `run` returned.
        self.run_count: i64 = 0

    def run(self, end: i64, room: i64, is_first: bool, message_format: i64) -> bytes:
        """The next messages before `end` in one piece, as the storage holds them (docs/storage-format.md, content).

        They follow each other without a gap, have this format, and fit `room` bytes; but the first is there whatever
        its size where it `is_first`. Empty where that cannot be said of the next message: `next` tells.
        """
        return b""

    @abstractmethod
    def next(self, end: i64) -> Message | None:
        """The next message before `end`, `offset` is one behind it then; None when there is none.

        What is read has to be durable. Offsets that are gone, or cannot be read any more, are passed over. Raises
        StorageError when a file cannot be read.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamLog:
    """One stream: an append-only log of messages by offset. Offsets start at 0 and grow by one."""

    @property
    @abstractmethod
    def first_offset(self) -> int: ...

    @property
    @abstractmethod
    def next_offset(self) -> int:
        """The offset the next append gets; staged records count."""

    @property
    @abstractmethod
    def durable_offset(self) -> int:
        """The first offset that a crash could take, and give to another message; `next_offset` if there is none."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """What it takes of the disk; staged records do not count."""

    @property
    @abstractmethod
    def segment_count(self) -> int:
        """How many files that is."""

    @abstractmethod
    def append(self, message: Message) -> int:
        """Stage a message; returns its offset."""

    @abstractmethod
    def limit(self, limits: StreamLimits) -> None:
        """What is to be kept from now on; looked at whenever a file is begun."""

    @abstractmethod
    def retire(self, now_ms: i64) -> None:
        """Let go of what the limits do not keep, at the next commit."""

    @property
    @abstractmethod
    def retires_more(self) -> bool:
        """Whether there was too much for one go, and `retire` is to be called again."""

    @abstractmethod
    def cursor(self, offset: int, ahead_bytes: int) -> StreamCursor:
        """A reader's place; offsets that are gone, or still to come, are fine. It holds about so many bytes."""

    @abstractmethod
    def offset_near(self, timestamp_ms: int) -> int:
        """An offset not behind the first message received at or after this time, and close before it.

        Raises StorageError when a file cannot be read, as `offset_at` does.
        """

    @abstractmethod
    def offset_behind(self, offset: int, size: int) -> int:
        """An offset behind about so many bytes of messages from this one on, the log's end where there are fewer."""

    @abstractmethod
    def offset_at(self, timestamp_ms: int) -> int:
        """The first durable offset whose message was received at or after this time, `durable_offset` without one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Storage:
    """A node's storage: one journal, one definition store, any number of streams, and group commit over all."""

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
        """The log of a stream queue, made when it is not there yet."""

    @abstractmethod
    def delete_stream(self, queue_id: int) -> None: ...

    @abstractmethod
    def recover(self, queue_ids: set[int], note_ids: set[int]) -> Iterator[tuple[int, Entry]]:
        """Unsettled entries of these queues, in order per queue; for start-up. All others are forgotten.

        Those of `note_ids`, which have few, come before all of `queue_ids`.
        """

    @abstractmethod
    def recovered_next_seq(self, queue_id: int) -> int:
        """After `recover`: the lowest sequence number a queue may use, above all that records still speak of."""

    @abstractmethod
    def commit(self) -> int:
        """End the batch of what was staged since the last call and hand it to the disk; returns its number.

        With nothing staged, returns the number of the newest batch handed over before: waiting for it covers
        everything staged so far. Raises StorageFenced once a write or sync has failed.
        """

    @abstractmethod
    def begin_behind(self) -> None:
        """The next batch counts on those before it: it gets to the disk, streams included, once they are there."""

    @abstractmethod
    def discard(self) -> None:
        """Forget what was staged since the last commit; for start-up, where nothing was built on it yet."""

    @property
    @abstractmethod
    def durable_batch(self) -> int:
        """The newest batch that is on the disk, synced."""

    @property
    @abstractmethod
    def definitions_durable(self) -> bool:
        """Whether all definitions are on the disk: answers that tell of them wait until they are."""

    @property
    @abstractmethod
    def backlog_bytes(self) -> int:
        """Bytes handed over and not synced yet."""

    @property
    @abstractmethod
    def failure(self) -> str:
        """Why the storage is fenced; empty while it is not."""
