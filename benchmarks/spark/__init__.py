"""What Spark reads from FlintMQ and writes to it, beside sources and sinks that do nothing, and beside pika."""
