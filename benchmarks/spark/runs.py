"""The runs: what is set up for each, what of it is timed, and that nothing was lost."""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

import flintmq.client as fc
from benchmarks import generator
from benchmarks.brokers import BrokerError
from benchmarks.loads import DURABLE
from benchmarks.spark import with_pika
from benchmarks.spark.figures import Figure
from flintmq.wire.amqp091.properties import Properties, encode_properties

BODY_BYTES: Final = 1024
_BODY: Final = "body binary"
_PERSISTENT: Final = encode_properties(Properties(delivery_mode=2))
# A fraction of the rows is enough for pika, whose rate does not depend on it.
_PIKA_SHARE: Final = 20
_TRIGGERS: Final = 4
_QUERY_SECONDS: Final = 300

NULL_READ: Final = "read the body: nothing"
NULL_READ_ALL: Final = "read all columns: nothing"
NULL_MICRO: Final = "micro-batches of bodies: nothing"
NULL_WRITE: Final = "write: to nowhere"
PIKA_READ: Final = "read: pika in foreachPartition"
PIKA_WRITE: Final = "write: pika in foreachPartition"
PIKA_WRITE_CONFIRMED: Final = "write: pika, confirmed one by one"


R = TypeVar("R", DataFrameReader, DataStreamReader)
Options = dict[str, bool | float | int | str | None]


