"""Entries that are packed come back as they were: from memory, and from the disk."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.errors import StorageError
from flintmq.broker.message import READY, Address, Entry, Message
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.storage.pages.spill import Spill, SpillRunner
from flintmq.storage.pages.store import PageStore
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.sim.disk import SimulatedDisk
from tests.unit.storage.disks import FaultyDisk

PROPERTIES = [
    encode_properties(Properties(delivery_mode=2)),
    encode_properties(Properties(priority=3, expiration="1000", headers={"n": "x"})),
    encode_properties(Properties()),
]
ADDRESSES = [Address("", "q"), Address("ex", "some.key"), Address("ex", "ü" * 100)]
FILE_BYTES = 4_096


class Later(SpillRunner):
    """Does what is to be done when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def close(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()


class Place:
    """A store with little memory, its disk, and what is to be written there."""

    def __init__(self, directory: Path, memory_max: int, disk: FaultyDisk | None = None) -> None:
        self.directory = directory
        self.disk = disk or FaultyDisk()
        self.later = Later()
        self.spill = Spill(self.disk, directory, self.later, FILE_BYTES)
        self.store = PageStore({CODEC_091.format: CODEC_091}, self.spill, memory_max)

    @property
    def files(self) -> list[str]:
        return self.disk.list_directory(self.directory)


def made(bodies: Sequence[bytes], first: int = 1) -> list[Entry]:
    """Entries that are like those of a durable queue with one publisher."""
    entries = []
    for number, body in enumerate(bodies):
        message = Message(ADDRESSES[0], CODEC_091, PROPERTIES[0], body, CODEC_091.options(PROPERTIES[0]), 1_700_000)
        entry = Entry(message, first + number)
        entry.segment = 1
        entry.slot = 10 + number
        entries.append(entry)
    return entries


def facts(entry: Entry) -> tuple[object, ...]:
    message = entry.message
    options = message.options
    return (
        (message.address.exchange, message.address.routing_key, message.codec, message.properties, message.body),
        (message.timestamp_ms, message.origin, options.persistent, options.priority, options.ttl_ms),
        (entry.seq, entry.position, entry.segment, entry.slot if entry.segment else None),
        (entry.expires_ms, entry.returns, entry.redelivered, entry.state),
    )


numbers = st.integers(0, 3) | st.integers(0, 2**62)
# Unix times in ms: up to the end of the calendar, and beyond.
times = st.integers(0, 3) | st.integers(0, 2**56)
entry_facts = st.tuples(
    st.tuples(st.sampled_from(ADDRESSES), st.sampled_from(PROPERTIES), st.binary(max_size=40), st.integers(0, 5000)),
    st.tuples(numbers, numbers, numbers, numbers, times),
    st.tuples(numbers, st.integers(0, 2**31 - 1) | st.just(0), st.booleans()),
)


@given(st.lists(entry_facts, max_size=20), st.booleans())
def test_anything_comes_back_as_it_was(drawn: list, spilled: bool) -> None:  # type: ignore[type-arg]
    """Every entry and message is unpacked exactly, whatever its neighbours are."""
    entries = []
    for (address, properties, body, padding), (seq, position, segment, slot, time), (expires, returns, again) in drawn:
        options = CODEC_091.options(properties)
        entry = Entry(Message(address, CODEC_091, properties, body + bytes(padding), options, time, seq % 7), seq)
        entry.position = position
        entry.segment = segment
        entry.slot = slot
        entry.expires_ms = expires
        entry.returns = returns
        entry.redelivered = again
        entries.append(entry)
    expected = [facts(entry) for entry in entries]
    disk = SimulatedDisk()
    later = Later()
    store = PageStore({CODEC_091.format: CODEC_091}, Spill(disk, Path("/pages"), later), 0 if spilled else 1 << 30)
    page = store.pack(entries)
    assert (page.count, page.body_bytes) == (len(entries), sum(len(entry.message.body) for entry in entries))
    assert page.expires_ms == min((entry.expires_ms for entry in entries if entry.expires_ms), default=0)
    assert [facts(entry) for entry in store.read(page)] == expected
    later.close()
    assert [facts(entry) for entry in store.read(page)] == expected
    ranges = store.ranges(page)
    seqs = [seq + more for seq, count in zip(*[iter(ranges.seqs)] * 2, strict=True) for more in range(count)]
    slots = [(n, at + i) for n, at, count in zip(*[iter(ranges.slots)] * 3, strict=True) for i in range(count)]
    assert seqs == [entry.seq for entry in entries if entry.segment]
    assert slots == [(entry.segment, entry.slot) for entry in entries if entry.segment]
    assert [facts(entry) for entry in store.unpack(page)] == expected
    assert page.is_gone
    assert store.memory_bytes == 0


def test_small_messages_take_little_memory(tmp_path: Path) -> None:
    """Neighbours that are alike cost three bytes each beside their bodies, and none if they came at the same time."""
    place = Place(tmp_path / "pages", 1 << 30)
    page = place.store.pack(made([bytes(16)] * 1000))
    assert place.store.memory_bytes < 1000 * 16 + 100
    place.store.drop(page)
    entries = made([bytes(16)] * 1000)
    for entry in entries[::2]:
        _dated(entry)
    place.store.pack(entries)
    assert place.store.memory_bytes < 1000 * (16 + 3) + 100


def _sized(entry: Entry, body: bytes) -> None:
    message = entry.message
    entry.message = Message(message.address, CODEC_091, message.properties, body, message.options, 1_700_000)


def _dated(entry: Entry) -> None:
    message = entry.message
    entry.message = Message(message.address, CODEC_091, message.properties, message.body, message.options, 1_700_001)


def _moved(entry: Entry) -> None:
    entry.segment, entry.slot = 2, 0


@pytest.mark.parametrize(
    "change",
    [
        _dated,
        _moved,
        lambda entry: _sized(entry, b""),
        lambda entry: _sized(entry, b"x" * 130),
        lambda entry: _sized(entry, b"x" * 3000),
        lambda entry: setattr(entry, "redelivered", True),
        lambda entry: setattr(entry, "returns", 1),
        lambda entry: setattr(entry, "expires_ms", 5),
        lambda entry: setattr(entry, "position", 3),
        lambda entry: setattr(entry, "seq", 50),
        lambda entry: setattr(entry, "slot", 50),
        lambda entry: setattr(entry, "segment", 0),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2, 6, 7])
def test_repetition_ends_where_something_is_different(change: Callable[[Entry], None], at: int) -> None:
    """One entry among others that are alike is itself, and so are those behind it."""
    entries = made([b"%02d" % number for number in range(8)])
    change(entries[at])
    expected = [facts(entry) for entry in entries]
    store = Place(Path("/pages"), 1 << 30).store
    assert [facts(entry) for entry in store.unpack(store.pack(entries))] == expected


def test_repetition_of_any_length() -> None:
    """A page may have more entries that are alike than one repetition can count."""
    entries = made([b"%06d" % number for number in range(140_000)])
    store = Place(Path("/pages"), 1 << 30).store
    page = store.pack(entries)
    assert store.memory_bytes < 140_000 * 6 + 100
    assert list(map(facts, store.unpack(page))) == list(map(facts, entries))


def test_what_exceeds_the_budget_is_on_the_disk(tmp_path: Path) -> None:
    """Memory holds what the budget allows, the disk the rest; and nothing is there once it is read, or at the end."""
    place = Place(tmp_path / "pages", 3_000)
    pages = [place.store.pack(made([b"%04d" % number, bytes(900)], number)) for number in range(20)]
    assert place.store.memory_bytes <= 3_000
    place.later.close()
    assert len(place.files) > 2
    for number, page in enumerate(pages):
        assert place.store.unpack(page)[0].message.body == b"%04d" % number
    place.later.close()
    assert len(place.files) == 1
    assert place.store.memory_bytes == 0
    place.spill.close()
    assert place.files == []


def test_what_waits_for_the_disk_can_be_read_and_dropped(tmp_path: Path) -> None:
    """A page is there before it is written, while it is, and after."""
    place = Place(tmp_path / "pages", 0)
    first, second, third = (place.store.pack(made([b"a", b"b"], number)) for number in (1, 3, 5))
    assert [entry.seq for entry in place.store.unpack(first)] == [1, 2]
    place.store.repack(second, place.store.read(second)[1:])
    place.store.drop(third)
    place.later.close()
    assert [entry.seq for entry in place.store.unpack(second)] == [4]


def test_a_disk_that_refuses_leaves_pages_in_memory(tmp_path: Path) -> None:
    """Pages that cannot be written stay in memory, and the disk is tried again later."""
    place = Place(tmp_path / "pages", 0, FaultyDisk(0, errno.ENOSPC))
    page = place.store.pack(made([b"a"]))
    place.later.close()
    assert "No space left" in place.spill.trouble
    assert [entry.message.body for entry in place.store.read(page)] == [b"a"]
    assert place.store.memory_bytes == 0
    place.disk.fail_at = None
    others = [place.store.pack(made([b"b"])) for _ in range(300)]
    place.later.close()
    assert place.spill.trouble == ""
    assert len(place.files) == 1
    assert place.store.memory_bytes > 0
    for each in [page, *others]:
        place.store.drop(each)
    assert place.store.memory_bytes == 0


def test_bytes_are_put_out_whatever_room_there_is(tmp_path: Path) -> None:
    """Bytes are paged out whatever the memory limit, and read back once; afterwards nothing of them is left."""
    place = Place(tmp_path / "pages", 1_000_000)
    pages = [place.store.put_out(bytes([number]) * FILE_BYTES) for number in range(3)]
    # Also while they are on their way.
    assert place.store.bring_back(pages[0]) == bytes(FILE_BYTES)
    place.later.close()
    assert place.store.memory_bytes == 0
    assert len(place.files) == 2
    assert place.store.bring_back(pages[1]) == b"\1" * FILE_BYTES
    place.later.close()
    assert len(place.files) == 1
    (name,) = place.files
    (place.directory / name).write_bytes(b"something else")
    with pytest.raises(StorageError, match="damaged"):
        place.store.bring_back(pages[2])
    place.store.put_out(bytes(FILE_BYTES))
    place.later.close()
    assert len(place.files) == 1


def test_a_full_disk_keeps_bytes_in_memory(tmp_path: Path) -> None:
    """Bytes that cannot be written are read back from memory."""
    place = Place(tmp_path / "pages", 0, FaultyDisk(0, errno.ENOSPC))
    page, later = place.store.put_out(b"a"), place.store.put_out(b"b")
    place.later.close()
    after = place.store.put_out(b"c")
    assert place.store.memory_bytes == 1
    assert [place.store.bring_back(each) for each in (page, later, after)] == [b"a", b"b", b"c"]
    assert place.store.memory_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_byte_is_noticed(tmp_path: Path, seed: int) -> None:
    """A page is read back unchanged, or an error says what to do."""
    chance = Random(seed)  # noqa: S311 - a repeatable test
    place = Place(tmp_path / "pages", 0)
    page = place.store.pack(made([b"something"] * 50))
    place.later.close()
    path = place.directory / place.files[0]
    content = bytearray(path.read_bytes())
    if seed == 0:
        del content[-1:]
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    with pytest.raises(StorageError, match="restart the broker"):
        place.store.read(page)


def test_entries_of_a_page_are_ready(tmp_path: Path) -> None:
    """Unpacked entries are ready, whatever the state of the packed objects was."""
    place = Place(tmp_path / "pages", 0)
    assert all(entry.state == READY for entry in place.store.unpack(place.store.pack(made([b"a"] * 3))))
