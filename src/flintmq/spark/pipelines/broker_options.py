"""The options that flows come to: where the broker is, and names nobody need think of.

What makes a flow exactly once is a name under which the broker remembers it. In a pipeline each has one of its own.
"""

from collections.abc import Mapping
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.pipelines.definition import FLINTMQ, LAKE, PARQUET, Flow, Options, Pipeline
from flintmq.spark.reading.options import stream_read_options
from flintmq.spark.writing.options import DeliveryMode, write_options

_MODE: Final = "deliveryMode"
_ID: Final = "transactionalId"
# What a lake tells of its files is published.
_EVENTS: Final = "eventsExchange"
_URLS: Final = ("url", "urlenv", "urlfile")


def source_options(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    """Raises ConfigurationError for what nothing can be read with."""
    source = flow.source
    if source.kind == FLINTMQ:
        given = _with_broker(pipeline.broker, source.options)
        if not _has(given, "consumerName"):
            given["consumerName"] = f"{pipeline.name}/{flow.name}"
        stream_read_options(given)
        return given
    if source.kind == LAKE:
        lake_read_options(source.options)
    return dict(source.options)


def sink_options(pipeline: Pipeline, flow: Flow, number: int) -> dict[str, str]:
    """Of the sink at this place of the flow. Raises ConfigurationError for what nothing can be written with."""
    sink = flow.sinks[number]
    if sink.kind == FLINTMQ:
        given = _with_broker(pipeline.broker, sink.options)
        mode = next((value for key, value in given.items() if key.lower() == _MODE.lower()), "")
        if not mode:
            mode = given[_MODE] = DeliveryMode.EXACTLY_ONCE
        if mode == DeliveryMode.EXACTLY_ONCE and not _has(given, _ID):
            given[_ID] = transactional_id(pipeline, flow, number)
        write_options(given)
        return given
    if sink.kind == LAKE:
        given = _with_broker(pipeline.broker, sink.options) if _has(sink.options, _EVENTS) else dict(sink.options)
        lake_write_options(given)
        return given
    if sink.kind == PARQUET and len(flow.sinks) > 1:
        raise ConfigurationError(
            "the sink parquet is Spark's own, which does not know a batch again that it had written among those of "
            "other sinks: use lake, which writes Parquet, too"
        )
    if sink.kind == PARQUET and not _has(sink.options, "path"):
        raise ConfigurationError("the option path is missing: the directory for the files")
    return dict(sink.options)


def batch_options(pipeline: Pipeline, flow: Flow, number: int) -> dict[str, str]:
    """Of a sink beside others: what each of its batches is written with, and its number besides, to be known again."""
    given = sink_options(pipeline, flow, number)
    if flow.sinks[number].kind == LAKE and not _has(given, _ID):
        given[_ID] = transactional_id(pipeline, flow, number)
    return given


def transactional_id(pipeline: Pipeline, flow: Flow, number: int) -> str:
    # No name of a pipeline or a flow has a slash, and so no two of these are alike.
    name = f"{pipeline.name}/{flow.name}"
    return f"{name}/{number}" if len(flow.sinks) > 1 else name


def check_names(pipeline: Pipeline) -> None:
    """Raises ConfigurationError where two sinks have one name: the second's batches would be taken for the first's."""
    taken: set[str] = set()
    for flow in pipeline.flows:
        options_of = batch_options if len(flow.sinks) > 1 else sink_options
        for number, sink in enumerate(flow.sinks):
            given = options_of(pipeline, flow, number)
            name = next((value for key, value in given.items() if key.lower() == _ID.lower()), "")
            if name and name in taken:
                raise ConfigurationError(
                    f"{pipeline.where(flow.line)}the sink {sink.kind} of the flow {flow.name} has the transactionalId "
                    f"{name!r}, as another sink has: each needs its own"
                )
            taken.add(name)


def is_numbered(options: Options) -> bool:
    """Whether batches written with these options are known again by their numbers."""
    return _has(options, _ID)


def _with_broker(broker: Options, options: Options) -> dict[str, str]:
    if any(_has(options, name) for name in _URLS):
        return dict(options)
    return {**broker, **options}


def _has(options: Mapping[str, str], name: str) -> bool:
    return any(key.lower() == name.lower() for key in options)


def check_broker(broker: Options) -> None:
    """Raises ConfigurationError."""
    for name in broker:
        if name.lower() not in _URLS:
            raise ConfigurationError(f"the broker is said by url, urlEnv or urlFile, and not by {name}")
