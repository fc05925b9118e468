"""The tables of definitions.sqlite, the migrations from older formats, and the encoding of argument tables in text
columns.
"""

import json
from typing import Final

from flintmq.base.json_values import from_json, to_json
from flintmq.broker.message import Table

VERSION: Final = 8
# "FLNT" distinguishes FlintMQ's database from another program's database of the same name.
APPLICATION_ID: Final = 0x464C4E54

_BINDINGS: Final = """
CREATE TABLE bindings (
    vhost TEXT, source TEXT, destination TEXT, destination_type TEXT, routing_key TEXT, arguments TEXT,
    PRIMARY KEY (vhost, source, destination, destination_type, routing_key, arguments)) WITHOUT ROWID;
CREATE INDEX bindings_by_destination ON bindings (vhost, destination);
"""
_RULES: Final = """
CREATE TABLE permissions (
    vhost TEXT, user TEXT, configure TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL,
    PRIMARY KEY (vhost, user)) WITHOUT ROWID;
CREATE TABLE topic_permissions (
    vhost TEXT, user TEXT, exchange TEXT, write TEXT NOT NULL, read TEXT NOT NULL,
    PRIMARY KEY (vhost, user, exchange)) WITHOUT ROWID;
CREATE TABLE policies (
    vhost TEXT, operator INTEGER, name TEXT, pattern TEXT NOT NULL, apply_to TEXT NOT NULL, priority INTEGER NOT NULL,
    definition TEXT NOT NULL, PRIMARY KEY (vhost, operator, name)) WITHOUT ROWID;
CREATE TABLE limits (
    scope TEXT, owner TEXT, name TEXT, value INTEGER NOT NULL, PRIMARY KEY (scope, owner, name)) WITHOUT ROWID;
CREATE TABLE parameters (
    vhost TEXT, component TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (vhost, component, name)) WITHOUT ROWID;
"""
_READERS: Final = """
CREATE TABLE reader_offsets (
    queue_id INTEGER, reader TEXT, offset INTEGER NOT NULL, PRIMARY KEY (queue_id, reader)) WITHOUT ROWID;
"""
_TERMINI: Final = """
CREATE TABLE termini (
    id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, user TEXT NOT NULL, container TEXT NOT NULL, link TEXT NOT NULL,
    role TEXT NOT NULL, durability INTEGER NOT NULL, expiry TEXT NOT NULL, timeout_ms INTEGER NOT NULL,
    configuration BLOB NOT NULL, node_id INTEGER NOT NULL, UNIQUE (vhost, user, container, link, role));
"""
_LEASES: Final = """
CREATE TABLE leases (
    id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, queue_id INTEGER NOT NULL, name TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL, UNIQUE (queue_id, name));
"""
_STAGES: Final = """
CREATE TABLE stages (
    id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL, UNIQUE (vhost, name));
"""
_SECRETS: Final = """
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

# `identity` is drawn by the first broker that opens the database (0: not yet drawn); `generation` counts transactions.
# The others are segments of the journal: the newest that holds records, and the one that the last clean stop ended.
_MARKS: Final = """
INSERT OR IGNORE INTO meta VALUES ('identity', 0);
INSERT OR IGNORE INTO meta VALUES ('generation', 0);
INSERT OR IGNORE INTO meta VALUES ('journal_written', 0);
INSERT OR IGNORE INTO meta VALUES ('journal_ended', 0);
"""

_META: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE vhosts (
    name TEXT PRIMARY KEY, dialect TEXT NOT NULL, default_queue_type TEXT NOT NULL, description TEXT NOT NULL,
    tags TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE users (
    name TEXT PRIMARY KEY, password_hash TEXT NOT NULL, tags TEXT NOT NULL, hashing_algorithm TEXT NOT NULL,
    scram TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE exchanges (
    vhost TEXT, name TEXT, type TEXT NOT NULL, auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL,
    arguments TEXT NOT NULL, PRIMARY KEY (vhost, name)) WITHOUT ROWID;
CREATE TABLE queues (
    id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, name TEXT NOT NULL, auto_delete INTEGER NOT NULL,
    arguments TEXT NOT NULL, UNIQUE (vhost, name));
INSERT INTO meta VALUES ('next_queue_id', 1);
"""
CREATE: Final = (_META, _BINDINGS, _RULES, _READERS, _TERMINI, _LEASES, _STAGES, _SECRETS, _MARKS)

# Maps each format to the scripts that lead to the next one, to be run in order. Format 1 had no permissions: every user
# could do everything.
MIGRATIONS: Final = {
    1: (
        """
ALTER TABLE vhosts ADD COLUMN dialect TEXT NOT NULL DEFAULT 'rabbitmq';
ALTER TABLE vhosts ADD COLUMN default_queue_type TEXT NOT NULL DEFAULT '';
ALTER TABLE vhosts ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE vhosts ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE users ADD COLUMN hashing_algorithm TEXT NOT NULL DEFAULT 'argon2id';
ALTER TABLE bindings RENAME TO bindings_1;
DROP INDEX bindings_by_destination;
""",
        _BINDINGS,
        """
INSERT INTO bindings SELECT vhost, source, destination, 'queue', routing_key, arguments FROM bindings_1;
DROP TABLE bindings_1;
""",
        _RULES,
        """
INSERT INTO permissions SELECT vhosts.name, users.name, '.*', '.*', '.*' FROM vhosts, users;
""",
    ),
    2: (_READERS,),
    3: ("ALTER TABLE users ADD COLUMN scram TEXT NOT NULL DEFAULT '[]';",),
    4: (_TERMINI,),
    5: (_LEASES, _STAGES),
    6: (_SECRETS,),
    7: (_MARKS,),
}


def dump_table(table: Table) -> str:
    """Encode a table as JSON; equal tables give equal texts, whatever the order of their keys. Raises TypeError for
    values that a table cannot hold.
    """
    return json.dumps({key: to_json(value) for key, value in table.items()}, separators=(",", ":"), sort_keys=True)


def load_table(text: str) -> Table:
    """Decode a table that `dump_table` encoded. Raises ValueError, KeyError or TypeError for other texts."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise TypeError("arguments are not a table")
    return {key: from_json(value) for key, value in fields.items()}