class Bench:
    """`rows` messages of 1 KiB each way and run, by `tasks` tasks at a time."""

    def __init__(self, spark: SparkSession, url: str, directory: Path, rows: int, tasks: int) -> None:
        self._spark = spark
        self._url = url
        self._directory = directory
        self._rows = rows
        self._tasks = tasks
        self._number = itertools.count()
        self._connection = fc.connect(url)
        self._channel = self._connection.channel(confirms=True)

    # -- what is there ------------------------------------------------------------------------------------------

    def fill(self, queue: str, count: int, **arguments: object) -> None:
        self._channel.declare_queue(queue, arguments=arguments)
        body = bytes(range(256)) * (BODY_BYTES // 256)
        self._channel.publish_batch(itertools.repeat(("", queue, body, _PERSISTENT), count), timeout=_QUERY_SECONDS)

    def stream(self, queue: str) -> None:
        self.fill(queue, self._rows, **{"x-queue-type": "stream"})

    def empty(self, queue: str) -> None:
        with self._connection.channel() as channel:
            channel.delete_queue(queue)

    # -- reading ------------------------------------------------------------------------------------------------

    def _null(self, schema: str, reader: R) -> R:
        options = {"rows": self._rows, "tasks": self._tasks, "body": BODY_BYTES, "trigger": self._per_trigger}
        return reader.format("null").schema(schema).options(**options)

    @property
    def _per_trigger(self) -> int:
        return -(-self._rows // _TRIGGERS)

    def _ours(self, reader: R, queue: str, options: Options | None = None) -> R:
        given: Options = {"url": self._url, "queue": queue, "startingOffsets": "earliest", "minPartitions": self._tasks}
        return reader.format("flintmq").options(**{**given, **(options or {})})

    def _noop(self, frame: DataFrame) -> float:
        return self._timed(lambda: frame.write.format("noop").mode("overwrite").save())

    def _timed(self, work: Callable[[], object], rows: int | None = None) -> float:
        start = time.monotonic()
        work()
        return (rows or self._rows) / (time.monotonic() - start)

    def _micro_batches(self, frame: DataFrame) -> float:
        """All there is, in several micro-batches; what Spark does between them counts, its start does not."""
        checkpoint = self._directory / f"checkpoint-{next(self._number)}"
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(_QUERY_SECONDS):
            raise BrokerError("a query did not end in time")
        progress = [one for one in query.recentProgress if one["numInputRows"]]
        rows = sum(int(one["numInputRows"]) for one in progress)
        if rows != self._rows:
            raise BrokerError(f"{rows} rows were read, and there were {self._rows}")
        shutil.rmtree(checkpoint)
        return 1000 * rows / sum(int(one["durationMs"]["triggerExecution"]) for one in progress)

    def reads(self) -> Iterator[tuple[Figure, Callable[[], float]]]:
        """Of a stream, which can be read again and again."""
        spark = self._spark
        yield Figure(NULL_READ), lambda: self._noop(self._null(_BODY, spark.read).load())
        ours = Figure("read the body: stream", NULL_READ, PIKA_READ)
        yield ours, lambda: self._noop(self._ours(spark.read, "stream").schema(_BODY).load())
        everything = self._ours(spark.read, "stream").load().schema.simpleString()
        columns = everything.removeprefix("struct<").removesuffix(">").replace(":", " ")
        yield Figure(NULL_READ_ALL), lambda: self._noop(self._null(columns, spark.read).load())
        ours = Figure("read all columns: stream", NULL_READ_ALL, PIKA_READ)
        yield ours, lambda: self._noop(self._ours(spark.read, "stream").load())
        yield Figure(NULL_MICRO), lambda: self._micro_batches(self._null(_BODY, spark.readStream).load())
        per_trigger: Options = {"maxMessagesPerTrigger": self._per_trigger}
        ours = Figure("micro-batches of bodies: stream", NULL_MICRO, PIKA_READ)
        yield (
            ours,
            lambda: self._micro_batches(self._ours(spark.readStream, "stream", per_trigger).schema(_BODY).load()),
        )
        yield Figure("micro-batches of bodies: queue", NULL_MICRO, PIKA_READ), self._lease
        yield Figure(PIKA_READ), self._pika_read

    def _lease(self) -> float:
        self.fill("queue", self._rows)
        options: Options = {"maxMessagesPerTrigger": self._per_trigger, "consumerName": f"bench-{next(self._number)}"}
        try:
            return self._micro_batches(self._ours(self._spark.readStream, "queue", options).schema(_BODY).load())
        finally:
            self.empty("queue")

    def _pika_read(self) -> float:
        count = self._rows // _PIKA_SHARE
        # What another task has prefetched and not taken must not be waited for.
        self.fill("pika", count + 1000 * self._tasks)
        try:
            return self._timed(lambda: with_pika.read(self._spark, self._url, "pika", self._tasks, count), count)
        finally:
            self.empty("pika")

    # -- writing ------------------------------------------------------------------------------------------------

    def writes(self) -> Iterator[tuple[Figure, Callable[[], float]]]:
        yield Figure(NULL_WRITE), lambda: self._timed(lambda: self._bodies().write.format("null").mode("append").save())
        yield self._written("queue, at least once", {}, {})
        exactly_once = {"deliveryMode": "exactly-once", "transactionalId": "bench"}
        yield self._written("queue, exactly once", {}, exactly_once)
        yield self._written("stream, at least once", {"x-queue-type": "stream"}, {})
        yield Figure(PIKA_WRITE), lambda: self._pika_write(confirmed=False)
        yield Figure(PIKA_WRITE_CONFIRMED), lambda: self._pika_write(confirmed=True)

    def _written(
        self, name: str, arguments: dict[str, object], options: dict[str, str]
    ) -> tuple[Figure, Callable[[], float]]:
        figure = Figure(f"write: {name}", NULL_WRITE, PIKA_WRITE_CONFIRMED)
        return figure, lambda: self._write(arguments, options)

    def _bodies(self, share: int = 1) -> DataFrame:
        options = {"rows": self._rows // share, "tasks": self._tasks, "body": BODY_BYTES}
        return self._spark.read.format("null").schema(_BODY).options(**options).load()

    def _write(self, arguments: dict[str, object], options: dict[str, str]) -> float:
        self.fill("written", 0, **arguments)
        writer = self._bodies().write.format("flintmq").options(url=self._url, exchange="", routingKey="written")
        try:
            rate = self._timed(lambda: self._save(writer.options(**options)))
        finally:
            self.empty("written")
        return rate

    def _save(self, writer: DataFrameWriter) -> None:
        writer.mode("append").save()
        self._arrived("written", self._rows)

    def _pika_write(self, confirmed: bool) -> float:
        share = _PIKA_SHARE * (10 if confirmed else 1)
        self.fill("written", 0)
        try:
            bodies = self._bodies(share)
            rows = self._rows // share
            rate = self._timed(lambda: with_pika.write(bodies, self._url, "written", confirmed), rows)
            self._arrived("written", rows)
        finally:
            self.empty("written")
        return rate

    def _arrived(self, queue: str, expected: int) -> None:
        """What was staged and committed is published while the broker goes on with the rest: that counts, too."""
        end = time.monotonic() + _QUERY_SECONDS
        with self._connection.channel() as channel:
            while (found := channel.declare_queue(queue, passive=True).message_count) < expected:
                if time.monotonic() > end:
                    break
                time.sleep(0.01)
        if found != expected:
            raise BrokerError(f"{found} messages are on the queue, and {expected} were written")

    # -- the others -----------------------------------------------------------------------------------------------

    def others(self, port: int, rate: int, seconds: float) -> dict[str, dict[str, Any]]:
        """A publisher and a consumer of another queue, alone, while Spark reads all the time, and while it writes."""
        reading = self._ours(self._spark.read, "stream").schema(_BODY).load()
        return {
            "alone": self._beside(port, rate, seconds, lambda: time.sleep(0.1)),
            "while Spark reads": self._beside(port, rate, seconds, lambda: self._noop(reading)),
            "while Spark writes": self._beside(port, rate, seconds, lambda: self._write({}, {})),
        }

    def _beside(self, port: int, rate: int, seconds: float, work: Callable[[], object]) -> dict[str, Any]:
        paced = ("--size", str(BODY_BYTES), "--rate", str(rate), "--time", f"{seconds:g}")
        with generator.started(port, "--queue", "others", "--delete", *DURABLE, *paced) as load:
            while load.poll() is None:
                work()
            return generator.report(load, _QUERY_SECONDS)
