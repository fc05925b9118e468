"""A follower's side of replication: it copies the leader's files once, and then makes the leader's changes."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from flintmq import __version__
from flintmq.base.errors import StorageError
from flintmq.cluster import wire
from flintmq.cluster.leading import CHUNK_BYTES, digest, replicated_files
from flintmq.cluster.state import NodeState
from flintmq.cluster.wire import Chunk, End, Fetch, Hello, Link, LinkError, Refusal, Welcome
from flintmq.storage.definitions.database import DefinitionDatabase
from flintmq.storage.files import Disk, RealDisk
from flintmq.storage.layout import DEFINITIONS
from flintmq.storage.replication.log import OperationLog
from flintmq.storage.replication.replica import Replica

# A copied file is synced after so many bytes, because whatever else the disk has to sync waits for it.
SYNCED_BYTES: Final = 2 * 1024 * 1024
# The follower connects within this time, or the leader is not there.
CONNECT_SECONDS: Final = 1.0


@final
class Following:
    """Follows one leader in the directory `root`. `log` gets what was received, for the case that this node leads next.

    `state` says how far the directory is. Nothing else may use the directory meanwhile.
    """

    def __init__(self, root: Path, cluster: str, state: NodeState, log: OperationLog, silence_seconds: float) -> None:
        self._root = root
        self._cluster = cluster
        self._state = state
        self._log = log
        self._silence_seconds = silence_seconds
        self._disk: Disk = RealDisk()
        self._replica = Replica(self._disk, root, lambda: DefinitionDatabase(root / DEFINITIONS))
        self._link: Link | None = None
        # The number from which on the copied files are whole.
        self._whole_at = 0

    def run(self, address: tuple[str, int], term: int) -> None:
        """Follow the leader of `term` at this address until that is not possible any more. Blocks.

        From here on, leaders of earlier terms get no answers, not even after a restart.

        Raises LinkError if the leader is gone or silent, Refusal if it does not accept this node, StorageError and
        OSError if the directory cannot be written. Call it again to go on.
        """
        if term < self._state.seen_term:
            raise LinkError(f"term {term} is over: term {self._state.seen_term} was seen")
        self._state.see(term)
        try:
            connection = socket.create_connection(address, CONNECT_SECONDS)
        except OSError as error:
            raise LinkError(f"the leader at {address[0]}:{address[1]} cannot be reached ({error})") from error
        self._link = link = Link(connection, self._silence_seconds)
        try:
            self._follow(link, term)
        except StorageError:
            self._state.is_whole = False
            self._state.save()
            raise
        finally:
            link.close()
            self._replica.close()

    def _follow(self, link: Link, term: int) -> None:
        state = self._state
        position = (state.term, self._log.newest) if state.is_whole and state.is_known else (0, 0)
        hello = Hello(wire.PROTOCOL, self._cluster, state.node, __version__, state.seen_term, *position)
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
        while True:
            kind, body = link.receive()
            if kind == wire.OPERATIONS:
                self._make(link, body)
            elif kind == wire.ALIVE:
                self._sync(link)
            else:
                raise LinkError(f"the leader sends a message of kind {kind}")

    def _make(self, link: Link, body: memoryview) -> None:
        number, operations = wire.unpack_operations(body)
        log, replica = self._log, self._replica
        if number != log.newest + 1:
            raise LinkError(f"operation {number} follows {log.newest}")
        durable = 0
        for each in operations:
            if replica.run(each):
                durable = number
            log.append(each)
            number += 1
        if replica.is_copying and log.newest >= self._whole_at:
            self._become_whole()
            durable = log.newest
        if durable and not replica.is_copying:
            link.send(wire.ACKNOWLEDGE, durable)

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
        state.is_whole = False
        state.save()
        replica.close()
        replica.is_copying = True
        link.send(wire.LIST)
        names: list[str] = wire.read(self._expect(link, wire.FILES), list[str])
        for name in set(replicated_files(self._root)).difference(names):
            self._disk.unlink(self._root / name)
        for name in names:
            self._fetch(link, name)
        link.send(wire.DEFINITIONS)
        self._put_definitions(self._expect(link, wire.DEFINITIONS))
        for directory, _, _ in os.walk(self._root):
            self._disk.sync_directory(Path(directory))
        self._log.restart(welcome.number)
        self._whole_at = welcome.number
        state.term = welcome.term

    def _expect(self, link: Link, wanted: int) -> memoryview:
        kind, body = link.receive()
        if kind != wanted:
            raise LinkError(f"the leader sends a message of kind {kind} instead of {wanted}")
        return body

    def _fetch(self, link: Link, name: str) -> None:
        path = self._replica.path(name)
        self._disk.make_directory(path.parent)
        digests = []
        with suppress(FileNotFoundError), path.open("rb") as own:
            while data := own.read(CHUNK_BYTES):
                digests.append(digest(data))
        link.send(wire.FETCH, Fetch(name, digests))
        file = self._disk.create(path)
        unsynced = 0
        try:
            while True:
                kind, body = link.receive()
                if kind == wire.END:
                    break
                chunk: Chunk = wire.read(body, Chunk)
                if chunk.path != name:
                    raise LinkError(f"the leader sends {chunk.path!r} instead of {name!r}")
                file.write_at(chunk.position, [chunk.data])
                unsynced += len(chunk.data)
                if unsynced >= SYNCED_BYTES:
                    file.sync()
                    unsynced = 0
            end: End = wire.read(body, End)
            if end.size >= 0:
                file.truncate(end.size)
                file.sync()
        finally:
            file.close()
        if end.size < 0:
            self._disk.unlink(path)

    def _put_definitions(self, data: memoryview) -> None:
        path = self._root / DEFINITIONS
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        draft = path.with_name(path.name + ".copy")
        file = self._disk.create(draft)
        try:
            file.truncate(0)
            file.write_at(0, [data])
            file.sync()
        finally:
            file.close()
        self._disk.rename(draft, path)

    def _become_whole(self) -> None:
        self._replica.sync()
        self._replica.is_copying = False
        self._state.is_whole = True
        self._state.is_known = True
        self._state.save()

    def close(self) -> None:
        """Have `run` end, from another thread."""
        if self._link is not None:
            self._link.close()
