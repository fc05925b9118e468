"""The options of format("flintmq") that flows come to: where the broker is, and names nobody need think of.

What makes a flow exactly once is a name under which the broker remembers it. In a pipeline each has one of its own.
"""

from collections.abc import Mapping
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.definition import Flow, Options, Pipeline
from flintmq.spark.reading.options import stream_read_options
from flintmq.spark.writing.options import write_options

_URLS: Final = ("url", "urlenv", "urlfile")


def source_options(pipeline: Pipeline, flow: Flow) -> dict[str, str]:
    """Raises ConfigurationError for what no stream can be read with."""
    given = _with_broker(pipeline.broker, flow.source.options)
    stream_read_options(given)
    return given


def sink_options(pipeline: Pipeline, flow: Flow, number: int) -> dict[str, str]:
    """Of the sink at this place of the flow. Raises ConfigurationError for what nothing can be published with."""
    given = _with_broker(pipeline.broker, flow.sinks[number].options)
    write_options(given)
    return given


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
