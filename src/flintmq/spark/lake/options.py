"""Options of format("flintmq_lake"): their names, the conversion of their values, and one error for everything else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.lake.partition_filter import PartitionFilter, parse_partition_filter
from flintmq.spark.options import SPARK_OPTIONS, check_progress_tracking, only_endpoint

# Large enough for fast reads, and small enough for one task: Spark and Delta use the same size.
MAX_FILE_BYTES: Final = 128 * 1024 * 1024
# A replay publishes a micro-batch of this many rows in seconds, and the broker can keep it staged in memory.
MAX_ROWS_PER_TRIGGER: Final = 250_000

WRITE_NAMES: Final = (
    "path",
    "lakeFormat",
    "partitionBy",
    "timeColumn",
    "maxFileBytes",
    "compression",
    "transactionalId",
    "batchId",
    "catalog",
    "table",
    "eventsExchange",
    "eventsRoutingKey",
    "url",
    "urlEnv",
    "urlFile",
)
READ_NAMES: Final = (
    "path",
    "lakeFormat",
    "catalog",
    "table",
    "partitions",
    "minPartitions",
    "rowsPerSecond",
    "maxRowsPerTrigger",
)
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
# Names of other connectors for these options.
_ELSEWHERE: Final = {"format": "lakeFormat", "location": "path", "maxrecordsperfile": "maxFileBytes"}
# A transactional id becomes the name of a directory.
_TRANSACTIONAL_ID: Final = re.compile(r"|[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class LakeFormat(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True)
class LakeLocation:
    """The directory and format of a lake. `catalog` and `table` are for Iceberg; without a catalog, it is a file in the
    lake.

    `format` is None if a read does not set it.
    """

    path: str
    format: LakeFormat | None
    catalog: str
    table: str

    @property
    def root(self) -> Path:
        """The directory of the lake."""
        return Path(self.path)


@dataclass(frozen=True)
class Events:
    """The address to which events about new files are published."""

    endpoint: Endpoint
    exchange: str
    routing_key: str


@dataclass(frozen=True)
class LakeWriteOptions:
    """Checked options of a write.

    A batch query with a `transactional_id` is batch `batch_id` of this application, and is not added twice. The id is
    "" without the option.
    """

    place: LakeLocation
    partition_by: tuple[str, ...]
    time_column: str
    max_file_bytes: int
    compression: str
    transactional_id: str
    batch_id: int
    events: Events | None


@dataclass(frozen=True)
class LakeReadOptions:
    """Checked options of a read. `rows_per_second` is 0 for no limit."""

    place: LakeLocation
    partitions: PartitionFilter
    min_partitions: int
    rows_per_second: int
    max_rows_per_trigger: int


def lake_write_options(given: Mapping[str, str]) -> LakeWriteOptions:
    """Check options of a write. Raises ConfigurationError for an unknown name, and for a wrong or missing value."""
    o = _Given(given, WRITE_NAMES)
    format = o.choice("lakeFormat", tuple(LakeFormat), LakeFormat.PARQUET)
    return LakeWriteOptions(
        place=_place(o, LakeFormat(format)),
        partition_by=o.names("partitionBy"),
        time_column=o.text("timeColumn") or "timestamp",
        max_file_bytes=o.positive("maxFileBytes", MAX_FILE_BYTES),
        compression=o.choice("compression", COMPRESSIONS, COMPRESSIONS[0]),
        transactional_id=_transactional_id(o),
        batch_id=o.natural("batchId"),
        events=_events(o),
    )


def lake_read_options(given: Mapping[str, str]) -> LakeReadOptions:
    """Check options of a read. Raises ConfigurationError for an unknown name, and for a wrong or missing value."""
    o = _Given(given, READ_NAMES)
    format = o.choice("lakeFormat", ("", *LakeFormat), "")
    return LakeReadOptions(
        place=_place(o, LakeFormat(format) if format else None),
        partitions=parse_partition_filter(o.text("partitions")),
        min_partitions=o.positive("minPartitions", 1),
        rows_per_second=o.positive("rowsPerSecond", 0),
        max_rows_per_trigger=o.positive("maxRowsPerTrigger", MAX_ROWS_PER_TRIGGER),
    )


def _place(o: "_Given", format: LakeFormat | None) -> LakeLocation:
    path = _local(o.required("path", "the directory of the lake"))
    return LakeLocation(path, format, o.text("catalog"), o.text("table") or "flintmq." + (Path(path).name or "lake"))


def _local(path: str) -> str:
    """The absolute path of a file system. Raises ConfigurationError for any other location."""
    parts = urlsplit(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = unquote(parts.path)
    elif "://" in path:
        raise ConfigurationError(
            f"the option path is {path!r}: a lake needs a file system that the driver and all executors share (a local "
            "disk, or NFS), because a commit is a file that only one driver can create, which object stores do not "
            "offer, mounted or not"
        )
    if not Path(path).is_absolute():
        raise ConfigurationError(
            f"the option path is {path!r}: it must be absolute, because executors have other working directories"
        )
    return path


def _transactional_id(o: "_Given") -> str:
    name = o.text("transactionalId")
    if bool(name) != bool(o.text("batchId")):
        raise ConfigurationError(
            "the options transactionalId and batchId need each other: they name the writer and the number of the batch"
        )
    if not _TRANSACTIONAL_ID.fullmatch(name):
        raise ConfigurationError(
            f"the option transactionalId is {name!r}: it must be up to 128 letters, digits, dots, dashes and "
            "underscores"
        )
    return name


def _events(o: "_Given") -> Events | None:
    url, env, file = o.text("url"), o.text("urlEnv"), o.text("urlFile")
    exchange = o.text("eventsExchange")
    routing_key = o.text("eventsRoutingKey")
    if not exchange and not routing_key:
        if url or env or file:
            raise ConfigurationError("the URL of a broker is for events: the option eventsExchange is missing")
        return None
    return Events(only_endpoint(url, env, file, "events need a broker: "), exchange, routing_key)


class _Given:
    """The options of a user.

    Names are checked at once, values when they are asked for; both raise ConfigurationError.
    """

    def __init__(self, given: Mapping[str, str], names: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        known = {name.lower(): name for name in names}
        for name in self._values:
            check_progress_tracking(name)
            if name not in known and name not in SPARK_OPTIONS:
                near = get_close_matches(name, known, n=1)
                meant = _ELSEWHERE.get(name) or (known[near[0]] if near else None)
                advice = f"did you mean {meant}?" if meant else f"known are {', '.join(names)}"
                raise ConfigurationError(f"there is no option {name}: {advice}")

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "")

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if not value:
            raise ConfigurationError(f"the option {name} is missing: {what}")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in self.text(name).split(",") if part.strip())
        for part in found:
            if found.count(part) > 1:
                raise ConfigurationError(f"the option {name} has {part} twice")
        return found

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name).lower() or default
        if value not in allowed:
            choices = ", ".join(choice for choice in allowed if choice)
            raise ConfigurationError(f"the option {name} is {value!r}: it must be one of {choices}")
        return value

    def natural(self, name: str) -> int:
        value = self.text(name) or "0"
        if not (value.isascii() and value.isdecimal()):
            raise ConfigurationError(f"the option {name} is {value!r}: it must be a number")
        return int(value)

    def positive(self, name: str, default: int) -> int:
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdecimal()) or int(value) == 0:
            raise ConfigurationError(f"the option {name} is {value!r}: it must be a number greater than 0")
        return int(value)
