"""A copy of the definitions in the journal: the part without which messages cannot be recovered.

It covers virtual hosts, exchanges, queues, and everything else with an id that journal records mention. A segment
begins with all of them, and each change follows in its batch. So they can be rebuilt (storage/rebuild) if
definitions.sqlite is lost. Bindings, users and rules are not covered.

Each record has two numbers by which a start checks that the definitions belong to the journal: `identity`, drawn when
the definitions were created, and `generation`, which grows by one with each transaction of the definitions. A
generation is on the disk in the definitions before it is in the journal.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, final

from flintmq.base.json_values import to_json
from flintmq.broker.message import Table
from flintmq.broker.ports import (
    Definitions,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    StageRecord,
    TerminusRecord,
    VHostRecord,
)
from flintmq.storage.journal.records import DEFINITIONS_HEAD, RECORD_DEFINITIONS

VHOST: Final = "vhost"
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
TERMINUS: Final = "terminus"
LEASE: Final = "lease"
STAGE: Final = "stage"

# Kind, and the id or name that identifies the object within its kind.
Key = tuple[str, int | str, str]


class DefinitionsRecord(NamedTuple):
    """A definitions record of the journal. `is_whole` says that it contains all definitions, not only changes.

    Each of `entries` has a `kind` and either the fields of its definition, or a key and `gone`.
    """

    identity: int
    generation: int
    is_whole: bool
    entries: list[dict[str, Any]]


def encode_definitions(identity: int, generation: int, is_whole: bool, entries: Iterable[str]) -> bytes:
    text = f"[{','.join(entries)}]".encode()
    return DEFINITIONS_HEAD.pack(RECORD_DEFINITIONS, len(text), identity, generation, is_whole) + text


def decode_definitions(data: bytes, position: int) -> DefinitionsRecord:
    """Decode the definitions record at `position`. Raises ValueError if its text is not valid JSON."""
    _, length, identity, generation, is_whole = DEFINITIONS_HEAD.unpack_from(data, position)
    begin = position + DEFINITIONS_HEAD.size
    entries = json.loads(data[begin : begin + length])
    return DefinitionsRecord(identity, generation, bool(is_whole), entries)


@final
class Catalogue:
    """The JSON texts of all definitions that the journal copies. `identity` and `generation` are those of the newest
    change that was encoded.
    """

    def __init__(self, identity: int, generation: int) -> None:
        self.identity = identity
        self.generation = generation
        # By virtual host, because clients wait while one is deleted with all its objects. None: the virtual hosts.
        self._vhosts: dict[str | None, _OfVHost] = {}
        self._changes: list[str] = []
        # If the texts are too long for one segment, each segment gets a part of them; the next part begins at this
        # index.
        self._turn = 0

    def load(self, definitions: Definitions) -> None:
        for vhost in definitions.vhosts:
            self.put_vhost(vhost)
        for exchange in definitions.exchanges:
            self.put_exchange(exchange)
        for queue in definitions.queues:
            self.put_queue(queue)
        for terminus in definitions.termini:
            self.put_terminus(terminus)
        for lease in definitions.leases:
            self.put_lease(lease)
        for stage in definitions.stages:
            self.put_stage(stage)
        self._changes.clear()

    def encode_changes(self) -> bytes:
        """Encode the changes since the last call as a record; they are one more transaction of the definitions."""
        self.generation += 1
        changes = self._changes
        self._changes = []
        return encode_definitions(self.identity, self.generation, False, changes)

    def discard_changes(self) -> None:
        """Drop the staged changes, which will never reach the disk."""
        self._changes.clear()

    @property
    def _size(self) -> int:
        return sum(of_vhost.size for of_vhost in self._vhosts.values())

    def encode_all(self, size_max: int) -> bytes:
        """Encode all definitions as a record. If their text is longer than `size_max` bytes, encode a part of them; the
        next call continues after it.
        """
        texts = [text for of_vhost in self._vhosts.values() for text in of_vhost.texts.values()]
        if self._size <= size_max:
            return encode_definitions(self.identity, self.generation, True, texts)
        part: list[str] = []
        size = 0
        first = self._turn % len(texts)
        for text in texts[first:] + texts[:first]:
            size += len(text)
            if size > size_max and part:
                break
            part.append(text)
        self._turn = first + len(part)
        return encode_definitions(self.identity, self.generation, False, part)

    def text_of_queue(self, queue_id: int) -> str:
        """The JSON text of a queue's definition; empty if the queue is unknown."""
        key: Key = (QUEUE, queue_id, "")
        return next((found.texts[key] for found in self._vhosts.values() if key in found.texts), "")

    # -- changes ------------------------------------------------------------------------------------------------

    def put_vhost(self, vhost: VHostRecord) -> None:
        self._put((VHOST, vhost.name, ""), None, _fields(vhost))

    def delete_vhost(self, name: str) -> None:
        self._delete((VHOST, name, ""), None, {"name": name})
        self._vhosts.pop(name, None)

    def put_exchange(self, exchange: ExchangeRecord) -> None:
        record = {**_fields(exchange), "arguments": _table(exchange.arguments)}
        self._put((EXCHANGE, exchange.vhost, exchange.name), exchange.vhost, record)

    def delete_exchange(self, vhost: str, name: str) -> None:
        self._delete((EXCHANGE, vhost, name), vhost, {"vhost": vhost, "name": name})

    def put_queue(self, queue: QueueRecord) -> None:
        record = {**_fields(queue), "arguments": _table(queue.arguments)}
        self._put((QUEUE, queue.id, ""), queue.vhost, record)
        self._of(queue.vhost).queue_ids[queue.name] = queue.id

    def delete_queue(self, vhost: str, name: str) -> None:
        of_vhost = self._of(vhost)
        queue_id = of_vhost.queue_ids.pop(name, None)
        if queue_id is not None:
            self._delete_id(QUEUE, queue_id, vhost)
            for lease_id in [lease_id for lease_id, leased in of_vhost.leases.items() if leased == queue_id]:
                self.delete_lease(lease_id, vhost)

    def put_terminus(self, terminus: TerminusRecord) -> None:
        record = {**_fields(terminus), "configuration": terminus.configuration.hex()}
        self._put((TERMINUS, terminus.id, ""), terminus.vhost, record)

    def delete_terminus(self, terminus_id: int, vhost: str) -> None:
        self._delete_id(TERMINUS, terminus_id, vhost)

    def put_lease(self, lease: LeaseRecord) -> None:
        self._put((LEASE, lease.id, ""), lease.vhost, _fields(lease))
        self._of(lease.vhost).leases[lease.id] = lease.queue_id

    def delete_lease(self, lease_id: int, vhost: str) -> None:
        self._delete_id(LEASE, lease_id, vhost)
        self._of(vhost).leases.pop(lease_id, None)

    def put_stage(self, stage: StageRecord) -> None:
        self._put((STAGE, stage.id, ""), stage.vhost, _fields(stage))

    def delete_stage(self, stage_id: int, vhost: str) -> None:
        self._delete_id(STAGE, stage_id, vhost)

    def _put(self, key: Key, vhost: str | None, record: Mapping[str, object]) -> None:
        text = json.dumps({"kind": key[0], **record}, separators=(",", ":"))
        of_vhost = self._of(vhost)
        of_vhost.size += len(text) - len(of_vhost.texts.pop(key, ""))
        of_vhost.texts[key] = text
        self._changes.append(text)

    def _delete_id(self, kind: str, numbered: int, vhost: str) -> None:
        self._delete((kind, numbered, ""), vhost, {"id": numbered})

    def _delete(self, key: Key, vhost: str | None, named: Mapping[str, object]) -> None:
        of_vhost = self._of(vhost)
        of_vhost.size -= len(of_vhost.texts.pop(key, ""))
        self._changes.append(json.dumps({"kind": key[0], **named, "gone": True}, separators=(",", ":")))

    def _of(self, vhost: str | None) -> "_OfVHost":
        found = self._vhosts.get(vhost)
        if found is None:
            found = self._vhosts[vhost] = _OfVHost()
        return found


@final
class _OfVHost:
    """The definitions of a virtual host. `size` is the length of all texts."""

    def __init__(self) -> None:
        # Maps a key to the JSON text of its definition.
        self.texts: dict[Key, str] = {}
        self.queue_ids: dict[str, int] = {}
        # Maps lease ids to queue ids, because deleting a queue deletes its leases.
        self.leases: dict[int, int] = {}
        self.size = 0


def _fields(record: object) -> dict[str, object]:
    """The fields of a dataclass, by name; compiled dataclasses have no `__dict__`."""
    return {field.name: getattr(record, field.name) for field in fields(record)}  # type: ignore[arg-type]


def _table(arguments: Table) -> dict[str, object]:
    return {name: to_json(value) for name, value in arguments.items()}
