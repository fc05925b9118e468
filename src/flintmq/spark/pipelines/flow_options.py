"""The options of a flow's source and sinks, completed with the broker's address and with names.

The broker remembers a flow under a name, which makes it exactly once. In a pipeline, each flow gets its own name.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.lake.options import lake_read_options, lake_write_options
from flintmq.spark.pipelines.definition import FLINTMQ, LAKE, PARQUET, Flow, Options, Pipeline, Sink
from flintmq.spark.sink.options import DeliveryMode, write_options
from flintmq.spark.source.options import stream_read_options

_MODE: Final = "deliveryMode"
_ID: Final = "transactionalId"
_BATCH: Final = "batchId"
_OWNER: Final = "batchOwner"
# A lake with this option publishes events, and needs a broker.
_EVENTS: Final = "eventsExchange"
_URLS: Final = ("url", "urlenv", "urlfile")


def source_options(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    """The options of the flow's source, completed.

    Raises ConfigurationError for options that a read does not accept.
    """
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
    """The options of the flow's sink `number`, completed. Raises ConfigurationError for options it does not accept."""
    sink = flow.sinks[number]
    if sink.kind == FLINTMQ:
        given = _with_broker(pipeline.broker, sink.options)
        if not _has(given, _MODE):
            given[_MODE] = DeliveryMode.EXACTLY_ONCE
        if is_exactly_once(given) and not _has(given, _ID):
            given[_ID] = transactional_id(pipeline, flow, sink)
        for name in (_BATCH, _OWNER):
            if _has(given, name):
                raise ConfigurationError(f"the option {name} is not for pipelines, which number their batches")
        write_options(given)
        return given
    if sink.kind == LAKE:
        for name in (_ID, _BATCH):
            if _has(sink.options, name):
                raise ConfigurationError(
                    f"the option {name} is not for pipelines: a lake knows their batches by the query that has the "
                    "checkpoint"
                )
        given = _with_broker(pipeline.broker, sink.options) if _has(sink.options, _EVENTS) else dict(sink.options)
        lake_write_options(given)
        return given
    if sink.kind == PARQUET and len(flow.sinks) > 1:
        raise ConfigurationError(
            "the sink parquet is Spark's own, which does not recognize a repeated batch if there are several sinks: "
            "use lake, which writes Parquet, too"
        )
    if sink.kind == PARQUET and not _has(sink.options, "path"):
        raise ConfigurationError("the option path is missing: the directory for the files")
    return dict(sink.options)


def batch_options(kind: str, options: Options, query: str, batch: int) -> dict[str, str]:
    """The options for one batch, by which a lake or the broker recognizes it; `query` is the id of its query."""
    if kind == LAKE:
        return {**options, _ID: query, _BATCH: str(batch)}
    if kind == FLINTMQ and is_exactly_once(options):
        return {**options, _OWNER: query, _BATCH: str(batch)}
    return {**options}


def is_exactly_once(options: Options) -> bool:
    """Whether the option deliveryMode is exactly-once."""
    mode = next((value for key, value in options.items() if key.lower() == _MODE.lower()), "")
    return mode.lower() == DeliveryMode.EXACTLY_ONCE


def transactional_id(pipeline: Pipeline, flow: Flow, sink: Sink) -> str:
    """A name that depends on the sink's address, not on its place: sinks may be added, removed and moved."""
    given = {name.lower(): value for name, value in sink.options.items()}
    address = json.dumps([given.get("exchange"), given.get("routingkey")])
    # Names of pipelines and flows have no slash, so that two flows cannot get the same name.
    return f"{pipeline.name}/{flow.name}/{sha256(address.encode()).hexdigest()[:16]}"


def check_names(pipeline: Pipeline) -> None:
    """Raises ConfigurationError if two sinks have one name, because batches of one would be taken for the other's."""
    taken: set[str] = set()
    for flow in pipeline.flows:
        lakes: set[str] = set()
        for number, sink in enumerate(flow.sinks):
            given = sink_options(pipeline, flow, number)
            where = f"{pipeline.where(flow.line)}the sink {sink.kind} of the flow {flow.name}"
            if sink.kind == LAKE:
                path = lake_write_options(given).place.path
                if path in lakes:
                    raise ConfigurationError(f"{where} writes to {path}, as another sink of this flow does")
                lakes.add(path)
            name = next((value for key, value in given.items() if key.lower() == _ID.lower()), "")
            if name and name in taken:
                raise ConfigurationError(
                    f"{where} has the transactionalId {name!r}, as another sink has: each needs its own"
                )
            taken.add(name)


def _with_broker(broker: Options, options: Options) -> dict[str, str]:
    if any(_has(options, name) for name in _URLS):
        return dict(options)
    return {**broker, **options}


def _has(options: Mapping[str, str], name: str) -> bool:
    return any(key.lower() == name.lower() for key in options)


def check_broker(broker: Options) -> None:
    """Raises ConfigurationError for a key that does not give the broker's address."""
    for name in broker:
        if name.lower() not in _URLS:
            raise ConfigurationError(f"the broker has the keys url, urlEnv and urlFile, and not {name}")
