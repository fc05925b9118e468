"""Definitions that are lost are made anew from what journal and streams say of them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.base.errors import StorageError
from flintmq.base.values import Timestamp
from flintmq.broker.message import Entry
from flintmq.broker.ports import (
    BindingRecord,
    Definitions,
    ExchangeRecord,
    LeaseRecord,
    QueueRecord,
    StageRecord,
    TerminusRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.storage.block import HEADER_BYTES
from flintmq.storage.node import NodeStorage
from flintmq.storage.rebuild.rebuild import Rebuilt, rebuild
from tests.unit.storage.nodes import CODECS, OpenNode, message, segments

ORDERS = QueueRecord(1, "v", "orders", False, {"x-max-length": 5, "x-bytes": b"\x00", "x-when": Timestamp(5)})
LOG = QueueRecord(2, "v", "log", False, {"x-queue-type": "stream"})
BASE = "definitions.sqlite"


def _filled(path: Path, segment: int = 64 * 1024) -> OpenNode:
    """A queue with a message, a stream with a record, and whatever else has an id."""
    node = OpenNode(path, (1, 7), segment=segment)
    node.storage.definitions.load()
    store = node.storage.definitions
    store.put_vhost(VHostRecord("v", "strict", tags=("a",)))
    store.put_user(UserRecord("u", "hash"))
    store.put_exchange(ExchangeRecord("v", "ex", "topic"))
    store.put_queue(ORDERS)
    store.put_queue(LOG)
    store.put_binding(BindingRecord("v", "ex", "orders", "#"))
    store.put_lease(LeaseRecord(3, "v", 1, "reader", 5_000))
    store.put_terminus(TerminusRecord(4, "v", "u", "c", "l", "source", 2, "never", 0, b"\x80", 1))
    store.put_stage(StageRecord(5, "v", "writer", "u"))
    store.put_queue(QueueRecord(6, "v", "deleted"))
    node.storage.open_stream(2).append(message(b"record"))
    node.publish(b"message", 1)
    node.sync()
    store.delete_queue("v", "deleted")
    node.sync()
    return node


def _rebuilt(path: Path) -> Rebuilt:
    return rebuild(path, lambda _: None)


def _start(path: Path) -> tuple[Definitions, list[bytes]]:
    """The definitions and the bodies on queue 1 that a start finds."""
    storage = NodeStorage(path, CODECS, lambda: None)
    try:
        definitions = storage.definitions.load()
        found = storage.recover({1}, set())
        return definitions, [entry.message.body for _, entries in found for entry in entries]
    finally:
        storage.close()


def _lose(path: Path) -> None:
    for file in path.glob(f"{BASE}*"):
        file.unlink()


# The smaller one is the smallest of which all definitions are less than a quarter.
@pytest.mark.parametrize("segment", [64 * 1024, 8_000])
def test_what_the_journal_says_comes_back(tmp_path: Path, segment: int) -> None:
    """Every object that messages belong to is rebuilt with id, name and arguments, also after segments were removed."""
    node = _filled(tmp_path, segment)
    for _ in range(20):
        entries = [node.publish(bytes(200), 1)[0] for _ in range(10)]
        node.sync()
        for entry in entries:
            node.storage.journal.settle(1, entry)
        node.sync()
    node.close()
    _lose(tmp_path)
    rebuilt = _rebuilt(tmp_path)
    assert (rebuilt.unnamed, rebuilt.kept_in, rebuilt.had_base) == ([], None, False)
    definitions, bodies = _start(tmp_path)
    assert bodies == [b"message"]
    assert definitions.vhosts == [VHostRecord("v", "strict", tags=("a",))]
    assert definitions.exchanges == [ExchangeRecord("v", "ex", "topic")]
    assert definitions.queues == [ORDERS, LOG]
    assert definitions.leases == [LeaseRecord(3, "v", 1, "reader", 5_000)]
    assert definitions.termini == [TerminusRecord(4, "v", "u", "c", "l", "source", 2, "never", 0, b"\x80", 1)]
    assert definitions.stages == [StageRecord(5, "v", "writer", "u")]
    assert definitions.next_queue_id >= 6
    assert (definitions.users, definitions.bindings) == ([], [])


def test_old_definitions_are_brought_up_to_date(tmp_path: Path) -> None:
    """A copy that is too old is refused; what only it has stays, what is newer comes in, what was deleted goes."""
    node = _filled(tmp_path)
    node.storage.definitions.put_queue(QueueRecord(6, "v", "gone soon"))
    node.sync()
    node.close()
    shutil.copy(tmp_path / BASE, tmp_path / "old")
    node = OpenNode(tmp_path, (1, 7))
    node.storage.definitions.load()
    node.storage.definitions.put_exchange(ExchangeRecord("v", "new", "fanout"))
    node.storage.definitions.delete_queue("v", "gone soon")
    node.sync()
    node.close()
    shutil.copy(tmp_path / "old", tmp_path / BASE)
    with pytest.raises(StorageError, match="is older than the messages"):
        OpenNode(tmp_path)
    rebuilt = _rebuilt(tmp_path)
    assert rebuilt.had_base
    assert rebuilt.kept_in is not None
    assert (rebuilt.kept_in / BASE).read_bytes() == (tmp_path / "old").read_bytes()
    definitions, bodies = _start(tmp_path)
    assert bodies == [b"message"]
    assert [queue.name for queue in definitions.queues] == ["orders", "log"]
    assert [exchange.name for exchange in definitions.exchanges] == ["ex", "new"]
    assert [user.name for user in definitions.users] == ["u"]
    assert definitions.bindings == [BindingRecord("v", "ex", "orders", "#")]


def test_a_change_that_has_no_id_counts(tmp_path: Path) -> None:
    """Definitions that lack only the newest binding are too old as well."""
    _filled(tmp_path).close()
    shutil.copy(tmp_path / BASE, tmp_path / "old")
    node = OpenNode(tmp_path)
    node.storage.definitions.put_binding(BindingRecord("v", "ex", "orders", "more"))
    node.sync()
    node.close()
    shutil.copy(tmp_path / "old", tmp_path / BASE)
    with pytest.raises(StorageError, match="is older than the messages"):
        OpenNode(tmp_path)


def test_definitions_of_another_broker_are_refused(tmp_path: Path) -> None:
    """However new they are: their ids are of other queues. They are not built on either."""
    _filled(tmp_path / "a").close()
    other = _filled(tmp_path / "b")
    for number in range(50, 60):
        other.storage.definitions.put_queue(QueueRecord(number, "v", f"other {number}"))
        other.sync()
    other.close()
    shutil.copy(tmp_path / "b" / BASE, tmp_path / "a" / BASE)
    with pytest.raises(StorageError, match="to those of another broker"):
        OpenNode(tmp_path / "a")
    assert not _rebuilt(tmp_path / "a").had_base
    definitions, bodies = _start(tmp_path / "a")
    assert bodies == [b"message"]
    assert definitions.queues == [ORDERS, LOG]


def test_definitions_that_are_right_are_left_alone(tmp_path: Path) -> None:
    """There is nothing to rebuild, be the broker stopped or killed."""
    node = _filled(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    node.close()
    for path in (tmp_path / "a", tmp_path / "b"):
        with pytest.raises(StorageError, match="no need"):
            _rebuilt(path)
        assert not list(path.glob("*rebuilt*"))
        assert _start(path)[1] == [b"message"]


def test_a_broker_that_runs_is_left_alone(tmp_path: Path) -> None:
    """The definitions of a running broker are not rebuilt."""
    node = _filled(tmp_path)
    with pytest.raises(StorageError, match="in use by another broker"):
        _rebuilt(tmp_path)
    node.close()


def test_a_stream_knows_its_queue(tmp_path: Path) -> None:
    """A stream's queue is rebuilt even without the journal."""
    _filled(tmp_path).close()
    _lose(tmp_path)
    shutil.rmtree(tmp_path / "journal")
    assert _rebuilt(tmp_path).unnamed == []
    assert _start(tmp_path)[0].queues == [LOG]


