"""Followers of a leader's storage over real sockets: they copy, follow, and can go on as the leader."""

import queue
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import flintmq
from flintmq.base.errors import FlintError
from flintmq.broker.ports import QueueRecord
from flintmq.cluster import wire
from flintmq.cluster.credentials import Credentials
from flintmq.cluster.following import Following
from flintmq.cluster.leading import Followers, History
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.ports import Link, LinkError
from flintmq.cluster.state import NodeState
from flintmq.cluster.wire import Fetch, Hello
from flintmq.storage.replication.disk import logs_statements
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.replication.operation import Buffer
from tests.unit.storage.nodes import OpenNode
from tests.waiting import WAIT_SECONDS, wait_until

SILENCE_SECONDS = 5.0
CREDENTIALS = Credentials("c")


class LeadingNode:
    """A leader: its storage, and a listening socket for followers."""

    def __init__(
        self, path: Path, term: int = 1, previous: int = 0, log: OperationLog | None = None, required: str = ""
    ) -> None:
        self.log = log or OperationLog()
        self.log.begin(term)
        self.log.require(frozenset(required))
        history = History(term, previous, self.log.newest)
        bound = socket.create_server(("127.0.0.1", 0))
        self.machine = RealMachine(bound, SILENCE_SECONDS, CREDENTIALS)
        self.followers = Followers(self.machine, RealDirectory(path), "c", path.name, history, self.log, lambda: None)
        self.log.on_append = self.followers.wake
        self.address = f"127.0.0.1:{bound.getsockname()[1]}"
        self.node = OpenNode(path, segment=65536, database=logs_statements(self.log), log=self.log)
        self.machine.serve(self.followers.serve)

    def await_followers(self, *nodes: str) -> None:
        deadline = time.monotonic() + 30
        while not self.followers.caught_up() >= set(nodes):
            assert time.monotonic() < deadline, "a follower does not catch up"
            time.sleep(0.01)

    def close(self) -> None:
        self.machine.close()
        self.followers.close()
        self.node.close()


def client_machine() -> RealMachine:
    """A machine that only connects to others."""
    return RealMachine(socket.socket(), SILENCE_SECONDS, CREDENTIALS)


class FollowingNode:
    """A follower in a thread of its own; `error` says why it ended."""

    def __init__(self, path: Path, log: OperationLog | None = None, state: NodeState | None = None) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        self.log = log or OperationLog()
        directory = RealDirectory(path)
        self.state = state or NodeState(directory.disk, path, "c", path.name)
        self.error: FlintError | None = None
        self._following = Following(client_machine(), directory, "c", self.state, self.log)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def follow(self, address: str, term: int = 1) -> None:
        self._target = (address, term)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._following.run(*self._target)
        except FlintError as error:
            self.error = error

    def stop(self) -> None:
        self._following.close()
        self._thread.join(30)
        assert not self._thread.is_alive()


def publish(leading: LeadingNode, *numbers: int) -> None:
    for number in numbers:
        leading.node.publish(b"x" * 1000 + str(number).encode())
        leading.node.storage.commit()


def bodies(path: Path) -> list[int]:
    """The numbers of the messages that a broker finds in a directory."""
    node = OpenNode(path, segment=65536)
    found = [int(body[1000:]) for body in node.bodies()]
    node.close()
    return found


def test_a_follower_joins_under_load(tmp_path: Path) -> None:
    """It copies while messages are published; from then on, what is durable is on its disk."""
    leading = LeadingNode(tmp_path / "a")
    publish(leading, *range(200))
    leading.node.sync()
    follower = FollowingNode(tmp_path / "b")
    stops = threading.Event()
    count = 200

    follower.follow(leading.address)
    while not leading.followers.caught_up():
        publish(leading, count)
        count += 1
        time.sleep(0.001)
    leading.log.require(frozenset({"b"}))
    publish(leading, *range(count, count + 100))
    leading.node.sync()
    follower.stop()
    stops.set()
    assert bodies(tmp_path / "b") == list(range(count + 100))
    leading.log.require(frozenset())
    leading.close()


