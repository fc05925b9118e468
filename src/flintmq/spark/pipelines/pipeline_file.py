"""Load a pipeline from a file: YAML, or Python with a function that is marked with @pipeline."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.definition import (
    AVAILABLE_NOW,
    CONSOLE,
    DEFAULT_TRIGGER,
    FILES,
    FRAMINGS,
    LAKE,
    ON_MISMATCH,
    OUTPUT_MODES,
    SINK_KINDS,
    SOURCE_KINDS,
    Decode,
    Flow,
    Options,
    Pipeline,
    Sink,
    Source,
    Table,
    Transform,
    Trigger,
    Watermark,
    check_name,
    check_table_name,
)
from flintmq.spark.pipelines.flow_options import check_broker, check_names, sink_options, source_options
from flintmq.spark.pipelines.python_file import load_python, load_transform
from flintmq.spark.pipelines.yaml_tree import Node, read_yaml

AVAILABLE_NOW_TEXT: Final = "availableNow"
T = TypeVar("T")

FILE_FORMATS: Final = ("json", "parquet", "csv", "text", "orc")
TABLE_FORMATS: Final = (*FILE_FORMATS, LAKE)


def load(file: str) -> Pipeline:
    """Load `orders.yaml`, `orders.py`, or `orders.py:name` if the file has several pipelines.

    Raises ConfigurationError.
    """
    name, colon, function = file.rpartition(":")
    if colon and name.endswith(".py"):
        return check(load_python(Path(name), function))
    path = Path(file)
    if path.suffix == ".py":
        return check(load_python(path, ""))
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigurationError(f"{file}: a pipeline is a file that ends in .yaml, .yml or .py")
    return _pipeline(read_yaml(path), path)


def check(pipeline: Pipeline) -> Pipeline:
    """Check the options of all sources and sinks, and return the pipeline. Raises ConfigurationError."""
    with _located_errors(pipeline, 0):
        check_broker(pipeline.broker)
    for flow in pipeline.flows:
        with _located_errors(pipeline, flow.line):
            source_options(pipeline, flow)
            for number in range(len(flow.sinks)):
                sink_options(pipeline, flow, number)
    check_names(pipeline)
    return pipeline


@contextmanager
def _located_errors(pipeline: Pipeline, line: int) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{pipeline.where(line)}{error}") from error


def parse_trigger(text: str) -> Trigger:
    """A trigger from `availableNow` or an interval. Raises ConfigurationError."""
    return AVAILABLE_NOW if text == AVAILABLE_NOW_TEXT else Trigger(text)


def _pipeline(root: Node, path: Path) -> Pipeline:
    name = root.required("pipeline", "its name, under which the broker remembers its progress")
    description = root.child("description")
    broker = root.child("broker")
    checkpoints = root.required("checkpoints", "the directory in which Spark keeps the progress of each flow")
    spark = root.child("spark")
    trigger = root.child("trigger")
    every = _of(trigger, parse_trigger) if trigger else DEFAULT_TRIGGER
    tables = root.child("tables")
    flows = root.required("flows", "the flows, by their names")
    root.finish()
    _of(name, lambda text: check_name(text, "a pipeline"))
    base = path.parent
    broker_options = _options(broker, base) if broker else {}
    if broker:
        _checked(broker, lambda: check_broker(broker_options))
    found = Pipeline(
        name=name.text(),
        description=description.text() if description else "",
        broker=broker_options,
        checkpoints=_absolute(checkpoints.text(), base),
        spark=spark.texts() if spark else {},
        tables={key: _table(key, node, base) for key, node in tables.items()} if tables else {},
        flows=tuple(_flow(key, node, base, every) for key, node in flows.items()),
        path=str(path),
    )
    for flow, (_, node) in zip(found.flows, flows.items(), strict=True):
        _check_options(found, flow, node)
    check_names(found)
    return found


def _check_options(pipeline: Pipeline, flow: Flow, node: Node) -> None:
    """Check the options of a flow. Errors have the line of the option if it is in the file."""
    source = node.required("source", "").child(flow.source.kind)
    _checked(source or node, lambda: source_options(pipeline, flow))
    for number, sink in enumerate(node.required("sinks", "").elements("sink")):
        options = sink.child(flow.sinks[number].kind) if sink.is_mapping else None
        _checked(options or sink, partial(sink_options, pipeline, flow, number))


def _checked(node: Node, accept: Callable[[], object]) -> None:
    try:
        accept()
    except ConfigurationError as error:
        text = str(error).lower()
        named = [child for key, child in node.items() if f"option {key.lower()}" in text] if node.is_mapping else []
        (named[0] if named else node).fail(str(error))


def _table(name: str, node: Node, base: Path) -> Table:
    _with_line(node, lambda: check_table_name(name))

    format = node.required("format", f"one of {', '.join(TABLE_FORMATS)}").choice(TABLE_FORMATS)
    path = _absolute(node.required("path", "where it is").text(), base)
    schema, options = node.child("schema"), node.child("options")
    node.finish()
    return Table(format, path, options.texts() if options else {}, schema.text() if schema else "")


def _flow(name: str, node: Node, base: Path, every: Trigger) -> Flow:
    node.what = f"the flow {name}"
    _with_line(node, lambda: check_name(name, "a flow"))

    source = _source(node.required("source", "where its messages come from"), base)
    sql, function = node.child("sql"), node.child("transform")
    mode, trigger = node.child("outputMode"), node.child("trigger")
    sinks = node.required("sinks", "where they go").elements("sink")
    node.finish()
    if sql and function:
        function.fail(f"the flow {name} has both sql and transform: use one of them")
    transform: Transform | None = None
    if function:
        transform = _of(function, lambda text: load_transform(text, base))
    made = Flow(
        name=name,
        source=source,
        sinks=tuple(_sink(sink, base) for sink in sinks),
        sql=sql.text() if sql else "",
        transform=transform,
        output_mode=mode.choice(OUTPUT_MODES) if mode else "append",
        line=node.line,
        sql_line=sql.text_line if sql else 0,
    )
    return replace(made, trigger=_of(trigger, parse_trigger) if trigger else every)


def _source(node: Node, base: Path) -> Source:
    decode, watermark = node.child("decode"), node.child("watermark")
    kind, options = node.one_of(SOURCE_KINDS, "what is read")
    node.finish()
    if kind == FILES:
        options.required("format", f"one of {', '.join(FILE_FORMATS)}").choice(FILE_FORMATS)
        options.required("path", "the directory in which files appear")
        options.required("schema", "the columns of the files, which Spark cannot infer")
    return Source(
        kind,
        _options(options, base),
        _decode(decode) if decode else None,
        _watermark(watermark) if watermark else None,
    )


def _decode(node: Node) -> Decode:
    if node.is_text:
        return Decode(node.choice(("text",)))
    mismatch, framing = node.child("onMismatch"), node.child("framing")
    schema_id, writers = node.child("schemaId"), node.child("writers")
    kind, schema = node.one_of(("json", "avro"), "how bodies become columns, such as {json: 'id BIGINT'}")
    node.finish()
    fields = (
        kind,
        schema.text(),
        mismatch.choice(ON_MISMATCH) if mismatch else ON_MISMATCH[0],
        framing.choice(FRAMINGS) if framing else FRAMINGS[0],
        _of(schema_id, _schema_id) if schema_id else None,
        dict(_writer(each) for each in writers.elements("schema")) if writers else {},
    )
    return _with_line(framing or node, lambda: Decode(*fields))


def _writer(node: Node) -> tuple[int, str]:
    """A schema of a registry: its id and its text."""
    number = node.required("id", "the number that the registry gave the schema")
    schema = node.required("avro", "the schema of that id")
    node.finish()
    return _of(number, _schema_id), schema.text()


def _schema_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 32):
        raise ConfigurationError(f"{text!r} is not an id of a schema, which is a number")
    return int(text)


def _watermark(node: Node) -> Watermark:
    column = node.required("column", "the column of timestamps")
    delay = node.required("delay", "how late a row may come, such as 10 minutes")
    expression = node.child("expression")
    node.finish()
    made_of = expression.text() if expression else ""
    return _of(delay, lambda text: Watermark(column.text(), text, made_of))


def _sink(node: Node, base: Path) -> Sink:
    if node.is_text:
        return Sink(node.choice((CONSOLE,)))
    kind, options = node.one_of(SINK_KINDS, "where rows go")
    node.finish()
    return Sink(kind, _options(options, base))


def _options(node: Node, base: Path) -> Options:
    """Options of a source or sink. Relative paths are relative to the directory of the file."""
    given = node.texts()
    return {key: _absolute(text, base) if key.lower() in ("path", "urlfile") else text for key, text in given.items()}


def _absolute(text: str, base: Path) -> str:
    return text if "://" in text else str((base / Path(text).expanduser()).resolve())


def _of(node: Node, convert: Callable[[str], T]) -> T:
    text = node.text()
    return _with_line(node, lambda: convert(text))


def _with_line(node: Node, make: Callable[[], T]) -> T:
    """The result of `make`; its ConfigurationError gets the line of the node."""
    try:
        return make()
    except ConfigurationError as error:
        node.fail(str(error))