def test_a_stream_of_an_older_release_is_described_when_it_is_opened(tmp_path: Path) -> None:
    """Opening a stream of an older release stores its description, without a write to it."""
    _filled(tmp_path).close()
    (tmp_path / "streams" / "2" / "queue.json").unlink()
    storage = NodeStorage(tmp_path, CODECS, lambda: None)
    storage.definitions.load()
    storage.open_stream(2)
    storage.close()
    assert '"name":"log"' in (tmp_path / "streams" / "2" / "queue.json").read_text()


def test_queues_without_a_name_get_one(tmp_path: Path) -> None:
    """Messages of an undescribed queue get a queue named by its id; notes get none."""
    node = OpenNode(tmp_path, (1, 3))
    node.publish(b"message", 1)
    settled = node.publish(b"settled", 3)
    node.storage.journal.append(message(b"note of 1"), [-1], [Entry(message(b""), 1)])
    node.storage.open_stream(2).append(message(b"record"))
    node.sync()
    node.storage.journal.settle(3, settled[0])
    node.close()
    for path in segments(tmp_path):
        # As an older release had it.
        _forget_definitions(path)
    (tmp_path / "streams" / "2" / "queue.json").unlink(missing_ok=True)
    _lose(tmp_path)
    assert _rebuilt(tmp_path).unnamed == ["recovered-1", "recovered-2"]
    definitions, bodies = _start(tmp_path)
    assert bodies == [b"message"]
    unnamed = QueueRecord(1, "/", "recovered-1")
    assert definitions.queues == [
        unnamed,
        replace(unnamed, id=2, name="recovered-2", arguments={"x-queue-type": "stream"}),
    ]
    assert definitions.vhosts == [VHostRecord("/")]
    assert definitions.next_queue_id == 4


def _forget_definitions(path: Path) -> None:
    """Damage the first block of records, which is about them."""
    data = bytearray(path.read_bytes())
    at = data.find(data[32:36], HEADER_BYTES + 1)
    while at >= 0 and data[at + 12 : at + 14] != b"\x03\x06":
        at = data.find(data[32:36], at + 1)
    if at >= 0:
        data[at + 13] ^= 0xFF
        path.write_bytes(data)