def test_copied_definitions_need_not_be_changed(tmp_path: Path) -> None:
    """They are in the journal mode of a broker: to change that, a new leader needs four syncs, and clients wait."""
    leading = LeadingNode(tmp_path / "a")
    leading.node.storage.definitions.put_queue(QueueRecord(1, "/", "q"))
    leading.node.sync()
    (tmp_path / "b").mkdir()
    directory = RealDirectory(tmp_path / "b")
    directory.put_definitions(memoryview(leading.followers.directory.copy_definitions()))
    leading.close()
    with closing(sqlite3.connect(tmp_path / "b" / "definitions.sqlite")) as copy:
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with closing(directory.open_definitions()) as definitions:
        assert [each.name for each in definitions.load().queues] == ["q"]


def test_nothing_is_durable_without_a_required_follower(tmp_path: Path) -> None:
    """A batch is durable when the follower has synced it, and not before."""
    leading = LeadingNode(tmp_path / "a")
    follower = FollowingNode(tmp_path / "b")
    follower.follow(leading.address)
    leading.await_followers("b")
    leading.log.require(frozenset({"b"}))
    publish(leading, 1)
    leading.node.sync()
    follower.stop()
    publish(leading, 2)
    number = leading.node.storage.commit()
    time.sleep(0.2)
    assert leading.node.storage.durable_batch < number
    again = FollowingNode(tmp_path / "b", follower.log, follower.state)
    again.follow(leading.address)
    leading.node.wait_for(number)
    again.stop()
    assert bodies(tmp_path / "b") == [1, 2]
    leading.log.require(frozenset())
    leading.close()


def test_another_leader_takes_over(tmp_path: Path) -> None:
    """A follower that has everything leads; the other one goes on with it, and the old leader copies what differs."""
    leading = LeadingNode(tmp_path / "a")
    followers = [FollowingNode(tmp_path / name) for name in ("b", "c")]
    for follower in followers:
        follower.follow(leading.address)
    leading.await_followers("b", "c")
    leading.log.require(frozenset({"b", "c"}))
    publish(leading, *range(50))
    leading.node.sync()
    # What is logged behind the last sync has come, too: otherwise one of them could have more than the other.
    wait_until(lambda: {follower.log.newest for follower in followers} == {leading.log.newest})
    for follower in followers:
        follower.stop()
    # The old leader does not know that it is none any more. Nobody confirms what it takes.
    publish(leading, 999)
    leading.log.require(frozenset())
    leading.close()
    b, c = followers
    new = LeadingNode(tmp_path / "b", 2, 1, b.log, "c")
    c = FollowingNode(tmp_path / "c", c.log, c.state)
    before = c.log.newest
    c.follow(new.address, 2)
    new.await_followers("c")
    # After a copy, the log would have nothing of what was before.
    assert c.log.after(before - 1, 1)
    new.log.require(frozenset({"c"}))
    publish(new, *range(50, 100))
    new.node.sync()
    old = NodeState(RealDirectory(tmp_path / "a").disk, tmp_path / "a", "c", "a")
    old.has_joined = True
    a = FollowingNode(tmp_path / "a", state=old)
    a.follow(new.address, 2)
    new.await_followers("a", "c")
    a.stop()
    c.stop()
    assert bodies(tmp_path / "c") == bodies(tmp_path / "a") == list(range(100))
    new.log.require(frozenset())
    new.close()


