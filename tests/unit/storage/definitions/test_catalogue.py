"""The copy of the definitions in the journal."""

from flintmq.broker.ports import ExchangeRecord, LeaseRecord, QueueRecord, VHostRecord
from flintmq.storage.definitions.catalogue import Catalogue, decode_definitions
from flintmq.storage.journal.records import record_end


def _names(record: bytes) -> list[object]:
    return [entry["name"] for entry in decode_definitions(record, 0).entries]


def test_what_is_too_long_comes_in_turns() -> None:
    """No segment begins with more than it may; the ones after each other have all of it between them."""
    catalogue = Catalogue(5, 6)
    for number in range(10):
        catalogue.put_queue(QueueRecord(number, "/", f"q{number}"))
    size = len(catalogue.encode_all(1 << 20))
    parts = [catalogue.encode_all(size // 3) for _ in range(5)]
    assert all(len(part) < size // 2 for part in parts)
    assert {name for part in parts for name in _names(part)} == {f"q{number}" for number in range(10)}
    assert not any(decode_definitions(part, 0).is_whole for part in parts)


def test_snapshot() -> None:
    """A record is type, length, identity, generation, whether it has all, and JSON."""
    catalogue = Catalogue(5, 6)
    catalogue.put_vhost(VHostRecord("/"))
    catalogue.put_queue(QueueRecord(1, "/", "q", False, {"x": b"\x00"}))
    catalogue.put_lease(LeaseRecord(2, "/", 1, "l"))
    catalogue.encode_changes()
    catalogue.delete_queue("/", "q")
    record = catalogue.encode_changes()
    assert record_end(record, 0) == len(record)
    text = b'[{"kind":"queue","id":1,"gone":true},{"kind":"lease","id":2,"gone":true}]'
    assert record == b"\x06" + len(text).to_bytes(4) + bytes(7) + b"\x05" + bytes(7) + b"\x08\x00" + text
    assert _names(catalogue.encode_all(1 << 20)) == ["/"]
    catalogue.delete_vhost("/")
    assert catalogue.encode_all(1 << 20)[21:] == b"\x01[]"


def test_a_virtual_host_goes_with_all_that_it_has() -> None:
    """Its exchanges, queues and leases are forgotten, those of others stay, and the size is that of the rest."""
    catalogue, rest = Catalogue(5, 6), Catalogue(5, 6)
    for number, (name, kept) in enumerate([("a", False), ("b", True)]):
        for each in [catalogue, *([rest] if kept else [])]:
            each.put_vhost(VHostRecord(name))
            each.put_exchange(ExchangeRecord(name, "e", "topic", False, False, {}))
            each.put_queue(QueueRecord(10 + number, name, "q", False, {}))
            each.put_lease(LeaseRecord(20 + number, name, 10 + number, "l"))
    catalogue.delete_vhost("a")
    assert catalogue.encode_all(1 << 20) == rest.encode_all(1 << 20)
    assert catalogue._size == rest._size
    catalogue.encode_changes()
    catalogue.delete_queue("a", "q")
    assert catalogue.encode_changes()[22:] == b"[]"
    catalogue.delete_queue("b", "q")
    assert b'{"kind":"lease","id":21,"gone":true}' in catalogue.encode_changes()
