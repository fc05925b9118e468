"""The writer of format("flintmq"): tasks publish or stage rows, and the driver commits staged ones."""