@pytest.mark.skipif(flintmq.compiled, reason="compiled code calls its own")
def test_a_copy_lets_publishers_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of a file is sent when what was logged before is confirmed, or when nothing is confirmed any more."""
    monkeypatch.setattr("flintmq.cluster.leading._TURN_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr("flintmq.cluster.leading.CHUNK_BYTES", 256)
    leading = LeadingNode(tmp_path / "a")
    publish(leading, 1)
    leading.node.sync()
    awaited: queue.Queue[Callable[[], None]] = queue.Queue()

    def sizes() -> list[int]:
        return [path.stat().st_size for path in (tmp_path / "b").glob("journal/*")]

    with monkeypatch.context() as patched:
        patched.setattr(leading.log, "when_confirmed", awaited.put)
        follower = FollowingNode(tmp_path / "b")
        follower.follow(leading.address)
        first = awaited.get(timeout=WAIT_SECONDS)
        assert not any(sizes())
        patched.setattr("flintmq.cluster.leading._TURN_SECONDS", 0.0)
        first()
        leading.await_followers("b")
        assert any(sizes())
        # Nothing was confirmed since: the copy has waited once more, and not for each chunk.
        assert awaited.qsize() == 1
    follower.stop()
    leading.close()


def test_data_of_a_broker_without_the_cluster_is_kept(tmp_path: Path) -> None:
    """A node that was a broker of its own does not replace its messages by those of the leader."""
    leading = LeadingNode(tmp_path / "a")
    alone = OpenNode(tmp_path / "b", segment=65536)
    alone.publish(b"x" * 1000 + b"7")
    alone.sync()
    alone.close()
    for _ in range(2):
        directory = RealDirectory(tmp_path / "b")
        state = NodeState(directory.disk, directory.root, "c", "b")
        following = Following(client_machine(), directory, "c", state, OperationLog())
        with pytest.raises(FlintError, match="data of a broker without this cluster"):
            following.run(leading.address, 1)
    assert bodies(tmp_path / "b") == [7]
    leading.close()


def test_a_copy_that_lacks_a_file_begins_again(tmp_path: Path) -> None:
    """A file that was renamed between the list and its copy would be written to from the middle."""
    directory = RealDirectory(tmp_path)
    state = NodeState(directory.disk, tmp_path, "c", "b")
    state.is_whole = False
    following = Following(client_machine(), directory, "c", state, OperationLog())
    following._replica.missing.add("journal/2.journal")
    with pytest.raises(FlintError, match="begins again"):
        following._become_whole()
    assert not state.is_whole


def test_a_leader_whose_disk_stands_still(tmp_path: Path) -> None:
    """A follower that has to copy the files is refused, and the leader does not wait for its disk any longer."""
    leading = LeadingNode(tmp_path / "a")
    publish(leading, *range(10))
    leading.node.sync()
    unmade = leading.log.skip(is_made=False)
    follower = FollowingNode(tmp_path / "b")

    follower.follow(leading.address)

    wait_until(lambda: follower.error is not None)
    assert "its disk stands still" in str(follower.error)
    wait_until(lambda: not leading.followers.copying())
    leading.log.made(unmade)
    again = FollowingNode(tmp_path / "b")
    again.follow(leading.address)
    leading.await_followers("b")
    again.stop()
    leading.close()
    assert bodies(tmp_path / "b") == list(range(10))


@pytest.mark.parametrize(
    ("cluster", "node", "reason"),
    [("other", "b", "this is cluster 'c'"), ("c", "a", "this node is 'a', too")],
)
def test_who_is_refused(tmp_path: Path, cluster: str, node: str, reason: str) -> None:
    """The follower is told why, and what to do."""
    leading = LeadingNode(tmp_path / "a")
    (tmp_path / "x").mkdir()
    directory = RealDirectory(tmp_path / "x")
    state = NodeState(directory.disk, directory.root, cluster, node)
    following = Following(client_machine(), directory, cluster, state, OperationLog())
    with pytest.raises(FlintError, match=reason):
        following.run(leading.address, 1)
    leading.close()


def copying_link(leading: LeadingNode) -> Link:
    """A node that begins to copy files."""
    link = client_machine().connect(leading.address, SILENCE_SECONDS)
    link.authenticate()
    link.send(wire.HELLO, Hello(wire.PROTOCOL, "c", "b", "1", 0, 0, 0))
    assert link.receive()[0] == wire.WELCOME
    return link


@pytest.mark.parametrize("name", ["{root}/secret", "journal/../../secret", "../secret", ".cluster.json", "lock", ""])
def test_other_files_are_not_sent(tmp_path: Path, name: str) -> None:
    """A follower gets the files of the storage, and no others of the machine."""
    leading = LeadingNode(tmp_path / "a")
    (tmp_path / "secret").write_text("s")
    link = copying_link(leading)
    link.send(wire.FETCH, Fetch(name.format(root=tmp_path), []))
    with pytest.raises(LinkError, match="closed"):
        link.receive()
    link.close()
    leading.close()


def test_a_copy_for_which_too_much_is_kept_begins_again(tmp_path: Path) -> None:
    """The second one is shorter, and has to be waited for: otherwise the node might never be in sync."""
    leading = LeadingNode(tmp_path / "a")
    link = copying_link(leading)
    leading.followers.spare_publishers()
    with pytest.raises(LinkError, match="closed"):
        link.receive()
    wait_until(lambda: not leading.followers.copying())
    link = copying_link(leading)
    leading.followers.spare_publishers()
    link.send(wire.LIST)
    assert link.receive()[0] == wire.FILES
    link.close()
    leading.close()


def test_who_is_closed_while_it_connects_does_not_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leading = LeadingNode(tmp_path / "a")
    follower = FollowingNode(tmp_path / "b")
    connect = RealMachine.connect

    def close_first(machine: RealMachine, address: str, silence_seconds: float) -> Link:
        follower._following.close()
        return connect(machine, address, silence_seconds)

    monkeypatch.setattr(RealMachine, "connect", close_first)
    follower.follow(leading.address)
    wait_until(lambda: follower.error is not None)
    assert not leading.followers.caught_up()
    leading.close()


def test_a_leader_whose_disk_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower loses its connection and tries again; no thread of the leader ends with an error."""
    leading = LeadingNode(tmp_path / "a")
    publish(leading, 1)
    leading.node.sync()
    ended: list[object] = []
    monkeypatch.setattr(threading, "excepthook", ended.append)

    def fail() -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(leading.followers.directory, "copy_definitions", fail)
        follower = FollowingNode(tmp_path / "b")
        follower.follow(leading.address)
        wait_until(lambda: follower.error is not None)
    again = FollowingNode(tmp_path / "b", follower.log, follower.state)
    again.follow(leading.address)
    leading.await_followers("b")
    again.stop()
    leading.close()
    assert not ended


