"""The delivery mode exactly-once: tasks stage messages, which stay invisible, and the driver publishes them by a
commit.

Each batch has a number. The broker remembers the last number that was committed under a transactional id. A batch that
runs again, because the driver did not get the answer to its commit, therefore publishes nothing. The owner tells
queries apart: a query with a new checkpoint has another owner, and begins with batch 0.

A task stages its rows in pieces, each of which is complete. If the broker restarts, the task sends at most two pieces
again, because it cannot read its rows again. Each attempt at a piece has a random number: messages that a task staged
before Spark gave it up are never mistaken for those of its successor.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, FlintError, PreconditionFailed
from flintmq.base.limits import STAGE_ATTEMPTS_MAX
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import user_errors
from flintmq.spark.sink.options import WriteOptions
from flintmq.spark.sink.publisher import CONFIRM_SECONDS
from flintmq.spark.sink.rows import RowEncoder

# The size of a piece, unless one record batch is larger. The task keeps a piece in memory until the broker has it.
PIECE_BYTES: Final = 32 * 1024 * 1024
# The broker publishes pieces in the order of their places. A place is made of the partition of the rows and the number
# of the piece in it. The broker accepts places below 2**31.
PARTITIONS_MAX: Final = 1 << 16
PIECES_MAX: Final = 1 << 15
_ATTEMPT_BITS: Final = 62


class TakenOver(FlintError):
    """Another query or job has begun to write with this transactional id."""


@dataclass(frozen=True)
class Batch:
    """A batch that is committed as a whole: the owner that numbers its batches, and the number."""

    owner: str
    number: int


@dataclass
class Staged(WriterCommitMessage):
    """The result of one task: for the place of each piece, the number of the attempt to commit."""

    epoch: int
    messages: int = 0
    attempts: dict[int, int] = field(default_factory=dict)


def stage(
    options: WriteOptions, encoder: RowEncoder, batches: Iterator[pa.RecordBatch], batch: Batch, partition: int
) -> Staged:
    """Stage the rows of a task; `partition` is the number of its partition.

    Raises ConfigurationError if a later batch was committed, TakenOver if another owner has taken the transactional id,
    and FlintError if the broker refuses a message or cannot route it.
    """
    with _fencing_errors(options), ReconnectingClient(options.endpoint, confirms=True, patient=True) as client:
        # Each task of a batch opens the stage, because the broker gives the same owner the same answer.
        stage = client.call(lambda channel: channel.stage_open(options.transactional_id, batch.owner))
        staged = Staged(stage.epoch)
        if batch.number < stage.last_batch:
            raise ConfigurationError(
                f"batch {batch.number} of the transactionalId '{options.transactional_id}' comes when batch "
                f"{stage.last_batch} is published: numbers must grow. Set a higher batchId or another "
                "transactionalId; a query with an old checkpoint needs a new checkpoint location"
            )
        if batch.number == stage.last_batch:
            # The rows are read nevertheless, because stateful queries write their state after the last row.
            for _ in batches:
                pass
            return staged
        stager = _Stager(options, encoder, client, batch, staged)
        for number, piece in enumerate(pieces(batches, options.batch_size)):
            stager.stage(place_of(partition, number), piece)
            staged.messages += sum(part.num_rows for part in piece)
        stager.finish()
    return staged


class _Stager:
    """Stages pieces in order, and keeps the last one until the broker has all of it.

    If the connection is lost before that, the last piece is staged again with another attempt number, and then the
    current one.
    """

    def __init__(
        self, options: WriteOptions, encoder: RowEncoder, client: ReconnectingClient, batch: Batch, staged: Staged
    ) -> None:
        self._options = options
        self._encoder = encoder
        self._client = client
        self._batch = batch
        self._staged = staged
        self._channel: fc.Channel | None = None
        self._last: tuple[int, list[pa.RecordBatch]] | None = None

    def stage(self, place: int, piece: list[pa.RecordBatch]) -> None:
        """Stage a piece; the broker may confirm it later. Raises FlintError."""
        self._client.call(partial(self._stage, place, piece))
        self._last = place, piece

    def finish(self) -> None:
        """Wait until the broker has all pieces. Raises FlintError."""
        if self._last is not None:
            self._client.call(self._finish)

    def _stage(self, place: int, piece: list[pa.RecordBatch], channel: fc.Channel) -> None:
        self._resend_if_reconnected(channel)
        self._send(place, piece, channel)

    def _finish(self, channel: fc.Channel) -> None:
        self._resend_if_reconnected(channel)
        channel.wait_for_stage(timeout=CONFIRM_SECONDS)

    def _resend_if_reconnected(self, channel: fc.Channel) -> None:
        if channel is not self._channel:
            if self._last is not None:
                self._send(*self._last, channel)
            self._channel = channel

    def _send(self, place: int, piece: list[pa.RecordBatch], channel: fc.Channel) -> None:
        attempt = secrets.randbits(_ATTEMPT_BITS)
        rows = chain.from_iterable(map(self._encoder.rows, piece))
        channel.stage_ahead(
            self._options.transactional_id,
            self._staged.epoch,
            self._batch.number,
            place,
            attempt,
            rows,
            timeout=CONFIRM_SECONDS,
        )
        self._staged.attempts[place] = attempt


def place_of(partition: int, number: int) -> int:
    """The place of a piece: number `number` of a partition. Raises FlintError if the broker has no such place."""
    if partition >= PARTITIONS_MAX:
        raise FlintError(f"the data has more than {PARTITIONS_MAX} partitions: coalesce the data")
    if number >= PIECES_MAX:
        raise FlintError(
            f"partition {partition} has more than {PIECES_MAX} pieces, which one batch can have: repartition the "
            "data, or limit micro-batches"
        )
    return partition * PIECES_MAX + number


def pieces(batches: Iterator[pa.RecordBatch], most_messages: int) -> Iterator[list[pa.RecordBatch]]:
    """Divide rows, in order, into pieces of at most `most_messages` messages and about PIECE_BYTES bytes."""
    piece: list[pa.RecordBatch] = []
    messages = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most_messages):
            part = batch.slice(start, most_messages)
            if piece and (messages + part.num_rows > most_messages or size + part.nbytes > PIECE_BYTES):
                yield piece
                piece = []
                messages = size = 0
            piece.append(part)
            messages += part.num_rows
            size += part.nbytes
    if piece:
        yield piece


def commit(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], batch_number: int) -> None:
    """Publish the staged messages of a batch, on the driver. A batch that was committed before is not published again.

    Raises TakenOver if another owner has taken the transactional id, which discarded all staged messages.
    """
    staged = _staged(messages)
    committed_attempts: dict[int, int] = {}
    for one in staged:
        committed_attempts |= one.attempts
    if not committed_attempts:
        return
    # The broker refuses the commit if a task has staged with an older epoch.
    epoch = max(one.epoch for one in staged)
    ordered = dict(sorted(committed_attempts.items()))
    with _fencing_errors(options), ReconnectingClient(options.endpoint, confirms=False, patient=True) as client:
        client.call(lambda channel: channel.stage_commit(options.transactional_id, epoch, batch_number, ordered))


def abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], batch_number: int) -> None:
    """Discard the staged messages of a failed batch. If the broker cannot be reached, the next commit discards them."""
    staged = _staged(messages)
    if not staged:
        return
    epoch = max(one.epoch for one in staged)
    with suppress(FlintError), ReconnectingClient(options.endpoint, confirms=False, patient=False) as client:
        client.call(lambda channel: channel.stage_abort(options.transactional_id, epoch, batch_number))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """The results of tasks that succeeded; Spark passes None for the others."""
    return [message for message in messages if isinstance(message, Staged)]


@contextmanager
def _fencing_errors(options: WriteOptions) -> Iterator[None]:
    """Raise refusals of the broker as errors for users: TakenOver, or FlintError for a batch with too many pieces."""
    with user_errors(options.endpoint):
        try:
            yield
        except fc.ChannelClosed as error:
            if error.code == PreconditionFailed.code and "taken over" in error.text:
                raise TakenOver(
                    f"another query or job has taken over the transactionalId '{options.transactional_id}', and "
                    "only the last one can continue: give each its own. This one can continue only with another "
                    "transactionalId, and may then publish its last micro-batch twice"
                ) from None
            if error.code == PreconditionFailed.code and "attempts: commit or abort" in error.text:
                raise FlintError(
                    f"a batch has more pieces than the broker keeps for one batch ({STAGE_ATTEMPTS_MAX}): set the "
                    "option batchSize higher, write fewer partitions, or limit micro-batches (maxMessagesPerTrigger)"
                ) from None
            raise
