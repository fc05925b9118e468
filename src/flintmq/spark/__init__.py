"""Apache Spark reads FlintMQ's streams and publishes to its exchanges: format("flintmq")."""
