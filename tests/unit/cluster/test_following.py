"""A follower while it makes operations: its leader must hear that it is there, however long that takes."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import msgpack

from flintmq.cluster import wire
from flintmq.cluster.credentials import Credentials
from flintmq.cluster.following import Following
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.ports import Link
from flintmq.cluster.state import NodeState
from flintmq.cluster.wire import Chunk, End, Fetch, Welcome
from flintmq.storage.replication import operation
from flintmq.storage.replication.log import OperationLog

COUNT = 1000


class Leader(Link):
    """The connection to a leader. `acknowledged` are the numbers that it hears."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        assert kind == wire.ACKNOWLEDGE
        self.acknowledged.append(wire.read(memoryview(b"".join(parts)), int))

    def receive(self) -> tuple[int, memoryview]:
        raise AssertionError

    def close(self) -> None:
        pass


@pytest.fixture
def following(tmp_path: Path) -> Following:
    directory = RealDirectory(tmp_path)
    machine = RealMachine(socket.socket(), 1.0, Credentials("c"))
    state = NodeState(directory.disk, tmp_path, "c", "b")
    made = Following(machine, directory, "c", state, OperationLog())
    made._replica.run(operation.encode(operation.MAKE_DIRECTORY, "journal"))
    made._replica.run(operation.encode(operation.CREATE, "journal/1.journal"))
    return made


def operations(*, syncs: bool, size: int = 10) -> memoryview:
    """Writes, each of which may be followed by a sync."""
    found = []
    for number in range(COUNT):
        if syncs and number % 2:
            found.append(operation.encode(operation.SYNC, "journal/1.journal"))
        else:
            found.append(operation.encode(operation.WRITE, "journal/1.journal", number * size, [bytes(size)]))
    return memoryview(b"".join(wire.pack_operations(1, found)))


def test_many_operations_of_one_message(following: Following) -> None:
    """What is durable is acknowledged before all of them are made."""
    leader = Leader()
    following._make(leader, operations(syncs=True))
    assert len(leader.acknowledged) > 10
    assert leader.acknowledged == sorted(leader.acknowledged)
    assert leader.acknowledged[-1] == COUNT


def test_operations_that_are_repeated_over_a_copy(following: Following, tmp_path: Path) -> None:
    """Nothing of them is acknowledged before the copy is whole, but the leader hears something."""
    leader = Leader()
    following._replica.is_copying = True
    following._make(leader, operations(syncs=True))
    assert len(leader.acknowledged) > 10
    assert set(leader.acknowledged) == {0}
    following._whole_at = COUNT
    following._sync(leader)
    assert leader.acknowledged[-1] == COUNT
    assert following._state.is_whole


def test_a_copy_is_synced_in_parts(following: Following) -> None:
    """One sync of everything at the end would be silent for too long."""
    leader = Leader()
    following._replica.is_copying = True
    following._make(leader, operations(syncs=False, size=20_000))
    assert len(leader.acknowledged) > COUNT // 64
    assert following._unsynced < 16 * 1024 * 1024


class Files(Link):
    """The connection to a leader that has files in many directories. `sent` are the kinds that it hears."""

    def __init__(self, names: list[str]) -> None:
        self._answers: dict[int, tuple[int, bytes]] = {
            wire.LIST: (wire.FILES, msgpack.encode(names)),
            wire.FETCH: (wire.END, msgpack.encode(End("", 0))),
            wire.DEFINITIONS: (wire.DEFINITIONS, b""),
        }
        self.sent: list[int] = []

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        self.sent.append(kind)

    def receive(self) -> tuple[int, memoryview]:
        kind, body = self._answers[next(kind for kind in reversed(self.sent) if kind != wire.ALIVE)]
        return kind, memoryview(body)

    def close(self) -> None:
        pass


def test_many_directories(following: Following) -> None:
    """Each of them is synced, which may take seconds in all: the leader hears something meanwhile."""
    names = [f"streams/{number:03}/0.log" for number in range(100)]
    leader = Files(names)
    following._state.has_joined = True
    following._copy(leader, Welcome(wire.PROTOCOL, "a", 1, 7, must_copy=True))
    assert following._directory.names() == names
    behind = leader.sent[leader.sent.index(wire.DEFINITIONS) + 1 :]
    assert behind.count(wire.ALIVE) >= len(names)


class CopiedLeader(Link):
    """The connection to a leader that answers a fetch with a file. `compared` are the digests that it got."""

    def __init__(self, name: str, data: bytes) -> None:
        self.compared: list[bytes] = []
        chunk, end = Chunk(name, 0, memoryview(data)), End(name, len(data))
        self._answers = [(wire.CHUNK, msgpack.encode(chunk)), (wire.END, msgpack.encode(end))]

    def send_parts(self, kind: int, parts: Sequence[bytes | memoryview]) -> None:
        assert kind == wire.FETCH
        self.compared += wire.read(memoryview(b"".join(parts)), Fetch).digests

    def receive(self) -> tuple[int, memoryview]:
        kind, body = self._answers.pop(0)
        return kind, memoryview(body)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_file_is_copied_while_a_backup_reads_it(following: Following, tmp_path: Path, *, is_linked: bool) -> None:
    """What a backup has linked stays as it was: the leader sends the whole file. Of others, it sends what differs."""
    path = tmp_path / "journal" / "1.journal"
    path.write_bytes(b"what was there")
    linked = tmp_path / "linked"
    if is_linked:
        linked.hardlink_to(path)
    leader = CopiedLeader("journal/1.journal", b"a copy")
    following._fetch(leader, "journal/1.journal")
    assert path.read_bytes() == b"a copy"
    assert bool(leader.compared) is not is_linked
    if is_linked:
        assert linked.read_bytes() == b"what was there"
