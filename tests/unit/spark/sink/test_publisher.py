"""Parts on their way at least once: what goes again when a connection is lost, and what does not."""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.publisher import Publisher
from flintmq.spark.sink.rows import Row, RowEncoder

T = TypeVar("T")
ENCODER = RowEncoder(
    StructType([StructField("body", BinaryType())]), write_options({"url": "amqp://h/", "exchange": "x"})
)


class Channel:
    """Confirms all that came before a call, and nothing once it is `lost`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.confirmed = 0
        self.has_failures = False
        self.lost = False

    @property
    def published(self) -> int:
        return len(self.bodies)

    def publish_ahead(self, rows: Iterator[Row], timeout: float) -> None:
        if self.lost:
            raise ConnectionLost("gone")
        self.confirmed = len(self.bodies)
        self.bodies += [row[2] for row in rows]

    def wait_for_confirms(self, timeout: float) -> None:
        if self.lost:
            raise ConnectionLost("gone")
        self.confirmed = len(self.bodies)


class Link:
    """Another channel for each that is lost."""

    def __init__(self) -> None:
        self.channels = [Channel()]

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        while True:
            try:
                return operation(cast(fc.Channel, self.channels[-1]))
            except ConnectionLost:
                self.channels.append(Channel())


def part(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], ["body"])


def test_a_loss_repeats_what_was_not_confirmed() -> None:
    """The part before the one in hand, too, as long as nobody has heard of its confirms."""
    link = Link()
    publisher = Publisher(cast(ReconnectingClient, link), ENCODER)
    publisher.publish(part(b"1", b"2"))
    publisher.publish(part(b"3"))
    link.channels[0].lost = True
    publisher.publish(part(b"4"))
    publisher.finish()
    assert [channel.bodies for channel in link.channels] == [[b"1", b"2", b"3"], [b"3", b"4"]]


def test_a_loss_behind_the_confirms_repeats_nothing() -> None:
    """A task that waits long for its rows loses its connection: what was confirmed until then does not go again."""
    link = Link()
    publisher = Publisher(cast(ReconnectingClient, link), ENCODER)
    publisher.publish(part(b"1", b"2"))
    link.channels[0].confirmed = 2
    link.channels[0].lost = True
    publisher.publish(part(b"3"))
    link.channels[1].lost = True
    publisher.finish()
    assert [channel.bodies for channel in link.channels] == [[b"1", b"2"], [b"3"], [b"3"]]


def test_a_loss_behind_a_refusal_repeats_what_was_refused() -> None:
    """It counts as confirmed, and nobody has been told: the broker has to say once more what it thinks of it."""
    link = Link()
    publisher = Publisher(cast(ReconnectingClient, link), ENCODER)
    publisher.publish(part(b"1", b"refused"))
    link.channels[0].confirmed = 2
    link.channels[0].has_failures = True
    link.channels[0].lost = True
    publisher.publish(part(b"3"))
    publisher.finish()
    assert [channel.bodies for channel in link.channels] == [[b"1", b"refused"], [b"1", b"refused", b"3"]]
