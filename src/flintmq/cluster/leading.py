"""A leader's side of replication: followers connect, copy the files that differ, and get operations from then on."""

import hashlib
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import StorageError
from flintmq.cluster import wire
from flintmq.cluster.ports import Directory, Link, LinkError, Machine, Silent
from flintmq.cluster.wire import Chunk, End, Fetch, Hello, Welcome
from flintmq.server import logs
from flintmq.storage.replication.disk import path_of_name
from flintmq.storage.replication.log import OperationLog

log = logs.get_logger()

# The unit in which files are compared and sent.
CHUNK_BYTES: Final = 1024 * 1024
DIGEST_BYTES: Final = 16
# The operations of one message at most.
OPERATIONS_AT_ONCE: Final = 1_024
# After so long without an operation, the follower hears that the leader is there.
ALIVE_SECONDS: Final = 0.4
# Whoever compares files says that it is there after so many equal chunks, which it reads from a disk that may be slow.
ALIVE_CHUNKS: Final = 4
# A follower that has to copy waits so long for what comes before that. Together with the time that it may wait until
# this node leads, that is shorter than the silence after which it would doubt its leader.
_OUT_OF_SYNC_SECONDS: Final = 0.8
_MADE_SECONDS: Final = 0.3
_LOOK_SECONDS: Final = 0.02
# A copy lets publishers go first after so many chunks.
_CHUNKS_OF_A_TURN: Final = 4
# It waits at most so long until something is confirmed: the follower must hear something within 1.5 s.
_TURN_SECONDS: Final = 1.0
# A follower that wants to relay clients waits so long until the leader has recovered.
_RECOVERY_SECONDS: Final = 1.0


def digest(chunk: bytes) -> bytes:
    return hashlib.sha256(chunk).digest()[:DIGEST_BYTES]


@final
class History:
    """The terms of a log: which operations a node of an earlier term has in common with this one.

    `previous_term` ended with operation `begins_after`; the present `term` began behind it.
    """

    def __init__(self, term: int, previous_term: int, begins_after: int) -> None:
        self.term = term
        self.previous_term = previous_term
        self.begins_after = begins_after

    def has(self, term: int, number: int) -> bool:
        """Whether the operation of another node is the one with the same number here."""
        if number <= 0:
            return False
        if term == self.term:
            return number > self.begins_after
        return term == self.previous_term and number <= self.begins_after


