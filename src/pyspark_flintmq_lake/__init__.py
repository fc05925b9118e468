"""Spark looks for data sources in modules of this kind of name."""

from flintmq.spark.lake.source import LakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