@pytest.mark.skipif(flintmq.compiled, reason="compiled code calls its own")
def test_a_copy_is_whole_when_all_its_operations_were_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader goes on while it is copied. Before the follower has made all of that, it does not say it is whole."""
    monkeypatch.setattr("flintmq.cluster.leading.OPERATIONS_AT_ONCE", 1)
    leading = LeadingNode(tmp_path / "a")
    publish(leading, 1)
    leading.node.sync()
    directory = leading.followers.directory
    copy = directory.copy_definitions

    def copy_late() -> bytes:
        for number in range(2, 10):
            publish(leading, number)
            leading.node.sync()
        return copy()

    follower = FollowingNode(tmp_path / "b")
    append = follower.log.append

    def append_one(made: Buffer) -> None:
        append(made)
        follower._following.close()

    with monkeypatch.context() as broken:
        broken.setattr(directory, "copy_definitions", copy_late)
        broken.setattr(follower.log, "append", append_one)
        follower.follow(leading.address)
        wait_until(lambda: follower.error is not None)
    assert not follower.state.is_whole
    again = FollowingNode(tmp_path / "b", follower.log, follower.state)
    again.follow(leading.address)
    leading.await_followers("b")
    again.stop()
    assert again.state.is_whole
    assert bodies(tmp_path / "b") == list(range(1, 10))
    leading.close()


@pytest.mark.skipif(flintmq.compiled, reason="compiled code calls its own")
def test_after_an_error_of_the_disk_everything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system may show what it could not write: files that seem to be equal are written again, too."""
    leading = LeadingNode(tmp_path / "a")
    publish(leading, 1)
    leading.node.sync()
    follower = FollowingNode(tmp_path / "b")
    failed: list[OSError] = []
    original = follower._following.run

    def run(address: str, term: int) -> None:
        try:
            original(address, term)
        except OSError as error:
            failed.append(error)

    def fail(made: Buffer) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(follower._following, "run", run)
    follower.follow(leading.address)
    leading.await_followers("b")
    monkeypatch.setattr(follower._following._replica, "run", fail)
    publish(leading, 2)
    wait_until(lambda: bool(failed))
    directory = RealDirectory(tmp_path / "b")
    state = NodeState(directory.disk, directory.root, "c", "b")
    assert (state.is_whole, state.is_sound) == (True, False)
    asked: list[list[bytes]] = []

    def fetch(path: str, digests: list[bytes]) -> Fetch:
        asked.append(digests)
        return Fetch(path, digests)

    monkeypatch.setattr("flintmq.cluster.following.Fetch", fetch)
    again = FollowingNode(tmp_path / "b", state=state)
    again.follow(leading.address)
    leading.await_followers("b")
    again.stop()
    assert asked
    assert not any(asked)
    assert (state.is_whole, state.is_sound) == (True, True)
    assert bodies(tmp_path / "b") == [1, 2]
    leading.close()
