"""The lake: messages as tables of Parquet files (plain, Delta, Iceberg), written exactly once, and published again."""
