"""Spark, which takes messages from one queue and publishes them to another one, exactly once."""

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.cluster.nodes import Cluster
from tests.cluster.with_pika import EXCHANGE
from tests.spark.killing.processes import SparkProcess

# What Spark takes, and what it gives.
WORK: Final = "work"
PIPED: Final = "piped"
# Files of the driver: the first one is there when the query runs, and the other one has a line for each failure of it.
RUNNING: Final = "running"
FAILURES: Final = "failures"
_FIRST: Final = b"first"
# On a busy machine, a JVM takes a minute to start, and Spark's workers another one.
_START_SECONDS: Final = 300.0


class SparkPipeline:
    """Runs within a `with` block, as a process that is started again if it ends; `starts` counts how often."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.starts = 0
        self._cluster = cluster
        self._directory = directory
        self._process: SparkProcess | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir()
        connection = self._cluster.connect()
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "fanout", durable=True)
        channel.queue_declare(WORK, durable=True)
        channel.queue_bind(WORK, EXCHANGE)
        channel.queue_declare(PIPED, durable=True)
        # What Spark starts for its first batch has started before something is measured.
        channel.basic_publish("", WORK, _FIRST)
        connection.close()
        try:
            self.tend()
            self._await_start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.close()

    def tend(self) -> None:
        """Start the process if it does not run."""
        if self._process is not None:
            if self._process.is_running:
                return
            self._process.close()
        self.starts += 1
        urls = " ".join(_urls(self._cluster.ports.values()))
        log = self._directory / "driver.log"
        self._process = SparkProcess(log, "tests.cluster.pipeline", urls, str(self._directory))

    @property
    def failures(self) -> list[str]:
        """Why queries have failed that were started again."""
        try:
            return (self._directory / FAILURES).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (self._directory / RUNNING).exists():
            assert time.monotonic() < deadline, f"Spark does not start: {self._directory / 'driver.log'} says why"
            self.tend()
            time.sleep(0.1)


def _urls(ports: Iterable[int]) -> list[str]:
    return [f"amqp://guest:guest@127.0.0.1:{port}/%2f" for port in ports]
