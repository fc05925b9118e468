"""Staging: rows in pieces, and what a lost connection, a repeated batch and a rival come to."""

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.spark.sink import staged_publish
from flintmq.spark.sink.options import WriteOptions, write_options
from flintmq.spark.sink.rows import Row, RowEncoder
from flintmq.spark.sink.staged_publish import Batch, Staged, TakenOver

OPTIONS = {"url": "amqp://h/", "exchange": "x", "deliveryMode": "exactly-once", "transactionalId": "t"}
T = TypeVar("T")
SCHEMA = StructType([StructField("body", BinaryType())])


def options(**more: str) -> WriteOptions:
    return write_options({**OPTIONS, **more})


def batch_of(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [*bodies]}, pa.schema([("body", pa.binary())]))


class Broker:
    """What is staged here: the bodies of each attempt that is on the disk. `failing` calls lose the connection."""

    def __init__(self) -> None:
        self.last_batch = -1
        self.failing: list[str] = []
        self.taken_over = False
        self.attempts: dict[tuple[int, int, int], list[bytes]] = {}
        self.committed: list[tuple[int, int, dict[int, int]]] = []
        self.aborted: list[int] = []
        self._channel = Channel(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, operation: Callable[[Any], T]) -> T:
        while True:
            try:
                return operation(self._channel)
            except ConnectionLost:
                self._channel = Channel(self)

    def answer(self, what: str) -> None:
        if what in self.failing:
            self.failing.remove(what)
            raise ConnectionLost("the peer closed the socket")
        if self.taken_over:
            raise fc.ChannelClosed(
                406, "PRECONDITION_FAILED - transactional id 't' has been taken over by another writer"
            )


class Channel:
    """What is staged ahead is on the disk once that was waited for: by the next call, or at the end."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._ahead: list[tuple[tuple[int, int, int], list[bytes]]] = []

    def stage_open(self, transactional_id: str, owner: str) -> fc.StageInfo:
        assert (transactional_id, owner) == ("t", "query")
        self._broker.answer("open")
        return fc.StageInfo(7, self._broker.last_batch)

    def stage_ahead(
        self,
        transactional_id: str,
        epoch: int,
        batch: int,
        partition: int,
        attempt: int,
        rows: Iterator[Row],
        timeout: float,
    ) -> None:
        assert (transactional_id, epoch) == ("t", 7)
        self._broker.answer("select")
        bodies = []
        for row in rows:
            bodies.append(row[2])
            self._broker.answer("publish")
        self.wait_for_stage(timeout)
        self._ahead.append(((batch, partition, attempt), bodies))

    def wait_for_stage(self, timeout: float) -> None:
        if self._ahead:
            self._broker.answer("ready")
        self._broker.attempts.update(self._ahead)
        self._ahead = []

    def stage_commit(self, transactional_id: str, epoch: int, batch: int, attempts: dict[int, int]) -> None:
        self._broker.answer("commit")
        self._broker.committed.append((epoch, batch, attempts))

    def stage_abort(self, transactional_id: str, epoch: int, batch: int) -> None:
        self._broker.answer("abort")
        self._broker.aborted.append(batch)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(staged_publish, "ReconnectingClient", lambda *_, **__: made)
    return made


def stage(*batches: pa.RecordBatch, number: int = 0, partition: int = 0, **more: str) -> Staged:
    given = options(**more)
    return staged_publish.stage(given, RowEncoder(SCHEMA, given), iter(batches), Batch("query", number), partition)


def sizes(pieces: Iterator[list[pa.RecordBatch]]) -> list[list[int]]:
    return [[part.num_rows for part in piece] for piece in pieces]


def test_pieces_by_messages() -> None:
    """Small record batches go together, large ones are cut."""
    batches = [batch_of(*[b"x"] * count) for count in (3, 2, 12, 1)]
    assert sizes(staged_publish.pieces(iter(batches), 5)) == [[3, 2], [5], [5], [2, 1]]


def test_pieces_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in memory has a bound, but for a record batch that is larger by itself."""
    monkeypatch.setattr(staged_publish, "PIECE_BYTES", 1000)
    batches = [batch_of(b"x" * size) for size in (400, 400, 400, 5000, 10)]
    assert sizes(staged_publish.pieces(iter(batches), 100)) == [[1, 1], [1], [1], [1]]


