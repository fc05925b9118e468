"""An ordinary queue read like a stream: the broker leases its messages under the name of the query's consumer.

What is leased gets positions, which only grow: a micro-batch is a range of them, fetched as often as it takes, by
any number of tasks. It is settled when Spark asks for the batch after it, and so has it for good. Spark's log may lack
what was leased last: a driver that died between the two finds it again, as the next batch.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, NotFound, PreconditionFailed
from flintmq.base.limits import LEASE_EXTEND_MAX_BYTES, LEASE_EXTEND_MAX_MESSAGES
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import QueryFailed
from flintmq.spark.reading.lease_renewal import LeaseRenewal
from flintmq.spark.reading.options import EARLIEST, ReadOptions
from flintmq.spark.reading.prefetcher import Prefetcher
from flintmq.spark.reading.queue_source import BatchUnread, DataLost, QueueSource

# Of what is leased the broker keeps track message by message, and it is everybody's broker.
BATCH_MAX_MESSAGES: Final = 1_000_000

# Of a broker that can tell how far a lease was fetched.
_CAPABILITY: Final = "flintmq.lease.query"
# What of an epoch tells it from others of the same lease.
_EPOCHS_BITS: Final = 32

T = TypeVar("T")


class Lease(QueueSource):
    def __init__(self, client: ReconnectingClient, options: ReadOptions, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._name = options.consumer_name
        self._options = options
        # Of the lease this query has; 0 before it was opened.
        self._epoch = 0
        self._renewal: LeaseRenewal | None = None
        # Up to here, what Spark has committed was read by its tasks.
        self._read_up_to = -1
        self._check_options()

    def _check_options(self) -> None:
        if not self._name:
            raise ConfigurationError(
                f"the option consumerName is missing: '{self._queue}' is not a stream, and what the query has read of "
                "it is kept under a name of your choice, the same after every restart and another for every query"
            )
        if self._options.starting.get(self._queue, EARLIEST) != EARLIEST:
            raise ConfigurationError(
                f"'{self._queue}' is not a stream: it is read from its oldest message on, so that the options "
                "startingOffsets and startingOffsetsByTimestamp cannot choose another start"
            )

    # -- going on -------------------------------------------------------------------------------------------------

    def start(self) -> int:
        return self._info().first

    @property
    def lease(self) -> int:
        if not self._epoch:
            self._open()
        return lease_of(self._epoch)

    def close(self) -> None:
        if self._renewal is not None:
            self._renewal.close()

    def begin(self, offset: int, number: int) -> int:
        """What others had leased under the name goes back: their places are not for this query to go on with, and
        theirs is another lease from now on, so that both do not read by turns.
        """
        if self._info().next == 0:
            return 0
        self._call(lambda channel: channel.lease_release(self._queue, self._name, self._epoch))
        return self._open().first

    def available(self, number: int, start: int, end: int) -> tuple[int, int]:
        now = self._info()
        try:
            self._check_leased(number, start, now)
        except DataLost:
            if self._options.fail_on_data_loss:
                raise
            if number != self.lease:
                return end, end
            start = min(max(start, now.first), end)
        return start, min(end, max(start, now.next))

    def check_read(self, number: int, start: int, end: int) -> None:
        """Spark commits a batch also where its sink knows the batch's number, and takes it for one that it has: its own
        sinks of files do, in a directory that a query with another checkpoint has written to. No task reads then.
        """
        if start == end or end <= self._read_up_to or self._options.settle_unread or number != self.lease:
            return
        if self._client.has(_CAPABILITY):
            now = self._call(lambda channel: channel.lease_query(self._queue, self._name))
            if now.first < end and now.fetched <= start:
                raise BatchUnread(
                    f"Spark has committed a batch of {end - start} messages of queue '{self._queue}' that none of its "
                    "tasks has read: the sink has a batch of that number already, of a query with another checkpoint, "
                    "and left this one out; or a function of foreachBatch did not use its rows. The messages are still "
                    "leased. Start with a new checkpoint location and, where the sink is a directory of files, with a "
                    "new directory. If batches need not be read, set the option settleUnread to true"
                )
        self._read_up_to = end

    def resume(self, offset: int, number: int) -> int:
        try:
            now = self._info()
            self._check_leased(number, offset, now)
        except DataLost:
            if self._options.fail_on_data_loss:
                raise
            return self._begin_again(offset, number)
        self._settle(now.first, offset)
        return offset

    def _begin_again(self, offset: int, number: int) -> int:
        """Where to begin again, as far as it is allowed to lose messages.

        Where the broker's data are older than the checkpoint (a backup), the lease would give out positions a second
        time that the checkpoint has had already: so they are those of another lease.
        """
        now = self._open()
        if number == self.lease and offset > now.next:
            self._call(lambda channel: channel.lease_release(self._queue, self._name, self._epoch))
            now = self._open()
        return now.first

    def _settle(self, first: int, offset: int) -> None:
        """In steps, each for good, so that the broker's other clients have their turn between them."""
        while first < offset:
            first = min(first + LEASE_EXTEND_MAX_MESSAGES, offset)
            self._settle_before(first)

    def _settle_before(self, position: int) -> None:
        self._call(lambda channel: channel.lease_settle(self._queue, self._name, self._epoch, position))

    def _check_leased(self, number: int, offset: int, now: fc.LeaseInfo) -> None:
        if number != self.lease or offset > now.next:
            raise self._lost(
                offset,
                "was released, a query with a new checkpoint has begun with this name, or the queue was deleted and "
                "made anew",
            )
        if offset < now.first:
            raise self._lost(
                offset, f"is at position {now.first} already: another query went on with it, or leaseTimeout passed"
            )

    def _lost(self, offset: int, why: str) -> DataLost:
        return DataLost(
            f"position {offset} of queue '{self._queue}', where this query goes on, is not leased under the "
            f"consumerName '{self._name}' any more: the lease {why}. Start with a new checkpoint location, or set the "
            "option failOnDataLoss to false to go on with what is there"
        )

    def end(self) -> int:
        lease = self._info()
        return lease.next + lease.ready

    def extend(self, start: int, messages: int, size: int) -> int:
        wanted = start + min(messages, BATCH_MAX_MESSAGES)
        lease = self._info()
        left = size
        while lease.next < wanted and lease.ready and left > 0:
            before = lease.next
            lease = self._extend(min(wanted - before, LEASE_EXTEND_MAX_MESSAGES), min(left, LEASE_EXTEND_MAX_BYTES))
            if lease.next == before:
                break
            left -= lease.size
        return min(lease.next, wanted)

    def _open(self) -> fc.LeaseInfo:
        """From now on this query is the one that reads under its name."""
        timeout_ms = self._options.lease_timeout_ms
        lease = self._client.call(lambda channel: channel.lease_open(self._queue, self._name, 0, timeout_ms))
        self._epoch = lease.epoch
        if timeout_ms:
            self.close()
            self._renewal = LeaseRenewal(self._options.endpoint, self._queue, self._name, lease.epoch, timeout_ms)
        return lease

    def _info(self) -> fc.LeaseInfo:
        if not self._epoch:
            self._open()
        return self._extend(0, 0)

    def _extend(self, messages: int, size: int) -> fc.LeaseInfo:
        return self._call(lambda channel: channel.lease_extend(self._queue, self._name, self._epoch, messages, size))

    def _call(self, operation: Callable[[fc.Channel], T]) -> T:
        try:
            return self._client.call(operation)
        except fc.ChannelClosed as error:
            if error.code == NotFound.code and "lease" in error.text:
                raise DataLost(
                    f"the lease of queue '{self._queue}' under the consumerName '{self._name}' was released while this "
                    "query was reading by it: start it again with a new checkpoint location, to go on with what is on "
                    "the queue"
                ) from None
            if error.code != PreconditionFailed.code:
                raise
            if "taken over" in error.text:
                raise QueryFailed(
                    f"another query has begun to read queue '{self._queue}' with the consumerName '{self._name}', and "
                    "this one ends: a consumerName is for one query, so give each its own. (A query that reads a queue "
                    "twice, in a join with itself or a union, is two readers, too: load it once, or give each load its "
                    "own consumerName)"
                ) from None
            if "timed out" in error.text:
                raise DataLost(
                    f"what this query had leased of queue '{self._queue}' has gone back to it, because nobody called "
                    "for as long as the option leaseTimeout says: choose a longer one, and start with a new checkpoint "
                    "location, or set the option failOnDataLoss to false to go on with what is there"
                ) from None
            raise

    # -- messages -------------------------------------------------------------------------------------------------

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """The messages of a range of positions, as chunks (see wire/amqp091/chunk.py). Raises FlintError.

        There may be fewer: transient messages end with the broker that has them.
        """
        size = self._options.fetch_bytes
        name = self._name
        prefetcher = Prefetcher(
            self._client, lambda channel, at: channel.lease_chunks(self._queue, name, at, end, size)
        )
        offset = start
        while offset < end:
            chunk = prefetcher.chunk(offset)
            if chunk is None:
                raise self._lost(offset, "has not come as far")
            offset = chunk.next_offset
            if chunk.record_count:
                yield chunk.data


def lease_of(epoch: int) -> int:
    """Which lease an epoch belongs to: one that has the name of another has another number."""
    return epoch >> _EPOCHS_BITS
