"""FlintMQ and RabbitMQ under the same loads, side by side: `python -m benchmarks.bench`."""
