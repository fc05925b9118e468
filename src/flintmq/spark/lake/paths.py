"""Where the files of a lake stand, and what they are called."""

import re
import secrets
from pathlib import Path
from typing import Final
from urllib.parse import quote

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.data_file import NULL_PARTITION, DataFile
from flintmq.spark.lake.options import LakeFormat, LakeWriteOptions

# All that tasks write of a lake which is not in its place yet, and what else is ours there.
INTERNAL: Final = "_flintmq"
STAGED: Final = f"{INTERNAL}/staged"
DATA: Final = "data"
# Of a directory's or a file's name, in all file systems that a lake may stand in.
NAME_MAX_BYTES: Final = 255
# A file's name is its attempt, and what it is called within that: two random numbers of so many bytes.
_HALF_BYTES: Final = 8
# Of a value among the statistics of a Parquet file, as PyArrow writes it.
STATISTICS_MAX_BYTES: Final = 4096
_ASCII: Final = re.compile(r"[\x00-\x7f]+")


def new_attempt() -> str:
    """What the names of all files begin with that tasks write in one attempt at a batch, and of no others."""
    return secrets.token_hex(_HALF_BYTES)


def new_path(format: LakeFormat | None, partition: dict[str, str | None], attempt: str) -> str:
    """A path that no other file has. Directories tell the partition where nothing else does."""
    name = f"{attempt}{secrets.token_hex(_HALF_BYTES)}.parquet"
    if format is LakeFormat.ICEBERG:
        _check_lengths(partition)
    if format is not LakeFormat.PARQUET:
        return f"{DATA}/{name}"
    directories = [_directory(column, value) for column, value in partition.items()]
    return "/".join([*directories, name])


def _check_lengths(partition: dict[str, str | None]) -> None:
    """Raises ConfigurationError for a value that no statistics have: PyIceberg would take it for null, and whoever asks
    for it not find its rows.
    """
    for column, value in partition.items():
        if value is not None and len(value.encode()) > STATISTICS_MAX_BYTES:
            raise ConfigurationError(
                f"the column {column} has a value of {len(value.encode())} bytes, {value[:40]!r} and so on: Iceberg "
                f"takes a value to partition by from the statistics of files, where none is longer than "
                f"{STATISTICS_MAX_BYTES}. Cut it, or partition by something shorter"
            )


def _directory(column: str, value: str | None) -> str:
    """Raises ConfigurationError now: decided, a batch with a file that has no place could never be completed."""
    escaped = _escaped(column)
    if escaped[0] in "._":
        # Readers of directories pass over what begins with these.
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    # Spark reads nothing of a directory with one that is named after an empty text, and Hive writes it as null, too.
    name = f"{escaped}={_escaped(value) if value else NULL_PARTITION}"
    length = len(name.encode())
    if length > NAME_MAX_BYTES:
        raise ConfigurationError(
            f"the column {column} has a value by which no directory can be named, {str(value)[:40]!r} and so on: with "
            f"its name, it is {length} bytes, and a file system takes {NAME_MAX_BYTES}. Cut it, partition by something "
            "shorter, or use the lakeFormat delta or iceberg"
        )
    return name


def _escaped(text: str) -> str:
    """As Hive and Spark do: they take each escape for a character, so that those of several bytes stay as they are."""
    return _ASCII.sub(lambda found: quote(found[0], safe=" "), text)


def written_path(options: LakeWriteOptions, path: str) -> Path:
    """Where a task writes a file. Of Delta and Iceberg, its last place: only what their logs say is in the table."""
    if options.place.format is LakeFormat.PARQUET:
        return staged_path(options.place.root, path)
    return options.place.root / path


def staged_path(root: Path, path: str) -> Path:
    return root / STAGED / Path(path).name


def remove_files(options: LakeWriteOptions, files: list[DataFile]) -> None:
    """Those of an attempt that did not become the batch."""
    for file in files:
        written_path(options, file.path).unlink(missing_ok=True)


def attempt_files(options: LakeWriteOptions, attempt: str) -> list[Path]:
    """All that tasks of an attempt wrote, whoever was told of it; of a plain lake, what was not moved to its place."""
    directory = written_path(options, f"{DATA}/any").parent
    return [*directory.glob(f"{attempt}*.parquet")]
