"""Definitions: what was put is loaded after a restart, and a file that is not ours is refused."""

import os
import sqlite3
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.base.values import Timestamp
from flintmq.broker.ports import (
    BindingRecord,
    Definitions,
    ExchangeRecord,
    LeaseRecord,
    LimitRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    ReaderOffset,
    Rule,
    TerminusRecord,
    TopicPermissionRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.storage.definitions.catalogue import Catalogue
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.definitions.schema import VERSION
from flintmq.storage.definitions.store import SqliteDefinitions

EXCHANGE = ExchangeRecord("/", "ex", "topic", True, True, {"alternate-exchange": "other"})
QUEUE = QueueRecord(4, "/", "q", True, {"x-bytes": b"\x00", "x-when": Timestamp(5), "x-d": Decimal("1.5")})
BINDING = BindingRecord("/", "ex", "q", "key.#", {"x-match": "any"})


def _store(path: Path) -> tuple[DefinitionDatabase, SqliteDefinitions]:
    database = DefinitionDatabase(path / "definitions.sqlite")
    database.make()
    return database, SqliteDefinitions(database)


def _put_all(store: SqliteDefinitions) -> None:
    store.put_vhost(VHostRecord("/"))
    store.put_user(UserRecord("guest", "hash", ("administrator", "a,b")))
    store.put_exchange(EXCHANGE)
    store.put_queue(QUEUE)
    store.put_binding(BINDING)


def _reloaded(path: Path) -> Definitions:
    database, store = _store(path)
    loaded = store.load()
    database.close()
    return loaded


def test_new_directory_is_empty(tmp_path: Path) -> None:
    """A new store has nothing, and queue ids begin at 1."""
    assert _reloaded(tmp_path) == Definitions([], [], [], [], [], 1)


def test_everything_comes_back(tmp_path: Path) -> None:
    """Every kind of definition is read back as it was put, types of arguments included."""
    database, store = _store(tmp_path)
    _put_all(store)
    database.apply(store.take())
    database.close()
    user = UserRecord("guest", "hash", ("administrator", "a,b"))
    assert _reloaded(tmp_path) == Definitions([VHostRecord("/")], [user], [EXCHANGE], [QUEUE], [BINDING], 5)


def test_staged_until_taken(tmp_path: Path) -> None:
    """Answers to declarations wait while the present batch holds changes, and only then."""
    database, store = _store(tmp_path)
    seen = [store.staged]
    store.put_vhost(VHostRecord("/"))
    seen.append(store.staged)
    store.take()
    seen.append(store.staged)
    assert seen == [False, True, False]
    database.close()


def test_deleting_takes_the_bindings_along(tmp_path: Path) -> None:
    """A deleted exchange or queue leaves no binding, and only its own."""
    database, store = _store(tmp_path)
    _put_all(store)
    store.put_binding(BindingRecord("/", "other", "q2", "k"))
    store.put_binding(BindingRecord("other vhost", "ex", "q", "k"))
    store.delete_exchange("/", "ex")
    database.apply(store.take())
    assert [(binding.vhost, binding.source) for binding in store.load().bindings] == [
        ("/", "other"),
        ("other vhost", "ex"),
    ]
    store.put_binding(BINDING)
    store.delete_queue("/", "q")
    database.apply(store.take())
    loaded = store.load()
    assert [binding.destination for binding in loaded.bindings] == ["q2", "q"]
    assert (loaded.exchanges, loaded.queues) == ([], [])
    database.close()


def test_bindings_are_told_apart_by_arguments(tmp_path: Path) -> None:
    """Deleting a binding leaves the one that differs only in its arguments."""
    database, store = _store(tmp_path)
    other = BindingRecord("/", "ex", "q", "key.#", {"x-match": "all"})
    store.put_binding(BINDING)
    store.put_binding(BINDING)
    store.put_binding(other)
    store.delete_binding(BINDING)
    database.apply(store.take())
    assert store.load().bindings == [other]
    database.close()


def test_queue_ids_are_not_used_again(tmp_path: Path) -> None:
    """The next id stays above every id ever put, whatever was deleted since."""
    database, store = _store(tmp_path)
    store.put_queue(QueueRecord(7, "/", "a"))
    store.put_queue(QueueRecord(3, "/", "b"))
    store.delete_queue("/", "a")
    database.apply(store.take())
    database.close()
    assert _reloaded(tmp_path).next_queue_id == 8


def test_a_batch_is_one_transaction(tmp_path: Path) -> None:
    """When one change fails none of its batch is there."""
    database, store = _store(tmp_path)
    store.put_vhost(VHostRecord("/"))
    with pytest.raises(sqlite3.Error):
        database.apply([*store.take(), ("INSERT INTO nowhere VALUES (1)", ())])
    database.close()
    assert _reloaded(tmp_path).vhosts == []


def test_a_name_that_is_no_text_is_refused_at_once(tmp_path: Path) -> None:
    """Text that SQLite cannot store is refused in the caller, not in the sync thread."""
    database, store = _store(tmp_path)
    with pytest.raises(UnicodeEncodeError):
        store.put_vhost(VHostRecord("\udc80"))
    assert not store.staged
    database.close()


def test_commits_are_synced(tmp_path: Path) -> None:
    """Each transaction is on the disk when it returns."""
    database, _ = _store(tmp_path)
    full = 2
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (full,)
    assert database._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_garbage_is_refused(tmp_path: Path) -> None:
    """A file that is no database stops the start and says what to do."""
    (tmp_path / "definitions.sqlite").write_bytes(b"not a database, but long enough to look like a header" * 30)
    with pytest.raises(StorageError, match=r"definitions\.sqlite cannot be read .*: restore it from a backup"):
        _store(tmp_path)


def test_damaged_pages_are_refused(tmp_path: Path) -> None:
    """A database with a broken page is not half believed."""
    database, store = _store(tmp_path)
    for i in range(2000):
        store.put_queue(QueueRecord(i, "/", f"queue {i}"))
    database.apply(store.take())
    database.close()
    file = tmp_path / "definitions.sqlite"
    data = bytearray(file.read_bytes())
    data[20_000:60_000] = b"\xa5" * 40_000
    file.write_bytes(data)
    with pytest.raises(StorageError, match="cannot be read"):
        _reloaded(tmp_path)


def test_arguments_nobody_wrote_are_refused(tmp_path: Path) -> None:
    """Arguments that are not what this broker writes stop the start."""
    database, store = _store(tmp_path)
    _put_all(store)
    database.apply([*store.take(), ("UPDATE queues SET arguments = '[]'", ())])
    with pytest.raises(StorageError, match="arguments are not a table"):
        store.load()
    database.close()


@pytest.mark.parametrize("pragma", [f"user_version = {VERSION + 1}", "application_id = 1"])
def test_another_format_is_refused(tmp_path: Path, pragma: str) -> None:
    """Another version, or another program's database, is left alone."""
    _store(tmp_path)[0].close()
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.execute(f"PRAGMA {pragma}")
    connection.close()
    with pytest.raises(StorageError, match="start the release that wrote it, or choose another data directory"):
        _store(tmp_path)


RULES: list[Rule] = [
    PermissionRecord("/", "guest", "^mine", ".*", ""),
    TopicPermissionRecord("/", "guest", "amq.topic", "^a", "^b"),
    PolicyRecord("/", "p", "^q", {"max-length": 5}, "queues", 3),
    PolicyRecord("/", "p", "^q", {"max-length": 4}, "queues", 3, operator=True),
    LimitRecord("vhost", "/", "max-queues", 7),
    LimitRecord("user", "guest", "max-channels", 8),
    ParameterRecord("/", "shovel", "s", {"src": ["a", 1]}),
]


def test_rules_come_back(tmp_path: Path) -> None:
    """Every kind of rule is read back as it was put, and one that was put again is there once."""
    database, store = _store(tmp_path)
    for rule in [PolicyRecord("/", "p", "^old", {}), *RULES]:
        store.put_rule(rule)
    database.apply(store.take())
    database.close()
    assert sorted(map(repr, _reloaded(tmp_path).rules)) == sorted(map(repr, RULES))


@pytest.mark.parametrize("rule", RULES)
def test_one_rule_is_deleted(tmp_path: Path, rule: Rule) -> None:
    """Deleting a rule leaves the others."""
    database, store = _store(tmp_path)
    for each in RULES:
        store.put_rule(each)
    store.delete_rule(rule)
    database.apply(store.take())
    assert sorted(map(repr, store.load().rules)) == sorted(repr(each) for each in RULES if each != rule)
    database.close()


def test_a_vhost_takes_along_what_is_in_it(tmp_path: Path) -> None:
    """A deleted virtual host leaves nothing of it, and another one everything."""
    database, store = _store(tmp_path)
    _put_all(store)
    for each in [*RULES, PermissionRecord("other", "guest", "a", "b", "c"), LimitRecord("vhost", "other", "x", 1)]:
        store.put_rule(each)
    store.put_vhost(VHostRecord("other", "strict", "classic", "words", ("a", "b")))
    store.delete_vhost("/")
    database.apply(store.take())
    loaded = store.load()
    assert loaded.vhosts == [VHostRecord("other", "strict", "classic", "words", ("a", "b"))]
    assert (loaded.exchanges, loaded.queues, loaded.bindings) == ([], [], [])
    assert loaded.rules == [
        PermissionRecord("other", "guest", "a", "b", "c"),
        LimitRecord("user", "guest", "max-channels", 8),
        LimitRecord("vhost", "other", "x", 1),
    ]
    database.close()


def test_a_user_takes_along_what_was_granted(tmp_path: Path) -> None:
    """A deleted user leaves no permission and no limit; policies stay."""
    database, store = _store(tmp_path)
    _put_all(store)
    for each in RULES:
        store.put_rule(each)
    store.delete_user("guest")
    database.apply(store.take())
    loaded = store.load()
    assert loaded.users == []
    assert sorted(map(repr, loaded.rules)) == sorted(
        repr(rule) for rule in RULES if not (getattr(rule, "user", "") or getattr(rule, "scope", "") == "user")
    )
    database.close()


# What the release before this format wrote.
FORMAT_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE vhosts (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE users (name TEXT PRIMARY KEY, password_hash TEXT NOT NULL, tags TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE exchanges (
    vhost TEXT, name TEXT, type TEXT NOT NULL, auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL,
    arguments TEXT NOT NULL, PRIMARY KEY (vhost, name)) WITHOUT ROWID;
CREATE TABLE queues (
    id INTEGER PRIMARY KEY, vhost TEXT NOT NULL, name TEXT NOT NULL, auto_delete INTEGER NOT NULL,
    arguments TEXT NOT NULL, UNIQUE (vhost, name));
CREATE TABLE bindings (
    vhost TEXT, source TEXT, destination TEXT, routing_key TEXT, arguments TEXT,
    PRIMARY KEY (vhost, source, destination, routing_key, arguments)) WITHOUT ROWID;
CREATE INDEX bindings_by_destination ON bindings (vhost, destination);
INSERT INTO meta VALUES ('next_queue_id', 5);
INSERT INTO vhosts VALUES ('/'), ('b');
INSERT INTO users VALUES ('guest', 'hash', '["administrator"]'), ('anna', 'hash 2', '[]');
INSERT INTO exchanges VALUES ('/', 'ex', 'topic', 1, 1, '{}');
INSERT INTO queues VALUES (4, '/', 'q', 0, '{"a":1}');
INSERT INTO bindings VALUES ('/', 'ex', 'q', 'key', '{"x":{"$bytes":""}}');
PRAGMA application_id = 0x464C4E54;
PRAGMA user_version = 1;
"""


# What formats have beside what format 4 had.
SINCE_6 = "DROP TABLE secrets;"
SINCE_5 = f"DROP TABLE leases; DROP TABLE stages; {SINCE_6}"
SINCE_4 = f"DROP TABLE termini; {SINCE_5}"


def test_format_1_is_brought_up_to_date(tmp_path: Path) -> None:
    """A directory of the last release opens with all it had, and its users may do what they could do before."""
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(FORMAT_1)
    connection.close()
    for _ in range(2):
        assert _reloaded(tmp_path) == Definitions(
            [VHostRecord("/"), VHostRecord("b")],
            [UserRecord("anna", "hash 2"), UserRecord("guest", "hash", ("administrator",))],
            [ExchangeRecord("/", "ex", "topic", True, True)],
            [QueueRecord(4, "/", "q", False, {"a": 1})],
            [BindingRecord("/", "ex", "q", "key", {"x": b""})],
            5,
            [PermissionRecord(vhost, user, ".*", ".*", ".*") for vhost in ("/", "b") for user in ("anna", "guest")],
        )


def test_format_2_is_brought_up_to_date(tmp_path: Path) -> None:
    """Format 2 had no offsets of stream readers."""
    database, store = _store(tmp_path)
    _put_all(store)
    database.apply(store.take())
    database.close()
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(
        f"DROP TABLE reader_offsets; {SINCE_4} ALTER TABLE users DROP COLUMN scram; PRAGMA user_version = 2;"
    )
    connection.close()
    database, store = _store(tmp_path)
    store.put_reader_offset(ReaderOffset(4, "r", 5))
    database.apply(store.take())
    database.close()
    assert (_reloaded(tmp_path).queues, _reloaded(tmp_path).reader_offsets) == ([QUEUE], [ReaderOffset(4, "r", 5)])


def test_keys_for_scram_are_kept(tmp_path: Path) -> None:
    """SCRAM keys are stored with the password hash; a user of format 3 has none."""
    database, store = _store(tmp_path)
    store.put_user(UserRecord("u", "hash", scram=("SCRAM-SHA-256$1:s$k:k",)))
    database.apply(store.take())
    database.close()
    assert _reloaded(tmp_path).users[0].scram == ("SCRAM-SHA-256$1:s$k:k",)
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(f"ALTER TABLE users DROP COLUMN scram; {SINCE_4} PRAGMA user_version = 3;")
    connection.close()
    assert _reloaded(tmp_path).users == [UserRecord("u", "hash")]


def test_format_4_is_brought_up_to_date(tmp_path: Path) -> None:
    """Format 4 had no termini."""
    database, store = _store(tmp_path)
    _put_all(store)
    database.apply(store.take())
    database.close()
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(f"{SINCE_4} PRAGMA user_version = 4;")
    connection.close()
    assert (_reloaded(tmp_path).queues, _reloaded(tmp_path).termini) == ([QUEUE], [])


def test_format_5_is_brought_up_to_date(tmp_path: Path) -> None:
    """Format 5 had no leases."""
    database, store = _store(tmp_path)
    _put_all(store)
    database.apply(store.take())
    database.close()
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(f"{SINCE_5} PRAGMA user_version = 5;")
    connection.close()
    assert (_reloaded(tmp_path).queues, _reloaded(tmp_path).leases) == ([QUEUE], [])


def test_format_6_is_brought_up_to_date(tmp_path: Path) -> None:
    """A broker that has no secret yet may keep one from then on, which is in no text about definitions."""
    _store(tmp_path)[0].close()
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(f"{SINCE_6} PRAGMA user_version = 6;")
    connection.close()
    database, store = _store(tmp_path)
    assert database.load().secrets == {}
    store.put_secret("login", b"in no text")
    database.apply(store.take())
    database.close()
    definitions = _reloaded(tmp_path)
    assert definitions.secrets == {"login": b"in no text"}
    assert "in no text" not in repr(definitions)


def test_leases(tmp_path: Path) -> None:
    """The last one of an id counts; they go one by one, with their queue, or with their virtual host."""
    database, store = _store(tmp_path)
    _put_all(store)
    queue = QueueRecord(20, "/", "leased", False, {})
    store.put_queue(queue)
    leases = [LeaseRecord(21, "/", 20, "a", 2**40), LeaseRecord(22, "/", 20, "b"), LeaseRecord(23, "/", QUEUE.id, "a")]
    for lease in (replace(leases[0], timeout_ms=1), *leases):
        store.put_lease(lease)
    database.apply(store.take())
    assert (store.load().leases, store.load().next_queue_id) == (leases, 24)
    store.delete_lease(leases[1])
    database.apply(store.take())
    assert store.load().leases == [leases[0], leases[2]]
    store.delete_queue("/", "leased")
    database.apply(store.take())
    assert store.load().leases == leases[2:]
    store.delete_vhost("/")
    database.apply(store.take())
    assert (store.load().leases, store.load().next_queue_id) == ([], 24)
    database.close()


def test_termini(tmp_path: Path) -> None:
    """The last one of an id counts; they go one by one, or with their virtual host; ids are not given again."""
    database, store = _store(tmp_path)
    _put_all(store)
    source = TerminusRecord(7, "/", "u", "c", "l", "source", 2, "never", 2**40, b"\x00conf", 4)
    target = TerminusRecord(8, "/", "u", "c", "l", "target", 1, "link-detach", 0, b"")
    other = TerminusRecord(9, "other", "u", "c", "l", "source", 1, "never", 0, b"")
    for terminus in (replace(source, timeout_ms=1), source, target, other):
        store.put_terminus(terminus)
    database.apply(store.take())
    assert (store.load().termini, store.load().next_queue_id) == ([source, target, other], 10)
    store.delete_terminus(target)
    database.apply(store.take())
    assert store.load().termini == [source, other]
    store.delete_vhost("/")
    database.apply(store.take())
    assert (store.load().termini, store.load().next_queue_id) == ([other], 10)
    database.close()


def test_places_of_readers_go_with_their_queue(tmp_path: Path) -> None:
    """The last one counts, and those of other queues stay."""
    database, store = _store(tmp_path)
    _put_all(store)
    store.put_queue(QueueRecord(7, "/", "other"))
    for place in (
        ReaderOffset(4, "r", 5),
        ReaderOffset(7, "r", 2**40),
        ReaderOffset(4, "r", 6),
        ReaderOffset(4, "s", 0),
    ):
        store.put_reader_offset(place)
    database.apply(store.take())
    assert store.load().reader_offsets == [
        ReaderOffset(4, "r", 6),
        ReaderOffset(4, "s", 0),
        ReaderOffset(7, "r", 2**40),
    ]
    store.delete_queue("/", "q")
    database.apply(store.take())
    assert store.load().reader_offsets == [ReaderOffset(7, "r", 2**40)]
    database.close()


def test_an_update_that_fails_changes_nothing(tmp_path: Path) -> None:
    """A directory whose format cannot be brought up to date is as it was, for the release that wrote it."""
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    connection.executescript(FORMAT_1 + "CREATE TABLE permissions (whose TEXT);")
    connection.close()
    with pytest.raises(StorageError, match="cannot be read"):
        _store(tmp_path)
    connection = sqlite3.connect(tmp_path / "definitions.sqlite")
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT * FROM vhosts").fetchall() == [("/",), ("b",)]
    connection.close()


def test_others_cannot_read_the_files(tmp_path: Path) -> None:
    """The database and the files beside it have the mode 0640, whatever the umask, and what an older release made."""
    before = os.umask(0)
    try:
        database, store = _store(tmp_path)
        store.put_vhost(VHostRecord("/"))
        database.apply(store.take())
        names = ("definitions.sqlite", "definitions.sqlite-wal", "definitions.sqlite-shm")
        assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in names} == dict.fromkeys(names, 0o640)
        for name in names:
            (tmp_path / name).chmod(0o644)
        again, _ = _store(tmp_path)
        assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in names} == dict.fromkeys(names, 0o640)
        again.close()
        database.close()
    finally:
        os.umask(before)


def test_a_blank_database_leaves_no_file(tmp_path: Path) -> None:
    """A new blank database can be closed without leaving a file; an existing file stays."""
    path = tmp_path / "definitions.sqlite"
    database = DefinitionDatabase(path)
    assert database.is_blank
    database.close_unused()
    assert not path.exists()
    path.touch()
    DefinitionDatabase(path).close_unused()
    assert path.exists()
    database = DefinitionDatabase(path)
    assert database.load().queues == []
    assert not database.is_blank
    database.close()
    assert not DefinitionDatabase(path).is_blank


def test_a_log_without_its_database_is_kept(tmp_path: Path) -> None:
    """SQLite would delete the log of a database that is empty."""
    (tmp_path / "definitions.sqlite").touch()
    (tmp_path / "definitions.sqlite-wal").write_bytes(b"precious")
    with pytest.raises(StorageError, match="its write-ahead log is not"):
        DefinitionDatabase(tmp_path / "definitions.sqlite")
    assert (tmp_path / "definitions.sqlite-wal").read_bytes() == b"precious"


def test_a_transaction_can_be_made_again(tmp_path: Path) -> None:
    """A follower that copies the definitions makes some transactions twice: all numbers are as at the leader."""
    database, _ = _store(tmp_path)
    store = SqliteDefinitions(database, Catalogue(1, 0))
    _put_all(store)
    statements = store.take()
    database.apply(statements)
    once = (database.marks(lambda: 1), database.load())
    database.apply(statements)
    assert (database.marks(lambda: 1), database.load()) == once
    database.close()
