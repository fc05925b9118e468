"""Spark looks for data sources in modules of this kind of name."""

from flintmq.spark.data_source import FlintMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
