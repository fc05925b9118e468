"""A follower's side of replication: it copies the leader's files once, and then makes the leader's changes."""

import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import StorageError
from flintmq.cluster import wire
from flintmq.cluster.leading import ALIVE_CHUNKS, CHUNK_BYTES, digest
from flintmq.cluster.ports import Directory, Link, LinkError, Machine, Refusal, Silent
from flintmq.cluster.state import NodeState
from flintmq.cluster.wire import Chunk, End, Fetch, Hello, Welcome
from flintmq.server import logs
from flintmq.storage.files import DiskFile, leave_to_backup
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.replication.replica import Replica

log = logs.get_logger()

# A copied file is synced after so many bytes, because whatever else the disk has to sync waits for it.
SYNCED_BYTES: Final = 2 * 1024 * 1024
_UNKNOWN: Final = sys.maxsize
# A follower says that it is there after so many operations: making them may take longer than its leader waits for it.
_OPERATIONS_OF_A_TURN: Final = 64
# What is made again over a copy is synced after so many bytes, because a long sync is silent.
_BYTES_OF_A_TURN: Final = 16 * 1024 * 1024
# A leader that is silent for so long is in doubt.
LEADER_SILENCE_SECONDS: Final = 1.5


class HandedOver(LinkError):
    """The leader has stopped in order, and `heir`, which has everything, is to be elected in its place."""

    def __init__(self, heir: str) -> None:
        super().__init__(f"the leader has handed over to {heir}")
        self.heir = heir


