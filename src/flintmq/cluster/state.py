"""What a node of a cluster knows of itself across restarts: <data>/.cluster.json."""

from contextlib import closing, suppress
from pathlib import Path
from typing import final

from msgspec import DecodeError, Struct, json

from flintmq.base.errors import ConfigurationError, StorageError
from flintmq.storage.files import Disk, replace_file
from flintmq.storage.layout import NODE_STATE


class _Stored(Struct):
    cluster: str
    node: str
    seen_term: int
    is_whole: bool
    has_joined: bool
    is_sound: bool = True


@final
class NodeState:
    """The state of node `node` in the data directory `root`.

    Raises ConfigurationError if it belongs to another node, and StorageError if it cannot be read.

    Attributes:
        seen_term: The highest term that the node has seen. Leaders of earlier terms get no answers.
        has_joined: Whether the directory is part of the cluster: its files are those of a leader, or it has led.
        is_empty: Whether the directory had no data when the process started. Somebody may have removed them, and not
            the state, whose name begins with a dot.
        is_whole: Whether recovery can start from the directory; not while files are copied into it.
        is_sound: Whether the disk has what readers see. After an error of the disk, a system may show what it never
            writes: all files must be copied, also those that seem to be equal, and another node should lead.
        term: The term of the last operation in the directory, and whether it `is_known`: not after a restart, nor after
            an error of the disk.
    """

    def __init__(self, disk: Disk, root: Path, cluster: str, node: str) -> None:
        self.node = node
        self.seen_term = 0
        self.is_whole = True
        self.has_joined = False
        self.is_empty = False
        self.is_sound = True
        self.term = 0
        self.is_known = False
        self._path = root / NODE_STATE
        self._cluster = cluster
        self._disk = disk
        try:
            with closing(disk.open(self._path)) as file:
                stored = json.decode(file.read_at(0, file.size()), type=_Stored)
        except FileNotFoundError:
            return
        except (OSError, DecodeError) as error:
            raise StorageError(f"{self._path} cannot be read ({error}): remove it, and the node joins again") from error
        if (stored.cluster, stored.node) != (cluster, node):
            raise ConfigurationError(
                f"{root} belongs to node {stored.node!r} of cluster {stored.cluster!r}, not to {node!r} of "
                f"{cluster!r}: choose another data directory, or correct cluster.name and cluster.node"
            )
        self.seen_term, self.is_whole, self.has_joined = stored.seen_term, stored.is_whole, stored.has_joined
        self.is_sound = stored.is_sound

    def see(self, term: int) -> None:
        """Note a term, durably. Raises StorageError if a later one was seen."""
        if term < self.seen_term:
            raise StorageError(f"term {term} is over: term {self.seen_term} was seen")
        if term > self.seen_term:
            before, self.seen_term = self.seen_term, term
            try:
                self.save()
            except OSError:
                self.seen_term = before
                raise

    def spoil(self) -> None:
        """Note that the disk has failed: what is there is not sound. An error of the disk is ignored."""
        self.is_sound = self.is_known = False
        with suppress(OSError):
            self.save()

    def save(self) -> None:
        stored = _Stored(self._cluster, self.node, self.seen_term, self.is_whole, self.has_joined, self.is_sound)
        replace_file(self._disk, self._path, self._path.with_name(NODE_STATE + ".new"), json.encode(stored))
        self._disk.sync_directory(self._path.parent)
