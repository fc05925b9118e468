"""Reading: queues and streams as data frames, in batches and micro-batches."""