@final
class Followers:
    """Serves followers. `changed` is called, on any thread, when one comes, has caught up, or is gone."""

    def __init__(
        self,
        machine: Machine,
        directory: Directory,
        cluster: str,
        node: str,
        history: History,
        log: OperationLog,
        changed: Callable[[], None],
    ) -> None:
        self.machine = machine
        self.directory = directory
        self.node = node
        self.history = history
        self.log = log
        self.changed = changed
        # The nodes that the coordinator counts as in sync, as far as this node has heard.
        self.in_sync: frozenset[str] = frozenset()
        self._cluster = cluster
        self._links: dict[str, _FollowerLink] = {}
        # Nodes that were let go while they copied files.
        self._let_go: set[str] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        # The highest term that a follower has told of: if it is higher than this one, another leader was elected.
        self.seen_term = 0
        # Serves the clients that a follower relays over a connection; None while no clients may connect.
        self._relay: Callable[[socket.socket, str], None] | None = None
        self._may_relay = machine.event()

    def relay_to(self, serve: Callable[[socket.socket, str], None]) -> None:
        """From now on, `serve` gets the connections over which followers relay clients, with the followers' names."""
        self._relay = serve
        self._may_relay.set()

    def serve(self, link: Link) -> None:
        """Serve a connection until it ends. Blocks."""
        try:
            self._serve(link)
        except LinkError:
            pass
        except (OSError, sqlite3.Error) as error:
            # Whether this node may go on leading is decided by its storage and its lease.
            log.warning("a follower cannot copy the files", reason=str(error))
        finally:
            link.close()

    def _serve(self, link: Link) -> None:
        kind, body = link.receive()
        if kind not in (wire.HELLO, wire.RELAY):
            raise LinkError("a follower begins with HELLO or RELAY")
        hello: Hello = wire.read(body, Hello)
        refusal = self._refusal(hello)
        if refusal:
            link.send(wire.REFUSED, refusal)
            return
        if kind == wire.RELAY:
            self._begin_relay(link, hello)
            return
        follower = _FollowerLink(self, hello, link)
        with self._lock:
            if self._is_closed:
                return
            before = self._links.get(hello.node)
            self._links[hello.node] = follower
            # What it has acknowledged before it may have lost since.
            self.log.forget(self.history.term, hello.node)
        if before is not None:
            before.close()
        try:
            follower.run()
        finally:
            with self._lock:
                if self._links.get(hello.node) is follower:
                    del self._links[hello.node]
                    self.log.forget(self.history.term, hello.node)
            self.changed()

    def _refusal(self, hello: Hello) -> str:
        self.seen_term = max(self.seen_term, hello.seen_term)
        if hello.cluster != self._cluster:
            return f"this is cluster {self._cluster!r}, not {hello.cluster!r}: check cluster.name and cluster.etcd"
        if hello.node == self.node:
            return f"this node is {self.node!r}, too: give each node a cluster.node of its own"
        if hello.protocol < wire.PROTOCOL:
            return f"this leader is newer ({__version__}) than {hello.node} ({hello.version}): upgrade followers first"
        if hello.seen_term > self.history.term:
            self.changed()
            return f"term {hello.seen_term} has begun: this leader is of term {self.history.term}"
        return ""

    def _begin_relay(self, link: Link, hello: Hello) -> None:
        if hello.protocol != wire.PROTOCOL:
            link.send(wire.REFUSED, f"{__version__} cannot relay clients of {hello.version}: upgrade all nodes")
            return
        self._may_relay.wait(_RECOVERY_SECONDS)
        relay = self._relay
        if relay is None or self._is_closed:
            link.send(wire.REFUSED, "the leader does not accept clients yet")
        else:
            link.send(wire.WELCOME, Welcome(wire.PROTOCOL, self.node, self.history.term, 0, must_copy=False))
            relay(link.detach(), hello.node)

    def caught_up(self) -> frozenset[str]:
        """The followers that have copied everything and follow."""
        with self._lock:
            return frozenset(node for node, link in self._links.items() if link.has_caught_up)

    def heirs(self) -> frozenset[str]:
        """The followers that follow, and could be named when this node hands over."""
        with self._lock:
            return frozenset(node for node, link in self._links.items() if link.has_caught_up and link.inherits)

    def copying(self) -> frozenset[str]:
        """The followers that copy files, or wait for that."""
        with self._lock:
            return frozenset(node for node, link in self._links.items() if link.is_copying)

    def spare_publishers(self) -> None:
        """Let go of those that copy files, for which too much is kept. Each comes back, and copies what has changed
        since, which takes less time. So it is let go once only: publishers wait for its second copy.
        """
        with self._lock:
            copying = {node: link for node, link in self._links.items() if link.is_copying and node not in self._let_go}
            self._let_go.update(copying)
        for node, link in copying.items():
            log.warning("too much is published while a follower copies the files: it begins again", node=node)
            link.close()

    def wake(self) -> None:
        """Have new operations sent. For `on_append` of the log."""
        for link in list(self._links.values()):
            link.wake()

    def close(self, heir: str = "") -> None:
        """Serve no more followers. Those that are there are told the `heir`, if there is one: which node is to lead."""
        with self._lock:
            self._is_closed = True
            links = list(self._links.values())
        self._may_relay.set()
        for link in links:
            if heir:
                link.part(wire.HANDED_OVER, heir)
            else:
                link.close()


