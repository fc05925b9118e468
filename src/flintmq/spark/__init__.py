"""Connectors for Apache Spark: format("flintmq") for queues and exchanges, format("flintmq_lake") for Parquet files."""
