"""Paths and names of the files of a lake."""

import re
import secrets
from pathlib import Path
from typing import Final
from urllib.parse import quote

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.data_file import NULL_PARTITION, DataFile
from flintmq.spark.lake.options import LakeFormat, LakeWriteOptions

# The directory for the manifest and for files that tasks have staged.
INTERNAL: Final = "_flintmq"
STAGED: Final = f"{INTERNAL}/staged"
DATA: Final = "data"
# The longest name of a file or directory in the file systems that a lake can use.
NAME_MAX_BYTES: Final = 255
# The name of a file consists of two random numbers of this many bytes: the attempt, and the file in it.
_HALF_BYTES: Final = 8
# The longest value in the statistics of Parquet files that PyArrow writes.
STATISTICS_MAX_BYTES: Final = 4096
_ASCII: Final = re.compile(r"[\x00-\x7f]+")


def new_attempt() -> str:
    """A new random prefix for the names of all files that tasks write in one attempt at a batch."""
    return secrets.token_hex(_HALF_BYTES)


def new_path(format: LakeFormat | None, partition: dict[str, str | None], attempt: str) -> str:
    """A new unique path for a file, relative to the lake. Only plain lakes have partition directories.

    Raises ConfigurationError for a value of a partition column that the format cannot have.
    """
    name = f"{attempt}{secrets.token_hex(_HALF_BYTES)}.parquet"
    if format is LakeFormat.ICEBERG:
        _check_lengths(partition)
    if format is not LakeFormat.PARQUET:
        return f"{DATA}/{name}"
    directories = [_directory(column, value) for column, value in partition.items()]
    return "/".join([*directories, name])


def _check_lengths(partition: dict[str, str | None]) -> None:
    """Raises ConfigurationError for a value that is too long for statistics: PyIceberg would take it for null, and a
    query for the value would not find its rows.
    """
    for column, value in partition.items():
        if value is not None and len(value.encode()) > STATISTICS_MAX_BYTES:
            raise ConfigurationError(
                f"the column {column} has a value of {len(value.encode())} bytes, {value[:40]!r} and so on: Iceberg "
                f"takes a value to partition by from the statistics of files, where none is longer than "
                f"{STATISTICS_MAX_BYTES}. Cut it, or partition by something shorter"
            )


def _directory(column: str, value: str | None) -> str:
    """The name of a partition directory.

    Raises ConfigurationError for a name that is too long. After the decision, the batch could never be completed.
    """
    escaped = _escaped(column)
    if escaped[0] in "._":
        # Readers skip directories whose names begin with these characters.
        escaped = f"%{ord(escaped[0]):02X}{escaped[1:]}"
    # An empty text is written as null, as Hive does, because Spark cannot read a directory with an empty value.
    name = f"{escaped}={_escaped(value) if value else NULL_PARTITION}"
    length = len(name.encode())
    if length > NAME_MAX_BYTES:
        raise ConfigurationError(
            f"the column {column} has a value by which no directory can be named, {str(value)[:40]!r} and so on: with "
            f"its column, it has {length} bytes, and a file system takes {NAME_MAX_BYTES}. Shorten it, partition by "
            "something shorter, or use the lakeFormat delta or iceberg"
        )
    return name


def _escaped(text: str) -> str:
    """Escape ASCII characters as Hive and Spark do; others stay, because they read each escape as one character."""
    return _ASCII.sub(lambda found: quote(found[0], safe=" "), text)


def written_path(options: LakeWriteOptions, path: str) -> Path:
    """The path to which a task writes a file: for a plain lake the staged one, for Delta and Iceberg the final one.

    Readers of Delta and Iceberg ignore files that are not in the log.
    """
    if options.place.format is LakeFormat.PARQUET:
        return staged_path(options.place.root, path)
    return options.place.root / path


def staged_path(root: Path, path: str) -> Path:
    """The path of a file of a plain lake before its batch is committed."""
    return root / STAGED / Path(path).name


def remove_files(options: LakeWriteOptions, files: list[DataFile]) -> None:
    """Remove files that tasks wrote and that are in no batch."""
    for file in files:
        written_path(options, file.path).unlink(missing_ok=True)


def attempt_files(options: LakeWriteOptions, attempt: str) -> list[Path]:
    """All existing files that tasks wrote in an attempt; of a plain lake, only those that are still staged."""
    directory = written_path(options, f"{DATA}/any").parent
    return [*directory.glob(f"{attempt}*.parquet")]
