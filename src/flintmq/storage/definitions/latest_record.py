"""Search for the latest definitions record of the journal (catalogue.py), without decoding all of the
journal.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from flintmq.storage.block import BLOCK_HEAD_BYTES, HEADER_BYTES, TYPE_JOURNAL, block_end, decode_header, find_magic
from flintmq.storage.definitions.catalogue import DefinitionsRecord, decode_definitions
from flintmq.storage.files import Disk, DiskFile
from flintmq.storage.journal.files import SUFFIX
from flintmq.storage.journal.records import RECORD_DEFINITIONS

_BEGINS: Final = bytes([TYPE_JOURNAL, RECORD_DEFINITIONS])


def latest_definitions(disk: Disk, directory: Path, open_file: Callable[[Path], DiskFile]) -> DefinitionsRecord | None:
    """The last intact definitions record of the newest segment that has one; None if there is none.

    A record that a crash has torn off counts, too: its change was on the disk in the definitions before the record was
    written. Raises OSError and StorageError.
    """
    for name in reversed([name for name in disk.list_directory(directory) if name.endswith(SUFFIX)]):
        file = open_file(directory / name)
        try:
            data = file.read_at(0, file.size())
        finally:
            file.close()
        header = decode_header(data, str(directory / name))
        number = int(name.removesuffix(SUFFIX))
        magic = find_magic(data, number) if header is None else header.block_magic
        found = _last_in(data, magic) if magic else None
        if found is not None:
            return found
    return None


def _last_in(data: bytes, magic: bytes) -> DefinitionsRecord | None:
    begins = BLOCK_HEAD_BYTES - 1
    at = data.rfind(magic, HEADER_BYTES)
    while at >= 0:
        if data[at + begins : at + begins + len(_BEGINS)] == _BEGINS and block_end(data, at, magic):
            return decode_definitions(data, at + BLOCK_HEAD_BYTES)
        at = data.rfind(magic, HEADER_BYTES, at + len(magic) - 1)
    return None
