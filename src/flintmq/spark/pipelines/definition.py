"""What a pipeline is, whoever wrote it down: values only, checked when they are made.

Nothing here needs PySpark: a definition can be read and checked where there is none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from flintmq.base.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A pipeline's name becomes part of names of consumers, of transactional ids, and of directories.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_INTERVAL: Final = re.compile(r"\d+(\.\d+)?\s*(milliseconds?|ms|seconds?|s|minutes?|hours?|days?)\Z", re.IGNORECASE)
# What a flow's SQL calls its source.
SOURCE_VIEW: Final = "source"

FLINTMQ: Final = "flintmq"
FILES: Final = "files"
LAKE: Final = "lake"
PARQUET: Final = "parquet"
CONSOLE: Final = "console"
SOURCE_KINDS: Final = (FLINTMQ, LAKE, FILES)
SINK_KINDS: Final = (FLINTMQ, LAKE, PARQUET, CONSOLE)
DECODE_FORMATS: Final = ("json", "avro", "text")
ON_MISMATCH: Final = ("fail", "quarantine")
FRAMINGS: Final = ("none", "single-object", "confluent")
OUTPUT_MODES: Final = ("append", "complete")

Options = Mapping[str, str]
# Gets the source's data frame and, if it has a second parameter, the tables by their names.
Transform = Callable[..., "DataFrame"]


def check_name(name: str, what: str) -> None:
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of {what}: at most 64 letters, digits, dots, dashes and underscores, and the "
            "first of them a letter or a digit"
        )


def check_table_name(name: str) -> None:
    if not _TABLE.match(name) or name.lower() == SOURCE_VIEW:
        raise ConfigurationError(
            f"{name!r} cannot be the name of a table: letters, digits and underscores, not a digit first, and not "
            f"{SOURCE_VIEW!r}, which is what a flow's own messages are called"
        )


def check_interval(text: str, what: str) -> None:
    if not _INTERVAL.match(text.strip()):
        raise ConfigurationError(f"{text!r} is no interval for {what}: write it as '10 seconds' or '5 minutes'")


def check_schema_ids(framing: str, schema_id: int | None, writers: Mapping[int, str]) -> None:
    """Raises ConfigurationError unless it is known which schemas the ids before bodies stand for, if there are any."""
    has_ids = schema_id is not None or bool(writers)
    if framing != "confluent" and has_ids:
        raise ConfigurationError("ids of schemas stand before bodies with the framing confluent only")
    if framing == "confluent" and not has_ids:
        raise ConfigurationError(
            "before each body with the framing confluent stands the id of the schema that it was written by. Bodies of "
            "other schemas would be read into the wrong columns: say the id that the registry gave this schema "
            "(schemaId), and the schemas of other ids that bodies have (writers)"
        )


@dataclass(frozen=True)
class Decode:
    """How a body becomes the column `value`: see flintmq.spark.lake.bodies.Body, whose words these are."""

    format: str
    schema: str = ""
    on_mismatch: str = "fail"
    framing: str = "none"
    schema_id: int | None = None
    writers: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_schema_ids(self.framing, self.schema_id, self.writers)
        for word, allowed, what in (
            (self.format, DECODE_FORMATS, "format of bodies"),
            (self.on_mismatch, ON_MISMATCH, "thing to do with a body that does not fit"),
            (self.framing, FRAMINGS, "framing of Avro"),
        ):
            if word not in allowed:
                raise ConfigurationError(f"{word!r} is no {what}: it must be one of {', '.join(allowed)}")


@dataclass(frozen=True)
class Watermark:
    """How late a row may come, by a column of timestamps: what windows and joins in time need.

    With `expression`, in SQL, the column is made: from a decoded body, for example.
    """

    column: str
    delay: str
    expression: str = ""

    def __post_init__(self) -> None:
        check_interval(self.delay, "a watermark's delay")


@dataclass(frozen=True)
class Source:
    """`kind` is one of SOURCE_KINDS; its options are those of format("flintmq"), of format("flintmq_lake"), or format,
    path, schema and what else Spark's reader of files takes.
    """

    kind: str
    options: Options
    decode: Decode | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Table:
    """Something at rest that a flow may join with. Spark reads it anew for each micro-batch where its format can."""

    format: str
    path: str
    options: Options = field(default_factory=dict)
    schema: str = ""


@dataclass(frozen=True)
class Sink:
    kind: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Trigger:
    """An interval such as `10 seconds`, or None: what is there now, and then an end."""

    every: str | None

    def __post_init__(self) -> None:
        if self.every is not None:
            check_interval(self.every, "a trigger")

    @property
    def in_words(self) -> str:
        return "once, as far as there is something" if self.every is None else f"every {self.every}"


AVAILABLE_NOW: Final = Trigger(None)
DEFAULT_TRIGGER: Final = Trigger("1 second")


@dataclass(frozen=True)
class Flow:
    """One Structured Streaming query. At most one of `sql` and `transform`; neither passes messages on as they are.

    `line` is where it stands in its file, and `sql_line` where its SQL begins there, for errors that are found later.
    """

    name: str
    source: Source
    sinks: tuple[Sink, ...]
    sql: str = ""
    transform: Transform | None = None
    output_mode: str = "append"
    trigger: Trigger = DEFAULT_TRIGGER
    line: int = 0
    sql_line: int = 0

    def __post_init__(self) -> None:
        check_name(self.name, "a flow")
        if not self.sinks:
            raise ConfigurationError(f"the flow {self.name} has no sink")
        if self.sql and self.transform is not None:
            raise ConfigurationError(f"the flow {self.name} has both sql and transform: one of them")
        if self.output_mode not in OUTPUT_MODES:
            raise ConfigurationError(
                f"the flow {self.name} has the output mode {self.output_mode!r}: it must be {' or '.join(OUTPUT_MODES)}"
            )


@dataclass(frozen=True)
class Pipeline:
    """`checkpoints` is a directory that every part of Spark reaches; `path` the file all this was read from."""

    name: str
    flows: tuple[Flow, ...]
    checkpoints: str
    broker: Options = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "a pipeline")
        if not self.flows:
            raise ConfigurationError(f"the pipeline {self.name} has no flow")
        names = [flow.name for flow in self.flows]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"the pipeline {self.name} has two flows of the name {twice[0]}")
        for name in self.tables:
            check_table_name(name)

    def with_trigger(self, trigger: Trigger) -> "Pipeline":
        return replace(self, flows=tuple(replace(flow, trigger=trigger) for flow in self.flows))

    def only(self, names: list[str]) -> "Pipeline":
        """The flows of these names. Raises ConfigurationError."""
        known = [flow.name for flow in self.flows]
        for name in names:
            if name not in known:
                raise ConfigurationError(f"there is no flow {name} in {self.name}: known are {', '.join(known)}")
        return replace(self, flows=tuple(flow for flow in self.flows if flow.name in names))

    def where(self, line: int) -> str:
        """Such as `orders.yaml:12: `, and nothing for a pipeline that was not read from a file."""
        if not self.path:
            return ""
        return f"{self.path}:{line}: " if line else f"{self.path}: "
