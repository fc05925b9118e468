"""The reader of format("flintmq"): queues and streams as data frames, in batches and micro-batches."""