@final
class Following:
    """Follows one leader in the directory. `log` gets what was received, for the case that this node leads next.

    `state` says how far the directory is. Nothing else may use the directory meanwhile.
    """

    def __init__(
        self, machine: Machine, directory: Directory, cluster: str, state: NodeState, log: OperationLog
    ) -> None:
        self._machine = machine
        # Whether the leader has accepted this follower.
        self.has_followed = False
        self._directory = directory
        self._cluster = cluster
        self._state = state
        self._log = log
        self._disk = directory.disk
        self._replica = Replica(directory.disk, directory.root, directory.open_definitions)
        self._link: Link | None = None
        self._is_closed = False
        # The number from which on the copied files are whole, once the leader has said so.
        self._whole_at = _UNKNOWN
        # The bytes that were made again over a copy since they were synced last.
        self._unsynced = 0

    def run(self, address: str, term: int) -> None:
        """Follow the leader of `term` at this address until that is not possible any more. Blocks.

        From here on, leaders of earlier terms get no answers, not even after a restart.

        Raises LinkError if the leader is gone or silent, HandedOver if it has stopped in order, Refusal if one of the
        nodes does not accept the other one, StorageError and OSError if the directory cannot be written.
        """
        if term < self._state.seen_term:
            raise LinkError(f"term {term} is over: term {self._state.seen_term} was seen")
        self._state.see(term)
        self._link = link = self._machine.connect(address, LEADER_SILENCE_SECONDS)
        try:
            if self._is_closed:
                raise LinkError("the connection was closed")
            link.authenticate()
            self._follow(link, term)
        except (StorageError, OSError):
            self._state.spoil()
            raise
        finally:
            link.close()
            self._replica.close()

    def _follow(self, link: Link, term: int) -> None:
        state = self._state
        can_go_on = state.is_whole and state.is_sound and state.is_known
        position = (state.term, self._log.newest) if can_go_on else (0, 0)
        hello = Hello(wire.PROTOCOL, self._cluster, state.node, __version__, state.seen_term, *position, inherits=True)
        link.send(wire.HELLO, hello)
        kind, body = link.receive()
        if kind == wire.REFUSED:
            raise Refusal(f"the leader does not accept this node: {wire.read(body, str)}")
        welcome: Welcome = wire.read(body, Welcome)
        if kind != wire.WELCOME or welcome.term != term:
            raise LinkError(f"the node at the leader's address leads in term {welcome.term}, not {term}")
        if welcome.must_copy:
            self._copy(link, welcome)
        else:
            state.term = term
        link.send(wire.FOLLOW, self._log.newest)
        self.has_followed = True
        log.info("following", leader=welcome.node, term=term)
        while True:
            kind, body = link.receive()
            if kind == wire.OPERATIONS:
                self._make(link, body)
            elif kind == wire.ALIVE:
                self._sync(link)
            elif kind == wire.COPIED:
                self._whole_at = wire.read(body, int)
                self._sync(link)
            elif kind == wire.UNHEARD:
                # No acknowledgement gets through: for this follower, that is as bad as a leader of which nothing comes.
                raise Silent("the leader hears nothing from this node")
            elif kind == wire.HANDED_OVER:
                raise HandedOver(wire.read(body, str))
            else:
                raise LinkError(f"the leader sends a message of kind {kind}")

    def _make(self, link: Link, body: memoryview) -> None:
        number, operations = wire.unpack_operations(body)
        log, replica = self._log, self._replica
        if number != log.newest + 1:
            raise LinkError(f"operation {number} follows {log.newest}")
        durable = 0
        for made, each in enumerate(operations, 1):
            if replica.run(each):
                durable = number
            log.append(each)
            number += 1
            if replica.is_copying:
                self._unsynced += len(each)
                if self._unsynced >= _BYTES_OF_A_TURN:
                    self._sync_again(link)
            if made % _OPERATIONS_OF_A_TURN == 0:
                link.send(wire.ACKNOWLEDGE, 0 if replica.is_copying else durable)
        if replica.is_copying and log.newest >= self._whole_at:
            self._become_whole()
            durable = log.newest
        if durable and not replica.is_copying:
            link.send(wire.ACKNOWLEDGE, durable)

    def _sync_again(self, link: Link) -> None:
        """Sync what was made again over the copy. Of it, nothing is acknowledged before all of it is there."""
        self._replica.sync()
        self._unsynced = 0
        link.send(wire.ACKNOWLEDGE, 0)

    def _sync(self, link: Link) -> None:
        """Nothing comes for a while: sync what was written without a sync, and acknowledge everything."""
        if self._replica.is_copying and self._log.newest >= self._whole_at:
            self._become_whole()
        if not self._replica.is_copying:
            self._replica.sync()
            link.send(wire.ACKNOWLEDGE, self._log.newest)

    # -- copying ------------------------------------------------------------------------------------------------

    def _copy(self, link: Link, welcome: Welcome) -> None:
        """Copy all files that differ. Operations behind `welcome.number` may be in the copy already, in part."""
        state, replica = self._state, self._replica
        if not state.has_joined and self._directory.names():
            raise Refusal(
                f"{self._directory.root} holds the data of a broker without this cluster, which would be replaced by "
                "those of the leader: remove it, or choose another storage.directory. To keep it, begin a new cluster "
                "with this node"
            )
        state.has_joined, state.is_empty = True, False
        state.is_whole = False
        state.save()
        replica.close()
        replica.is_copying = True
        link.send(wire.LIST)
        names: list[str] = wire.read(self._expect(link, wire.FILES), list[str])
        root = self._directory.root
        own = self._directory.names()
        for name in sorted(set(own).difference(names)):
            self._disk.unlink(root / name)
        for name in names:
            self._fetch(link, name)
        link.send(wire.DEFINITIONS)
        self._directory.put_definitions(self._expect(link, wire.DEFINITIONS))
        parents = {parent for name in [*own, *names] for parent in (root / name).parents}
        for directory in sorted(parent for parent in parents if parent.is_relative_to(root)):
            self._disk.sync_directory(directory)
            link.send(wire.ALIVE, 0)
        self._log.restart(welcome.number)
        self._whole_at = _UNKNOWN
        state.term = welcome.term

    def _expect(self, link: Link, wanted: int) -> memoryview:
        while True:
            kind, body = link.receive()
            if kind == wanted:
                return body
            if kind != wire.ALIVE:
                raise LinkError(f"the leader sends a message of kind {kind} instead of {wanted}")

    def _fetch(self, link: Link, name: str) -> None:
        path = self._replica.path(name)
        self._disk.make_directory(path.parent)
        # Then there is nothing to compare, and the leader sends all of it.
        leave_to_backup(self._disk, path)
        link.send(wire.FETCH, Fetch(name, self._digests(link, path) if self._state.is_sound else []))
        file = self._disk.create(path)
        unsynced = 0
        try:
            while True:
                kind, body = link.receive()
                if kind == wire.END:
                    break
                if kind == wire.ALIVE:
                    continue
                chunk: Chunk = wire.read(body, Chunk)
                if chunk.path != name:
                    raise LinkError(f"the leader sends {chunk.path!r} instead of {name!r}")
                file.write_at(chunk.position, [chunk.data])
                unsynced += len(chunk.data)
                if unsynced >= SYNCED_BYTES:
                    self._sync_file(file)
                    unsynced = 0
            end: End = wire.read(body, End)
            if end.size >= 0:
                file.truncate(end.size)
                self._sync_file(file)
        finally:
            file.close()
        if end.size < 0:
            self._disk.unlink(path)
            self._replica.vanished.add(name)

    def _sync_file(self, file: DiskFile) -> None:
        """Make durable what was copied or is there. It is read when this node leads, so memory is for other files."""
        file.sync()
        file.forget()

    def _digests(self, link: Link, path: Path) -> list[bytes]:
        digests = []
        with suppress(FileNotFoundError), closing(self._disk.open(path)) as own:
            # After an error of the disk, memory may have what the disk has not, and a full disk takes no note of that.
            self._sync_file(own)
            position = 0
            while data := own.read_at(position, CHUNK_BYTES):
                digests.append(digest(data))
                position += len(data)
                if len(digests) % ALIVE_CHUNKS == 0:
                    link.send(wire.ALIVE, 0)
        return digests

    def _become_whole(self) -> None:
        if self._replica.missing:
            names = ", ".join(sorted(self._replica.missing))
            raise LinkError(f"{names}: renamed while the files were copied, which begins again")
        self._replica.sync()
        self._replica.is_copying = False
        self._state.is_whole = self._state.is_sound = True
        self._state.is_known = True
        self._state.save()

    def close(self) -> None:
        """Have `run` end, from another thread."""
        self._is_closed = True
        if self._link is not None:
            self._link.close()
