"""Lakes: tables of Parquet files (plain, Delta, Iceberg) to which messages are captured exactly once, and replayed."""
