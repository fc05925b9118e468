"""Pipelines: flows from a source through a transform into sinks, defined in a file and run with one command."""

from flintmq.spark.pipelines.definition import Decode, Flow, Pipeline, Sink, Source, Table, Trigger, Watermark
from flintmq.spark.pipelines.python_file import pipeline

__all__ = ["Decode", "Flow", "Pipeline", "Sink", "Source", "Table", "Trigger", "Watermark", "pipeline"]