@final
class _FollowerLink:
    def __init__(self, followers: Followers, hello: Hello, link: Link) -> None:
        self.has_caught_up = False
        self.is_copying = False
        self.inherits = hello.inherits
        self._followers = followers
        self._hello = hello
        self._link = link
        self._log = followers.log
        self._woken = followers.machine.event()
        self._closed = followers.machine.event()
        # The last message to the follower: its kind and its body.
        self._parting: tuple[int, object] | None = None
        # Set when what was logged before a chunk of a copy is confirmed.
        self._is_confirmed = followers.machine.event()
        # What was confirmed when a copy has waited for more in vain. In a new term, nothing is confirmed yet.
        self._confirmed_before = 0
        self._chunks = 0
        # The follower has all that it copied once it has acknowledged this number.
        self._whole_at = 0

    def run(self) -> None:
        """Serve the follower until the connection ends. Raises LinkError."""
        hello, log, link, history = self._hello, self._log, self._link, self._followers.history
        number = hello.number
        self._whole_at = log.hold(hello.node)
        must_copy = not history.has(hello.term, number) or log.after(number, 1) is None
        if must_copy:
            self.is_copying = True
            self._followers.changed()
            self._wait_until_out_of_sync()
            if not self._wait_until_made():
                link.send(wire.REFUSED, "its disk stands still, and cannot be copied: this node tries again")
                return
        directory = self._followers.directory
        link.send(wire.WELCOME, Welcome(wire.PROTOCOL, self._followers.node, history.term, self._whole_at, must_copy))
        while True:
            kind, body = link.receive()
            if kind == wire.LIST:
                link.send(wire.FILES, directory.names())
            elif kind == wire.FETCH:
                self._send_file(wire.read(body, Fetch))
            elif kind == wire.DEFINITIONS:
                link.send_parts(wire.DEFINITIONS, [directory.copy_definitions()])
            elif kind == wire.FOLLOW:
                break
            elif kind != wire.ALIVE:
                raise LinkError(f"a follower sends a message of kind {kind} before it follows")
        number = wire.read(body, int)
        if must_copy:
            # What the copy may have in part comes again.
            self._whole_at = log.newest
            link.send(wire.COPIED, self._whole_at)
        wait_for_sending = self._followers.machine.start(lambda: self._send_operations(number))
        try:
            while True:
                kind, body = link.receive()
                if kind != wire.ACKNOWLEDGE:
                    raise LinkError(f"a follower sends a message of kind {kind} while it follows")
                self._acknowledged(wire.read(body, int))
        except Silent:
            self._drop()
            wait_for_sending()
            raise
        finally:
            self.close()
            wait_for_sending()

    def _drop(self) -> None:
        """Do without a follower of which nothing comes, and have it told so: it may hear this node still."""
        self.has_caught_up = False
        self.part(wire.UNHEARD)
        self._followers.changed()

    def part(self, kind: int, body: object = None) -> None:
        """Have this message sent, and the connection closed behind it."""
        self._parting = (kind, body)
        self._woken.set()

    def _wait_until_out_of_sync(self) -> None:
        """A node that copies files could not lead meanwhile, so it must not count as in sync. Raises LinkError."""
        if not self._wait_for(lambda: self._hello.node not in self._followers.in_sync, _OUT_OF_SYNC_SECONDS):
            raise LinkError("the coordinator has not taken down yet that this follower is out of sync")

    def _wait_until_made(self) -> bool:
        """What is logged and not made yet would be neither in the copy nor among the operations behind it. Returns
        False if the disk takes too long. Raises LinkError.
        """
        return self._wait_for(lambda: self._log.has_made(self._whole_at), _MADE_SECONDS)

    def _wait_for(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so. Returns False if it takes too long. Raises LinkError if the link is closed."""
        for _ in range(int(seconds / _LOOK_SECONDS)):
            if is_so():
                return True
            if self._closed.wait(_LOOK_SECONDS):
                raise LinkError("the connection was closed")
        return False

    def _acknowledged(self, number: int) -> None:
        self._log.acknowledge(self._followers.history.term, self._hello.node, number)
        if not self.has_caught_up and number >= self._whole_at:
            self.has_caught_up = True
            self.is_copying = False
            self._log.release(self._hello.node)
            self._followers.changed()

    def _send_file(self, fetch: Fetch) -> None:
        directory = self._followers.directory
        position = 0
        unsent = 0
        try:
            file = directory.disk.open(path_of_name(directory.root, fetch.path))
            with closing(file):
                while data := file.read_at(position, CHUNK_BYTES):
                    index = position // CHUNK_BYTES
                    if index >= len(fetch.digests) or digest(data) != fetch.digests[index]:
                        if self._chunks % _CHUNKS_OF_A_TURN == 0:
                            self._let_publishers_go_first()
                        self._chunks += 1
                        self._link.send(wire.CHUNK, Chunk(fetch.path, position, memoryview(data)))
                        unsent = 0
                    elif (unsent := unsent + 1) % ALIVE_CHUNKS == 0:
                        self._link.send(wire.ALIVE, 0)
                    position += len(data)
        except FileNotFoundError:
            position = -1
        except StorageError as error:
            raise LinkError(str(error)) from error
        self._link.send(wire.END, End(fetch.path, position))

    def _let_publishers_go_first(self) -> None:
        """Wait until what was logged by now is confirmed. So a copy that makes confirms slow becomes slow, too, whether
        it is the disk, the network or the processor for which they wait.

        While nothing is confirmed, the copy does not wait: the node that copies may be the one that is missing.
        """
        if self._log.confirmed == self._confirmed_before:
            return
        self._link.send(wire.ALIVE, 0)
        self._is_confirmed.clear()
        self._log.when_confirmed(self._is_confirmed.set)
        if not self._is_confirmed.wait(_TURN_SECONDS):
            self._confirmed_before = self._log.confirmed

    def _send_operations(self, number: int) -> None:
        """Send the operations behind this one as they come, until the connection ends."""
        log, link = self._log, self._link
        with suppress(LinkError):
            while not self._closed.is_set():
                self._woken.clear()
                if self._parting is not None:
                    link.send(*self._parting)
                    break
                operations = log.after(number, OPERATIONS_AT_ONCE)
                if operations is None:
                    # The follower was too slow: it has to copy the files again.
                    break
                if operations:
                    link.send_parts(wire.OPERATIONS, wire.pack_operations(number + 1, operations))
                    number += len(operations)
                elif not self._woken.wait(ALIVE_SECONDS):
                    link.send(wire.ALIVE, log.confirmed)
        link.close()

    def wake(self) -> None:
        if not self._woken.is_set():
            self._woken.set()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()
        self._link.close()
