"""What people do without a connector: a pika connection in each task of a foreachPartition."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import pika
from pyspark.sql import DataFrame, Row, SparkSession

_PREFETCH: Final = 1000


def read(session: SparkSession, url: str, queue: str, tasks: int, count: int) -> None:
    """Take `count` messages off a queue, as usual: a prefetch, and an acknowledgement for each."""
    numbers = session.sparkContext.parallelize(range(tasks), tasks)
    numbers.foreachPartition(_consume(url, queue, count // tasks))


def _consume(url: str, queue: str, count: int) -> Callable[[Iterable[int]], None]:
    def consume(_: Iterable[int]) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=_PREFETCH)
        for method, _properties, _body in islice(channel.consume(queue), count):
            channel.basic_ack(method.delivery_tag)
        channel.cancel()
        connection.close()

    return consume


def write(frame: DataFrame, url: str, queue: str, confirmed: bool) -> None:
    """Publish the bodies, persistent; `confirmed` waits for each of them, as pika's blocking connection does."""

    def publish(rows: Iterable[Row]) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        if confirmed:
            channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for row in rows:
            channel.basic_publish("", queue, bytes(row.body), persistent)
        connection.close()

    frame.foreachPartition(publish)