def test_places_are_in_order() -> None:
    """A partition's pieces stand before those of the next; what has no place is refused with a way out."""
    assert (
        staged_publish.place_of(0, 1)
        < staged_publish.place_of(0, staged_publish.PIECES_MAX - 1)
        < staged_publish.place_of(1, 0)
    )
    assert staged_publish.place_of(staged_publish.PARTITIONS_MAX - 1, staged_publish.PIECES_MAX - 1) < 2**31
    with pytest.raises(FlintError, match="coalesce the data"):
        staged_publish.place_of(staged_publish.PARTITIONS_MAX, 0)
    with pytest.raises(FlintError, match="repartition the data"):
        staged_publish.place_of(0, staged_publish.PIECES_MAX)


@pytest.mark.parametrize(
    "calls", [["open"], ["select"], ["publish"], ["ready"], ["ready", "ready"], ["ready", "publish"]]
)
def test_a_lost_connection_costs_what_was_on_its_way(broker: Broker, calls: list[str]) -> None:
    """It goes again whole, as another attempt; the pieces before it stay."""
    broker.failing = calls
    staged = stage(batch_of(b"1", b"2", b"3"), batch_of(b"4", b"5"), partition=2, batchSize="2")
    assert staged.messages == 5
    places = [staged_publish.place_of(2, number) for number in range(3)]
    assert sorted(staged.attempts) == places
    counting = [broker.attempts[0, place, staged.attempts[place]] for place in places]
    assert counting == [[b"1", b"2"], [b"3"], [b"4", b"5"]]


def test_attempts_are_never_the_same(broker: Broker) -> None:
    """Two tasks of one partition do not get in each other's way, whichever of them counts."""
    one, other = (stage(batch_of(b"1")) for _ in range(2))
    assert one.attempts.keys() == other.attempts.keys()
    assert one.attempts != other.attempts


def test_a_batch_that_is_published(broker: Broker) -> None:
    """Nothing of it is staged, and all its rows are asked for: queries that keep state write it behind the last one."""
    broker.last_batch = 4
    asked = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            asked.append(number)
            yield batch_of(b"1")

    given = options()
    staged = staged_publish.stage(given, RowEncoder(SCHEMA, given), batches(), Batch("query", 4), 0)
    assert (staged.messages, staged.attempts, asked) == (0, {}, [0, 1, 2])
    assert stage(batch_of(b"1"), number=5).messages == 1
    assert {key[0] for key in broker.attempts} == {5}


def test_numbers_grow(broker: Broker) -> None:
    """What has a lower number than the last batch is not that one again, and nobody takes it for published."""
    broker.last_batch = 4
    with pytest.raises(FlintError, match="batch 3 of the transactionalId 't' comes when batch 4 .*must grow"):
        stage(batch_of(b"1"), number=3)
    assert not broker.attempts


def test_commit(broker: Broker) -> None:
    """The attempts that count, by their places; asked again when nobody heard the answer."""
    broker.failing = ["commit"]
    staged_publish.commit(options(), [Staged(7, 1, {9: 90}), Staged(7, 2, {1: 10, 2: 20}), Staged(7)], 3)
    assert broker.committed == [(7, 3, {1: 10, 2: 20, 9: 90})]
    assert list(broker.committed[0][2]) == [1, 2, 9]


def test_nothing_to_commit(broker: Broker) -> None:
    """Tasks that had no rows have staged nothing."""
    staged_publish.commit(options(), [Staged(7), None], 3)
    assert broker.committed == []


def test_abort(broker: Broker) -> None:
    """What the others staged is thrown away; what cannot be reached is not worth another error."""
    staged_publish.abort(options(), [None, Staged(7, 1, {0: 1})], 3)
    staged_publish.abort(options(), [None, None], 4)
    broker.taken_over = True
    staged_publish.abort(options(), [Staged(7, 1, {0: 1})], 5)
    assert broker.aborted == [3]


def test_more_pieces_than_the_broker_keeps(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task says what would make them fewer."""

    def refused(*_: object, **__: object) -> None:
        raise fc.ChannelClosed(406, "PRECONDITION_FAILED - ... has 65536 attempts: commit or abort their batches")

    monkeypatch.setattr(Channel, "stage_ahead", refused)
    with pytest.raises(FlintError, match="more pieces than the broker keeps .*: set the option batchSize higher"):
        stage(batch_of(b"1"))


def test_taken_over(broker: Broker) -> None:
    """Whoever lost the id hears by what, and what to do."""
    broker.taken_over = True
    for act in (lambda: stage(batch_of(b"1")), lambda: staged_publish.commit(options(), [Staged(7, 1, {0: 1})], 0)):
        with pytest.raises(TakenOver, match="taken over the transactionalId 't'.*give each its own"):
            act()
