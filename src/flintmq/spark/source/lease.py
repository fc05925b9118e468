"""A leased queue: an ordinary queue that is read like a stream.

The broker leases the messages under the option consumerName and numbers them with increasing positions. A micro-batch
is a range of positions, which any number of tasks can fetch any number of times. It is settled when Spark asks for the
next batch, because Spark has committed it by then. A driver that died after it leased messages, and before Spark wrote
them to its log, finds them again as the next batch.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError, NotFound, PreconditionFailed
from flintmq.base.limits import LEASE_EXTEND_MAX_BYTES, LEASE_EXTEND_MAX_MESSAGES
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import QueryFailed
from flintmq.spark.source.lease_renewal import LeaseRenewal
from flintmq.spark.source.options import EARLIEST, ReadOptions
from flintmq.spark.source.prefetcher import Prefetcher
from flintmq.spark.source.queue_source import BatchUnread, DataLost, QueueSource

# The most messages of a micro-batch, because the broker tracks each leased message in memory.
BATCH_MAX_MESSAGES: Final = 1_000_000

# The capability of brokers that report how far a lease was fetched.
_CAPABILITY: Final = "flintmq.lease.query"
# The low bits of an epoch, which count the owners of one lease; the other bits are the number of the lease.
_EPOCHS_BITS: Final = 32

T = TypeVar("T")


class Lease(QueueSource):
    """The lease of one query on one queue."""

    def __init__(self, client: ReconnectingClient, options: ReadOptions, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._name = options.consumer_name
        self._options = options
        # The epoch that the broker gave this query; 0 before the lease was opened.
        self._epoch = 0
        self._renewal: LeaseRenewal | None = None
        # Tasks have read all committed messages before this position.
        self._read_up_to = -1
        self._check_options()

    def _check_options(self) -> None:
        if not self._name:
            raise ConfigurationError(
                f"the option consumerName is missing: '{self._queue}' is not a stream. The broker keeps the progress "
                "of the query under this name: choose one that stays the same after a restart, and use it for no other "
                "query"
            )
        if self._options.starting.get(self._queue, EARLIEST) != EARLIEST:
            raise ConfigurationError(
                f"'{self._queue}' is not a stream: it is always read from its oldest message on. Remove the options "
                "startingOffsets and startingOffsetsByTimestamp"
            )

    # -- progress --------------------------------------------------------------------------------------------------

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
        """Release what an earlier query leased under this name, and begin a lease with another number.

        The earlier query then fails, instead of reading alternately with this one.
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
        """Check that tasks have read a committed batch. Raises BatchUnread.

        Spark commits a batch without reading it if the sink skips the batch's number. Spark's file sinks do that in a
        directory to which a query with another checkpoint has written.
        """
        if start == end or end <= self._read_up_to or self._options.settle_unread or number != self.lease:
            return
        if self._client.has(_CAPABILITY):
            now = self._call(lambda channel: channel.lease_query(self._queue, self._name))
            if now.first < end and now.fetched <= start:
                raise BatchUnread(
                    f"Spark has committed a batch of {end - start} messages of queue '{self._queue}' that none of its "
                    "tasks has read: the sink already has a batch of that number from a query with another checkpoint, "
                    "and skipped this one; or a function of foreachBatch did not use its rows. The messages are still "
                    "leased. Start with a new checkpoint location and, if the sink is a directory of files, with a "
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
        """The first position of a query that may lose messages.

        If the broker's data is older than the checkpoint (a restored backup), the lease would assign positions that the
        checkpoint has already used. The lease is then released, and the positions belong to another lease.
        """
        now = self._open()
        if number == self.lease and offset > now.next:
            self._call(lambda channel: channel.lease_release(self._queue, self._name, self._epoch))
            now = self._open()
        return now.first

    def _settle(self, first: int, offset: int) -> None:
        """Settle positions before `offset` in several calls, so that the broker serves other clients between them."""
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
                "declared again",
            )
        if offset < now.first:
            raise self._lost(
                offset, f"is already at position {now.first}: another query continued it, or leaseTimeout passed"
            )

    def _lost(self, offset: int, why: str) -> DataLost:
        return DataLost(
            f"position {offset} of queue '{self._queue}', where this query continues, is no longer leased under the "
            f"consumerName '{self._name}': the lease {why}. Start with a new checkpoint location, or set the "
            "option failOnDataLoss to false to continue with the messages that exist"
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
        """Open the lease: from now on, calls of other queries with the same name are refused."""
        timeout_ms = self._options.lease_timeout_ms
        lease = self._client.call(lambda channel: channel.lease_open(self._queue, self._name, 0, timeout_ms))
        self._epoch = lease.epoch
        if timeout_ms:
            self.close()
            self._renewal = LeaseRenewal(self._options.endpoint, self._queue, self._name, lease.epoch, timeout_ms)
        return lease

    def _info(self) -> fc.LeaseInfo:
        """The state of the lease, which is opened first if necessary."""
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
                    "query was using it: start the query again with a new checkpoint location to continue with the "
                    "messages that are on the queue"
                ) from None
            if error.code != PreconditionFailed.code:
                raise
            if "taken over" in error.text:
                raise QueryFailed(
                    f"another query has begun to read queue '{self._queue}' with the consumerName '{self._name}', and "
                    "this one ends: a consumerName is for one query, so give each its own. (A query that loads a queue "
                    "twice, for a self-join or a union, has two readers: load the queue once, or give each load its "
                    "own consumerName)"
                ) from None
            if "timed out" in error.text:
                raise DataLost(
                    f"the messages that this query had leased were returned to queue '{self._queue}', because the "
                    "lease was not used for the time of the option leaseTimeout: set a longer one, and start with a "
                    "new checkpoint location, or set failOnDataLoss to false to continue with the messages that exist"
                ) from None
            raise

    # -- messages -------------------------------------------------------------------------------------------------

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """The messages from position `start` up to, not including, `end`, as chunks (see wire/amqp091/chunk.py).

        Transient messages are missing after a restart of the broker. Raises FlintError.
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
                raise self._lost(offset, "has not reached this position")
            offset = chunk.next_offset
            if chunk.record_count:
                yield chunk.data


def lease_of(epoch: int) -> int:
    """The number of the lease that an epoch belongs to. A later lease of the same name has another number."""
    return epoch >> _EPOCHS_BITS
