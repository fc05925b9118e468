"""Exactly once: tasks stage what they have, which nobody sees, and the driver's commit publishes it as a whole.

A batch has a number. The broker remembers the last one that was committed under a transactional id: a batch that runs
again, because nobody heard of its commit, publishes nothing. Who writes is told apart by the owner: a query that begins
anew, with a new checkpoint, has another one, and begins at batch 0.

A task stages pieces, one after another, each complete for itself: a broker that goes away costs the pieces that were on
their way, two at most, and not the task, whose rows are gone once they were read. Each try of a piece has a random
number. So what a task left behind that was taken for dead is never mistaken for what its successor staged.
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
from flintmq.spark.writing.options import WriteOptions
from flintmq.spark.writing.publisher import CONFIRM_SECONDS
from flintmq.spark.writing.rows import RowEncoder

# A piece ends here, too, or behind the first record batch that is larger. It is kept until the broker has it.
PIECE_BYTES: Final = 32 * 1024 * 1024
# A piece's place in the whole, by which the broker publishes: the partition of its rows, then its number there. The
# broker takes places below 2**31.
PARTITIONS_MAX: Final = 1 << 16
PIECES_MAX: Final = 1 << 15
_ATTEMPT_BITS: Final = 62


class TakenOver(FlintError):
    """Somebody else writes with this transactional id."""


@dataclass(frozen=True)
class Batch:
    """What is published as a whole: its number, and whose numbers these are."""

    owner: str
    number: int


@dataclass
class Staged(WriterCommitMessage):
    """What one task staged: the attempt that counts, for the place of each piece."""

    epoch: int
    messages: int = 0
    attempts: dict[int, int] = field(default_factory=dict)


def stage(
    options: WriteOptions, encoder: RowEncoder, batches: Iterator[pa.RecordBatch], batch: Batch, partition: int
) -> Staged:
    """What a task does, on an executor. Raises FlintError when the broker did not take or route a message."""
    with _fencing_errors(options), ReconnectingClient(options.endpoint, confirms=True, patient=True) as client:
        # All tasks of a batch ask this, whoever is first: to the same owner, it is the same answer.
        stage = client.call(lambda channel: channel.stage_open(options.transactional_id, batch.owner))
        staged = Staged(stage.epoch)
        if batch.number < stage.last_batch:
            raise ConfigurationError(
                f"batch {batch.number} of the transactionalId '{options.transactional_id}' comes when batch "
                f"{stage.last_batch} is published: numbers have to grow. Give it a higher batchId or another "
                "transactionalId; a query that has an old checkpoint needs a new checkpoint location"
            )
        if batch.number == stage.last_batch:
            # The rows have to be asked for all the same: queries that keep state write it behind their last row.
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
    """Stages piece after piece, and keeps the last one until the broker has all of it: if the connection is lost before
    that, it goes again under another number, and the one in hand too.
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
        """Raises FlintError."""
        self._client.call(partial(self._stage, place, piece))
        self._last = place, piece

    def finish(self) -> None:
        """The broker has all of it then. Raises FlintError."""
        if self._last is not None:
            self._client.call(self._finish)

    def _stage(self, place: int, piece: list[pa.RecordBatch], channel: fc.Channel) -> None:
        self._go_on(channel)
        self._send(place, piece, channel)

    def _finish(self, channel: fc.Channel) -> None:
        self._go_on(channel)
        channel.wait_for_stage(timeout=CONFIRM_SECONDS)

    def _go_on(self, channel: fc.Channel) -> None:
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
    """Raises FlintError for more than the broker can tell apart."""
    if partition >= PARTITIONS_MAX:
        raise FlintError(f"partition {partition} is more than {PARTITIONS_MAX} can be written: coalesce the data")
    if number >= PIECES_MAX:
        raise FlintError(
            f"partition {partition} is larger than can be published at once ({PIECES_MAX} pieces): repartition the "
            "data, or limit a micro-batch"
        )
    return partition * PIECES_MAX + number


def pieces(batches: Iterator[pa.RecordBatch], most_messages: int) -> Iterator[list[pa.RecordBatch]]:
    """The rows, in order, in pieces that are neither too many messages nor too many bytes."""
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
    """Publish what the tasks staged, on the driver. What is published already stays as it is.

    Raises TakenOver when another owner has taken the transactional id, which threw away what was staged.
    """
    staged = _staged(messages)
    attempts: dict[int, int] = {}
    for one in staged:
        attempts |= one.attempts
    if not attempts:
        return
    # Who staged with an older epoch did so for nothing, and the broker says it.
    epoch = max(one.epoch for one in staged)
    ordered = dict(sorted(attempts.items()))
    with _fencing_errors(options), ReconnectingClient(options.endpoint, confirms=False, patient=True) as client:
        client.call(lambda channel: channel.stage_commit(options.transactional_id, epoch, batch_number, ordered))


def abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], batch_number: int) -> None:
    """Throw away what tasks staged before others failed. What cannot be reached now goes with the next commit."""
    staged = _staged(messages)
    if not staged:
        return
    epoch = max(one.epoch for one in staged)
    with suppress(FlintError), ReconnectingClient(options.endpoint, confirms=False, patient=False) as client:
        client.call(lambda channel: channel.stage_abort(options.transactional_id, epoch, batch_number))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Tasks that failed have no message."""
    return [message for message in messages if isinstance(message, Staged)]


@contextmanager
def _fencing_errors(options: WriteOptions) -> Iterator[None]:
    with user_errors(options.endpoint):
        try:
            yield
        except fc.ChannelClosed as error:
            if error.code == PreconditionFailed.code and "taken over" in error.text:
                raise TakenOver(
                    f"another query or job has taken over the transactionalId '{options.transactional_id}', and "
                    "whoever comes last goes on: give each its own. This one can go on with another transactionalId "
                    "only, and may then publish its last micro-batch twice"
                ) from None
            if error.code == PreconditionFailed.code and "attempts: commit or abort" in error.text:
                raise FlintError(
                    f"a batch has more pieces than the broker keeps of one ({STAGE_ATTEMPTS_MAX}): set the option "
                    "batchSize higher, write fewer partitions, or limit a micro-batch (maxMessagesPerTrigger)"
                ) from None
            raise
