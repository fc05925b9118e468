"""The definition of a pipeline: values, which are checked when they are created.

This module does not need PySpark, so that a definition can be read and checked without it.
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
# The name of the source in a flow's SQL.
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
# A function with the source's data frame and, if it has a second parameter, the tables by their names.
Transform = Callable[..., "DataFrame"]


def check_name(name: str, what: str) -> None:
    """Raises ConfigurationError unless `name` can be the name of `what`, such as "a flow"."""
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of {what}: at most 64 letters, digits, dots, dashes and underscores, and the "
            "first of them a letter or a digit"
        )


def check_table_name(name: str) -> None:
    """Raises ConfigurationError unless SQL can use the name for a table."""
    if not _TABLE.match(name) or name.lower() == SOURCE_VIEW:
        raise ConfigurationError(
            f"{name!r} cannot be the name of a table: use letters, digits and underscores, not a digit first, and not "
            f"{SOURCE_VIEW!r}, which is the name of a flow's own messages"
        )


def check_interval(text: str, what: str) -> None:
    """Raises ConfigurationError unless the text is an interval of Spark; `what` is its purpose."""
    if not _INTERVAL.match(text.strip()):
        raise ConfigurationError(f"{text!r} is not an interval for {what}: write it as '10 seconds' or '5 minutes'")


def check_schema_ids(framing: str, schema_id: int | None, writers: Mapping[int, str]) -> None:
    """Raises ConfigurationError if ids of schemas are missing with the framing confluent, or set with another one."""
    has_ids = schema_id is not None or bool(writers)
    if framing != "confluent" and has_ids:
        raise ConfigurationError("schemaId and writers are for the framing confluent only")
    if framing == "confluent" and not has_ids:
        raise ConfigurationError(
            "with the framing confluent, each body begins with the id of its schema. Bodies of other schemas would be "
            "read into the wrong columns: set the id of this schema in the registry (schemaId), and the schemas of "
            "other ids (writers)"
        )


@dataclass(frozen=True)
class Decode:
    """How a body becomes the column `value`; see flintmq.spark.lake.bodies.Body for the fields."""

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
            (self.on_mismatch, ON_MISMATCH, "value of onMismatch"),
            (self.framing, FRAMINGS, "framing of Avro"),
        ):
            if word not in allowed:
                raise ConfigurationError(f"{word!r} is not a {what}: it must be one of {', '.join(allowed)}")


@dataclass(frozen=True)
class Watermark:
    """How late a row may come, by a column of timestamps, for windows and joins in time.

    `expression` is SQL that computes the column, for example from a decoded body; "" if the column exists.
    """

    column: str
    delay: str
    expression: str = ""

    def __post_init__(self) -> None:
        check_interval(self.delay, "a watermark's delay")


@dataclass(frozen=True)
class Source:
    """The source of a flow: one of SOURCE_KINDS.

    Its options are those of format("flintmq"), those of format("flintmq_lake"), or format, path, schema and other
    options of Spark's file source.
    """

    kind: str
    options: Options
    decode: Decode | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True)
class Table:
    """A static table that a flow can join. Spark reads it again for each micro-batch if its format supports that."""

    format: str
    path: str
    options: Options = field(default_factory=dict)
    schema: str = ""


@dataclass(frozen=True)
class Sink:
    """A sink of a flow: one of SINK_KINDS, with its options."""

    kind: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Trigger:
    """When a flow runs a micro-batch: every interval such as `10 seconds`; for None, once for all that exists."""

    every: str | None

    def __post_init__(self) -> None:
        if self.every is not None:
            check_interval(self.every, "a trigger")

    @property
    def in_words(self) -> str:
        """The trigger for people."""
        return "once, for all that exists" if self.every is None else f"every {self.every}"


AVAILABLE_NOW: Final = Trigger(None)
DEFAULT_TRIGGER: Final = Trigger("1 second")


@dataclass(frozen=True)
class Flow:
    """One query of Structured Streaming.

    It has `sql` or `transform`, or neither, and then its rows are unchanged. `line` is its line in its file, and
    `sql_line` the first line of its SQL there, both for errors; 0 if there is none.
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
            raise ConfigurationError(f"the flow {self.name} has both sql and transform: use one of them")
        if self.output_mode not in OUTPUT_MODES:
            raise ConfigurationError(
                f"the flow {self.name} has the output mode {self.output_mode!r}: it must be {' or '.join(OUTPUT_MODES)}"
            )


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.

    `checkpoints` is a directory that the driver and executors share; `path` is the file it was read from.
    """

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
            raise ConfigurationError(f"the pipeline {self.name} has two flows with the name {twice[0]}")
        for name in self.tables:
            check_table_name(name)

    def with_trigger(self, trigger: Trigger) -> "Pipeline":
        """The pipeline with this trigger for all flows."""
        return replace(self, flows=tuple(replace(flow, trigger=trigger) for flow in self.flows))

    def only(self, names: list[str]) -> "Pipeline":
        """The pipeline with only the flows of these names. Raises ConfigurationError for an unknown name."""
        known = [flow.name for flow in self.flows]
        for name in names:
            if name not in known:
                raise ConfigurationError(f"there is no flow {name} in {self.name}: known are {', '.join(known)}")
        return replace(self, flows=tuple(flow for flow in self.flows if flow.name in names))

    def where(self, line: int) -> str:
        """A prefix for errors, such as `orders.yaml:12: `; empty if the pipeline was not read from a file."""
        if not self.path:
            return ""
        return f"{self.path}:{line}: " if line else f"{self.path}: "
