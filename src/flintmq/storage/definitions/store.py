"""Changes of definitions, staged as SQL statements for the next batch."""

import json
from typing import final

from flintmq.broker.ports import (
    BindingRecord,
    Definitions,
    DefinitionStore,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    ReaderOffset,
    Rule,
    StageRecord,
    TerminusRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.storage.definitions import rules
from flintmq.storage.definitions.catalogue import Catalogue
from flintmq.storage.definitions.database import DefinitionDatabase, Statement
from flintmq.storage.definitions.schema import dump_table


@final
class SqliteDefinitions(DefinitionStore):
    """Stages changes of definitions as SQL statements for the next batch, and reports those that the journal copies to
    `catalogue`.
    """

    def __init__(self, database: DefinitionDatabase, catalogue: Catalogue | None = None) -> None:
        # All ids that were ever given are below this number. It is 0 until `load` has read it.
        self.next_queue_id = 0
        self.catalogue = catalogue or Catalogue(0, 0)
        # The definitions record of the batch that was taken last, for the journal; empty if there is none.
        self.catalogue_change = b""
        # False if only offsets of stream readers were staged: they change all the time and do not change the
        # generation.
        self._has_definition_changes = False
        self._database = database
        self._statements: list[Statement] = []

    def load(self) -> Definitions:
        definitions = self._database.load()
        self.next_queue_id = definitions.next_queue_id
        self.catalogue.load(definitions)
        return definitions

    @property
    def staged(self) -> bool:
        return bool(self._statements)

    def take(self) -> list[Statement]:
        """End the batch; return its statements."""
        statements = self._statements
        self._statements = []
        self.catalogue_change = b""
        if self._has_definition_changes:
            self._has_definition_changes = False
            self.catalogue_change = self.catalogue.encode_changes()
            # Not `value + 1`: a follower may make a transaction again that its copy has already.
            set_generation = "UPDATE meta SET value = max(value, ?) WHERE key = 'generation'"
            statements.append((set_generation, (self.catalogue.generation,)))
        return statements

    def discard(self) -> None:
        """Drop what was staged since the last batch."""
        self._statements = []
        self._has_definition_changes = False
        self.catalogue.discard_changes()

    def _stage(self, sql: str, *parameters: object) -> None:
        self._has_definition_changes = True
        self._stage_statement(sql, *parameters)

    def _stage_statement(self, sql: str, *parameters: object) -> None:
        for parameter in parameters:
            if isinstance(parameter, str):
                # Raise UnicodeEncodeError here, in the caller: the sync thread could only stop.
                parameter.encode()
        self._statements.append((sql, parameters))

    def put_vhost(self, vhost: VHostRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO vhosts (name, dialect, default_queue_type, description, tags)"
            " VALUES (?, ?, ?, ?, ?)",
            vhost.name,
            vhost.dialect,
            vhost.default_queue_type,
            vhost.description,
            json.dumps(vhost.tags),
        )
        self.catalogue.put_vhost(vhost)

    def delete_vhost(self, name: str) -> None:
        self._stage("DELETE FROM vhosts WHERE name = ?", name)
        for sql in rules.OF_VHOST:
            self._stage(sql, name)
        self._stage("DELETE FROM termini WHERE vhost = ?", name)
        self._stage("DELETE FROM leases WHERE vhost = ?", name)
        self._stage("DELETE FROM stages WHERE vhost = ?", name)
        self.catalogue.delete_vhost(name)

    def put_user(self, user: UserRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO users (name, password_hash, tags, hashing_algorithm, scram) VALUES (?, ?, ?, ?, ?)",
            user.name,
            user.password_hash,
            json.dumps(user.tags),
            user.hashing_algorithm,
            json.dumps(user.scram),
        )

    def delete_user(self, name: str) -> None:
        self._stage("DELETE FROM users WHERE name = ?", name)
        for sql in rules.OF_USER:
            self._stage(sql, name)

    def put_rule(self, rule: Rule) -> None:
        sql, row = rules.statement_to_put(rule)
        self._stage(sql, *row)

    def delete_rule(self, rule: Rule) -> None:
        sql, row = rules.statement_to_delete(rule)
        self._stage(sql, *row)

    def put_exchange(self, exchange: ExchangeRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?, ?, ?, ?)",
            exchange.vhost,
            exchange.name,
            exchange.type,
            exchange.auto_delete,
            exchange.internal,
            dump_table(exchange.arguments),
        )
        self.catalogue.put_exchange(exchange)

    def delete_exchange(self, vhost: str, name: str) -> None:
        self._stage("DELETE FROM exchanges WHERE vhost = ? AND name = ?", vhost, name)
        self._stage("DELETE FROM bindings WHERE vhost = ? AND source = ?", vhost, name)
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND destination = ? AND destination_type = 'exchange'", vhost, name
        )
        self.catalogue.delete_exchange(vhost, name)

    def put_queue(self, queue: QueueRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO queues VALUES (?, ?, ?, ?, ?)",
            queue.id,
            queue.vhost,
            queue.name,
            queue.auto_delete,
            dump_table(queue.arguments),
        )
        self._use_id(queue.id)
        self.catalogue.put_queue(queue)

    def _use_id(self, queue_id: int) -> None:
        self._stage("UPDATE meta SET value = max(value, ?) WHERE key = 'next_queue_id'", queue_id + 1)

    def put_terminus(self, terminus: TerminusRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO termini VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            terminus.id,
            terminus.vhost,
            terminus.user,
            terminus.container,
            terminus.link,
            terminus.role,
            terminus.durability,
            terminus.expiry,
            terminus.timeout_ms,
            terminus.configuration,
            terminus.node_id,
        )
        self._use_id(terminus.id)
        self.catalogue.put_terminus(terminus)

    def delete_terminus(self, terminus: TerminusRecord) -> None:
        self._stage("DELETE FROM termini WHERE id = ?", terminus.id)
        self.catalogue.delete_terminus(terminus.id, terminus.vhost)

    def put_lease(self, lease: LeaseRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)",
            lease.id,
            lease.vhost,
            lease.queue_id,
            lease.name,
            lease.timeout_ms,
        )
        self._use_id(lease.id)
        self.catalogue.put_lease(lease)

    def delete_lease(self, lease: LeaseRecord) -> None:
        self._stage("DELETE FROM leases WHERE id = ?", lease.id)
        self.catalogue.delete_lease(lease.id, lease.vhost)

    def put_stage(self, stage: StageRecord) -> None:
        self._stage("INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)", stage.id, stage.vhost, stage.name, stage.user)
        self._use_id(stage.id)
        self.catalogue.put_stage(stage)

    def delete_stage(self, stage: StageRecord) -> None:
        self._stage("DELETE FROM stages WHERE id = ?", stage.id)
        self.catalogue.delete_stage(stage.id, stage.vhost)

    def put_secret(self, name: str, value: bytes) -> None:
        self._stage("INSERT OR REPLACE INTO secrets VALUES (?, ?)", name, value)

    def put_reader_offset(self, offset: ReaderOffset) -> None:
        self._stage_statement(
            "INSERT OR REPLACE INTO reader_offsets VALUES (?, ?, ?)", offset.queue_id, offset.reader, offset.offset
        )

    def delete_queue(self, vhost: str, name: str) -> None:
        self._stage(
            "DELETE FROM reader_offsets WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ? AND name = ?)",
            vhost,
            name,
        )
        self._stage(
            "DELETE FROM leases WHERE queue_id IN (SELECT id FROM queues WHERE vhost = ? AND name = ?)", vhost, name
        )
        self._stage("DELETE FROM queues WHERE vhost = ? AND name = ?", vhost, name)
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND destination = ? AND destination_type = 'queue'", vhost, name
        )
        self.catalogue.delete_queue(vhost, name)

    def put_binding(self, binding: BindingRecord) -> None:
        self._stage(
            "INSERT OR REPLACE INTO bindings (vhost, source, destination, destination_type, routing_key, arguments)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *_binding_key(binding),
        )

    def delete_binding(self, binding: BindingRecord) -> None:
        self._stage(
            "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? AND destination_type = ?"
            " AND routing_key = ? AND arguments = ?",
            *_binding_key(binding),
        )


def _binding_key(binding: BindingRecord) -> tuple[object, ...]:
    """The columns of a binding; all of them together identify it, including its arguments."""
    return (
        binding.vhost,
        binding.source,
        binding.destination,
        binding.destination_type,
        binding.routing_key,
        dump_table(binding.arguments),
    )
